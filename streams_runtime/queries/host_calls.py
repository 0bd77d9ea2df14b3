"""One call of a client to one instance: its answer, or the reason why there is none.

Rules: no call takes longer than its query has left. The query does not fail when an instance cannot be reached, answers
nonsense or says "not here", since another one may know. It fails when it can never be answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from assignor.access.tls import client_context, tls_problem
from assignor.coordinator_calls import CallerToken
from assignor.errors import AssignorFault
from streams_runtime.membership.http_client import BearerAuth
from streams_runtime.queries.problems import FINAL, QueryCode

Answer = TypeVar("Answer")

LONGEST_CALL_S = 2.0
SHORTEST_CALL_S = 0.05
CALLS_A_QUERY = 4
"""A query has time for so many calls that hang."""


class QueryFailed(AssignorFault):
    """There was no answer in time, or there can never be one. `tried`: the last answer of each host.

    `code`: why there can never be an answer; None otherwise.
    """

    def __init__(self, message: str, tried: Mapping[str, str], code: QueryCode | None = None) -> None:
        said = "; ".join(f"{host}: {answer}" for host, answer in tried.items())
        super().__init__(f"{message} ({said})" if said else message)
        self.tried = dict(tried)
        self.code = code


class AnotherApplication(AssignorFault):
    """An instance of another application answers at this address."""


class Tries:
    """What one query has tried, and how long it may go on."""

    def __init__(self, timeout_s: float) -> None:
        self.said: dict[str, str] = {}
        self.unreachable: set[str] = set()
        self._call_s = min(LONGEST_CALL_S, timeout_s / CALLS_A_QUERY)
        self._ends_s = time.monotonic() + timeout_s

    def call_s(self) -> float:
        """How long the next call may take."""
        return max(SHORTEST_CALL_S, min(self._call_s, self._ends_s - time.monotonic()))


class HostCalls:
    """Calls instances over HTTP. Thread-safe. `https`: by TLS, with the certificates that the environment names.

    Raises InputError for files of certificates that cannot be used.
    """

    def __init__(self, token: str | CallerToken | None = None, *, https: bool = False) -> None:
        self._scheme = "https" if https else "http"
        self._http = httpx.Client(
            trust_env=False,
            auth=BearerAuth(token),
            limits=httpx.Limits(max_connections=None),
            verify=client_context(f"{self._scheme}://", httpx.create_ssl_context),
        )

    def get(
        self,
        host: str,
        path: str,
        parameters: Mapping[str, str | int],
        tries: Tries,
        read: Callable[[Mapping[str, Any]], Answer],
    ) -> Answer | None:
        """What `read` makes of the answer; None: ask again, or another instance. Raises QueryFailed."""
        try:
            response = self._http.get(f"{self._scheme}://{host}{path}", params=parameters, timeout=tries.call_s())
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            tries.unreachable.add(host)
            tries.said[host] = f"cannot be reached: {tls_problem(error) or str(error) or type(error).__name__}"
            return None
        tries.unreachable.discard(host)
        document = _document(response)
        if response.status_code == httpx.codes.OK:
            try:
                return read(document)
            except AnotherApplication as other:
                tries.said[host] = str(other)
                return None
            except (LookupError, TypeError, ValueError, AttributeError):
                tries.said[host] = "answered something that no query server says"
                return None
        tries.said[host] = str(document.get("detail") or f"answered {response.status_code}")
        if document.get("code") in FINAL:
            raise QueryFailed("the query cannot be answered", tries.said, QueryCode(document["code"]))
        return None

    def close(self) -> None:
        self._http.close()


def store_path(store: str, *more: str) -> str:
    return "/".join(["/v1/stores", quote(store, safe=""), *more])


def _document(response: httpx.Response) -> Mapping[str, Any]:
    try:
        document = response.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
