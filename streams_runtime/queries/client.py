"""A client for queries of an application's stores. The client finds the instance that has a key, and repeats a query
during a rebalance.

Rules:
- The client first asks the instance with the active copy. If the caller accepts lag, the client also asks the instances
  with standbys, and uses the answer with the lowest lag. Every instance has a global store, so the client asks the
  others if the first does not answer.
- The metadata contain the hosts of each partition. The client requests metadata from several instances, and uses the
  metadata of the newest generation. An instance that has lost its connection to the group may send old metadata. The
  client requests metadata again after ten seconds. The client also requests metadata again each time a query gets no
  usable answer.
- If a query gets no answer within its time limit, the client raises an error with the last answer of each host. The
  client uses the answer "no value" only if the caller accepts the lag of the copy. If an instance sends a final error,
  for example for an unknown store, the query fails at once.

Source: `KafkaStreams.queryMetadataForKey`; KIP-535.
"""

import base64
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

import httpx
import tenacity

from assignor.errors import AssignorFault, InputError
from coordinator_client.calls import CallerToken
from coordinator_client.http_client import http_client, transport_problem
from streams_runtime.common.states import GLOBAL_TASK
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.membership.member_events import PartitionHosts
from streams_runtime.queries.answers import Answer, known_location
from streams_runtime.queries.problems import FINAL, QueryCode, QueryProblem
from streams_runtime.queries.query_results import (
    CopyAnswered,
    StoreSessions,
    StoreValue,
    StoreVersions,
    StoreWindows,
    sessions_of,
    value_of,
    versions_of,
    windows_of,
)
from streams_runtime.queries.store_metadata import (
    ApplicationMetadata,
    KeyQueryMetadata,
    from_document,
    key_query_metadata,
)

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5
METADATA_SOURCES = 3
METADATA_AGE_S = 10.0
LONGEST_CALL_S = 2.0
SHORTEST_CALL_S = 0.05
CALLS_A_QUERY = 4
"""The number of HTTP calls that a query can make, even if all of them time out. The time-out of a call is at most the
query's time limit divided by this number.
"""


class _NoAnswerYet(Exception):
    """No instance has answered the query. The next try may succeed."""


class QueryFailed(AssignorFault):
    """The query got no answer within its time limit, or it got a final error. A final error is an error that every
    instance would send for this query. `tried`: the last answer of each host that the client asked, by host.

    `code`: the code of the final error; None if the time limit was reached.
    """

    def __init__(self, message: str, tried: Mapping[str, str], code: QueryCode | None = None) -> None:
        answers = "; ".join(f"{host}: {answer}" for host, answer in tried.items())
        super().__init__(f"{message} ({answers})" if answers else message)
        self.tried = dict(tried)
        self.code = code


class QueryOptions(TypedDict, total=False):
    """The options of every query. `max_lag`: the largest accepted lag of a copy, in changelog records; None to accept
    only the active copy. `partition`: the partition of the key; needed only if the application writes the keys with a
    custom partitioner. `isolation_level`: READ_COMMITTED to read what the last commit wrote, READ_UNCOMMITTED to read
    also later changes; None for the level that the instance has in its config `isolation.level`.
    """

    max_lag: int | None
    partition: int | None
    isolation_level: IsolationLevel | None


class AnotherApplication(AssignorFault):
    """The instance at this address belongs to another application."""


class Tries:
    """The state of one query: the answers of the asked hosts, the unreachable hosts, and the time that is left."""

    def __init__(self, timeout_s: float) -> None:
        self.answers: dict[str, str] = {}
        self.unreachable: set[str] = set()
        self._call_s = min(LONGEST_CALL_S, timeout_s / CALLS_A_QUERY)
        self._ends_s = time.monotonic() + timeout_s

    def call_s(self) -> float:
        """Returns the time-out for the next HTTP call of the query."""
        return max(SHORTEST_CALL_S, min(self._call_s, self._ends_s - time.monotonic()))


class StateStoreClient(AbstractContextManager["StateStoreClient"]):
    """A client for queries of one application's stores. Several threads may use a client at the same time. The caller
    has to close the client after use. Every method may raise QueryFailed. `QueryOptions` describes the options of
    queries.

    The time-out of an HTTP call is the shortest of three times: 2 s, a quarter of the query's time limit, and the time
    that is left for the query. The time-out is never shorter than 50 ms. If an instance cannot be reached, sends an
    invalid answer, or does not have the partition, the query continues with another instance.
    """

    def __init__(
        self,
        instances: Iterable[str],
        *,
        application_id: str | None = None,
        timeout_s: float = 5.0,
        token: str | CallerToken | None = None,
        https: bool = False,
    ) -> None:
        """`instances`: the host:port of some instances. The client asks the given instances for the addresses of all
        other instances. At least one of the given instances has to run.

        `application_id`: the id of the application; None to use the id that the first instance sends. `timeout_s`: the
        time limit of each query. `token`: the bearer token; None if the instances require no token. `https`: True if
        all instances serve HTTPS. The client cannot detect HTTPS, because Kafka's subscription contains only the host
        and port of an endpoint.

        Raises InputError if `instances` is empty, or if an address, the token or a certificate file cannot be used.
        """
        self._given = tuple(dict.fromkeys(instances))
        if not self._given:
            raise InputError("is empty; give the host:port of at least one", "instances")
        # an address with a password is refused, because error messages show the addresses
        if any("@" in each for each in self._given):
            raise InputError("must be host:port, without a user or a password: give the token as token=", "instances")
        self._hosts = self._given
        self._application_id = application_id
        self._timeout_s = timeout_s
        self._scheme = "https" if https else "http"
        self._http = http_client(f"{self._scheme}://", token, limits=httpx.Limits(max_connections=None))
        self._closed = threading.Event()
        self._metadata: ApplicationMetadata | None = None
        self._metadata_at_s = 0.0

    def get(
        self,
        store: str,
        key: bytes,
        *,
        window_start_ms: int | None = None,
        as_of_ms: int | None = None,
        **options: Unpack[QueryOptions],
    ) -> StoreValue:
        """Returns the value of a key. `key`: the bytes of the key, as the store's key serde writes them.
        `window_start_ms`: the start of the window; only for window stores. `as_of_ms`: the time to read; only for
        versioned stores.
        """
        bounds = {"window_start_ms": window_start_ms, "as_of_ms": as_of_ms}
        return self._query(store, key, "key", value_of, bounds, **options)

    def windows(
        self, store: str, key: bytes, from_ms: int, to_ms: int, *, limit: int = 100, **options: Unpack[QueryOptions]
    ) -> StoreWindows:
        """Returns the windows of a key that start between `from_ms` and `to_ms`, inclusive."""
        bounds = {"from_ms": from_ms, "to_ms": to_ms, "limit": limit}
        return self._query(store, key, "windows", windows_of, bounds, **options)

    def sessions(
        self,
        store: str,
        key: bytes,
        *,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        limit: int = 100,
        **options: Unpack[QueryOptions],
    ) -> StoreSessions:
        """Returns the sessions of a key that end at `earliest_end_ms` or later, and start at `latest_start_ms` or
        earlier. If a bound is None, the range is open at this end.
        """
        bounds = {"earliest_end_ms": earliest_end_ms, "latest_start_ms": latest_start_ms, "limit": limit}
        return self._query(store, key, "sessions", sessions_of, bounds, **options)

    def versions(
        self,
        store: str,
        key: bytes,
        from_ms: int | None = None,
        to_ms: int | None = None,
        *,
        limit: int = 100,
        **options: Unpack[QueryOptions],
    ) -> StoreVersions:
        """Returns the versions of a key that were valid at some time between `from_ms` and `to_ms`, inclusive. If a
        bound is None, the range is open at this end.
        """
        bounds = {"from_ms": from_ms, "to_ms": to_ms, "limit": limit}
        return self._query(store, key, "versions", versions_of, bounds, **options)

    def key_metadata(self, store: str, key: bytes, *, partition: int | None = None) -> KeyQueryMetadata:
        """Returns the partition of a key, and the hosts of its active copy and standbys."""
        tries = Tries(self._timeout_s)
        return self._patiently(
            lambda: self._locate(store, key, partition, tries), f"no instance says which host has {store!r}", tries
        )

    def copies(self, host: str, store: str) -> list[dict[str, Any]]:
        """Returns one host's copies of a store: the task, role, state and lag of each copy. The call is not repeated
        after an error.
        """
        tries = Tries(self._timeout_s)
        self._check_open()
        found = self._get(host, store_path(store), {}, tries, lambda document: list(document["copies"]))
        if found is None:
            raise QueryFailed(f"{host} does not say which copies of {store!r} it has", tries.answers)
        return found

    def close(self) -> None:
        """Closes the client. Idempotent. Running queries raise QueryFailed."""
        self._closed.set()
        self._http.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- queries: they are repeated until an instance answers

    def _query(
        self,
        store: str,
        key: bytes,
        what: str,
        read: Callable[[Mapping[str, Any], CopyAnswered], Answer],
        bounds: Mapping[str, int | None],
        *,
        max_lag: int | None = None,
        partition: int | None = None,
        isolation_level: IsolationLevel | None = None,
    ) -> Answer:
        """`bounds`: the parameters that only this kind of query has. The last parameters are `QueryOptions`."""
        tries = Tries(self._timeout_s)
        path = store_path(store, what)
        given = {**bounds, "max_lag": max_lag, "partition": partition, "isolation_level": isolation_level}
        parameters: dict[str, str | int] = {name: value for name, value in given.items() if value is not None}
        parameters["key_base64"] = base64.b64encode(key).decode()

        def ask(host: str) -> tuple[Answer, CopyAnswered] | None:
            def answer_of(document: Mapping[str, Any]) -> tuple[Answer, CopyAnswered]:
                self._check_application(document["application_id"])
                source = CopyAnswered(
                    host, document["role"], document["lag"], IsolationLevel(document["isolation_level"])
                )
                return read(document, source), source

            return self._get(host, path, parameters, tries, answer_of)

        def once() -> Answer:
            where = self._locate(store, key, partition, tries)
            if where.active is None:
                tries.answers[f"partition {where.partition}"] = "no instance is known to have its active copy"
            hosts = [] if where.active is None else [where.active]
            found = [answer for host in hosts if (answer := ask(str(host))) is not None]
            every_copy_counts = max_lag is not None or where.partition == GLOBAL_TASK.partition
            if every_copy_counts and not any(source.lag == 0 for _, source in found):
                found += [answer for host in where.standbys if (answer := ask(str(host))) is not None]
            if not found:
                self._metadata = None
                raise _NoAnswerYet
            return min(found, key=lambda answer: answer[1].lag)[0]

        return self._patiently(once, f"no answer for a key of {store!r}", tries)

    def _patiently(self, once: Callable[[], Answer], failure: str, tries: Tries) -> Answer:
        self._check_open()
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_NoAnswerYet),
            wait=tenacity.wait_random_exponential(multiplier=FIRST_PAUSE_S, max=LONGEST_PAUSE_S),
            stop=tenacity.stop_before_delay(self._timeout_s),
            # `close` ends this wait, and the next try raises QueryFailed
            sleep=tenacity.sleep_using_event(self._closed),
        )
        try:
            return retrying(once)
        except tenacity.RetryError:
            self._check_open()
            raise QueryFailed(f"{failure} within {self._timeout_s:g} s", tries.answers) from None
        except QueryFailed:
            raise
        except Exception:  # httpx raises errors of several classes if it is closed during a call
            self._check_open()
            raise

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise QueryFailed("this client is closed", {})

    def _get(
        self,
        host: str,
        path: str,
        parameters: Mapping[str, str | int],
        tries: Tries,
        read: Callable[[Mapping[str, Any]], Answer],
    ) -> Answer | None:
        """Makes one call. Returns the answer, converted by the function `read`. Returns None if the caller has to
        repeat the call or to ask another instance. Raises QueryFailed.
        """
        try:
            response = self._http.get(f"{self._scheme}://{host}{path}", params=parameters, timeout=tries.call_s())
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            tries.unreachable.add(host)
            tries.answers[host] = f"cannot be reached: {transport_problem(error)}"
            return None
        tries.unreachable.discard(host)
        document = _document(response)
        if response.status_code == httpx.codes.OK:
            try:
                return read(document)
            except AnotherApplication as other:
                tries.answers[host] = str(other)
                return None
            except (LookupError, TypeError, ValueError, AttributeError):
                tries.answers[host] = "answered something that no query server says"
                return None
        tries.answers[host] = str(document.get("detail") or f"answered {response.status_code}")
        if document.get("code") in FINAL:
            raise QueryFailed("the query cannot be answered", tries.answers, QueryCode(document["code"]))
        return None

    # --- metadata: the hosts of each partition

    def _locate(self, store: str, key: bytes, partition: int | None, tries: Tries) -> KeyQueryMetadata:
        metadata = self._metadata
        if metadata is None or time.monotonic() - self._metadata_at_s > METADATA_AGE_S:
            metadata = self._ask_for_metadata(store, tries)
        try:
            return key_query_metadata(known_location(metadata.stores, store), metadata.hosts, key, partition)
        except QueryProblem as problem:
            if problem.code in FINAL:
                raise QueryFailed(problem.detail, {}, problem.code) from None
            tries.answers["metadata"] = problem.detail
            self._metadata = None
            raise _NoAnswerYet from None

    def _ask_for_metadata(self, store: str, tries: Tries) -> ApplicationMetadata:
        """Requests metadata from several hosts, and returns the newest metadata. Hosts that this query could not reach
        are asked last. A host without an assignment knows only itself, which is enough for a global store.
        """
        found: dict[str, ApplicationMetadata] = {}
        hosts = sorted(self._hosts, key=lambda host: host in tries.unreachable)
        for host in hosts:
            if len(found) == METADATA_SOURCES or (found and host in tries.unreachable):
                break
            metadata = self._get(host, "/v1/metadata", {}, tries, self._metadata_of)
            if metadata is None:
                continue
            location = metadata.stores.get(store)
            if metadata.generation_id == 0 and not (location and location.is_global):
                tries.answers[host] = "has no assignment yet"
            else:
                found[host] = metadata
                self._application_id = metadata.application_id
        if not found:
            if self._metadata is None:
                raise _NoAnswerYet
            return self._metadata  # no host has sent metadata, so the old metadata are used
        newest = max(found.values(), key=lambda metadata: metadata.generation_id)
        if newest.generation_id == 0:
            active = {host: held for each in found.values() for host, held in each.hosts.active.items()}
            newest = ApplicationMetadata(newest.application_id, 0, newest.stores, PartitionHosts(active))
        learnt = map(str, [*newest.hosts.active, *newest.hosts.standby])
        self._hosts = tuple(dict.fromkeys([*found, *learnt, *self._given]))
        self._metadata, self._metadata_at_s = newest, time.monotonic()
        return newest

    def _metadata_of(self, document: Mapping[str, Any]) -> ApplicationMetadata:
        metadata = from_document(document)
        self._check_application(metadata.application_id)
        return metadata

    def _check_application(self, application_id: object) -> None:
        """Raises AnotherApplication if the instance that answered belongs to another application. If an instance of
        this application has ended, an instance of another application may now use its port. Both applications may have
        stores of the same name.
        """
        if self._application_id is not None and application_id != self._application_id:
            raise AnotherApplication(f"serves the application {application_id}, not {self._application_id}")


def store_path(store: str, *more: str) -> str:
    return "/".join(["/v1/stores", quote(store, safe=""), *more])


def _document(response: httpx.Response) -> Mapping[str, Any]:
    try:
        document = response.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
