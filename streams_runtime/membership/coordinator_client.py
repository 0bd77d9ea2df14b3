"""The calls of a coordinator's HTTP contract that members and their drivers make, typed.

Rule: every call either gives an answer or raises a `CoordinatorError` or `CoordinatorUnavailable`. A call without a
usable answer is repeated with growing pauses while its `Patience` lasts, so that it survives a restart of the
coordinator. Every call here may be repeated, because the coordinator commits what it answers. Where there are several
coordinators, a call goes from one to the next by itself (`coordinator_client.calls.ask`), within its time. Source of
the calls: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of Kafka's classic group protocol.
"""

from __future__ import annotations

import base64
import getpass
import os
import random
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Self
from urllib.parse import quote

import httpx
import tenacity

from assignor.errors import InputError
from coordinator_client.access.tls import tls_problem
from coordinator_client.addresses import CoordinatorAddresses, CoordinatorCall
from coordinator_client.calls import (
    Answered,
    Asked,
    CallerToken,
    NoAnswer,
    Unanswered,
    addresses_of,
    ask,
    group_path,
    refusal_of,
)
from streams_runtime.membership.calls import (
    ANSWER_TIMEOUT_MS,
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    CoordinatorError,
    CoordinatorUnavailable,
    FetchedAssignment,
    GroupDefinition,
    HeartbeatNews,
    JoinReply,
    JoinRequest,
    MemberHeartbeat,
    ProcessHeartbeatReply,
    coordinator_error,
    failure,
    heartbeat_body,
    join_body,
)
from streams_runtime.membership.http_client import MOST_KEPT, KeptSockets, http_client
from streams_runtime.reporting.notices import Notice

ANSWER_TIMEOUT_S = ANSWER_TIMEOUT_MS / 1000
LONGEST_RETRY_AFTER_S = 60.0
RAW = "application/octet-stream"
_GROWING_PAUSE = tenacity.wait_random_exponential(multiplier=FIRST_PAUSE_MS / 1000, max=LONGEST_PAUSE_MS / 1000)
_ENDED = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
"""Errors of a request whose connection ended."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The time for which a call without a usable answer is repeated. Once `stop` is set, it is not repeated again."""

    seconds: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)


NO_PATIENCE = Patience()


class CoordinatorClient:
    """One coordinator, or several of one database. Several threads may use it at once. Close it when done.

    `base_url`: where it listens, for example http://127.0.0.1:8080; several URLs are separated by commas. `token`: the
    bearer token, if it asks for one; instances of the group ask for the same. A `CallerToken` may change meanwhile. Of
    https, the environment names the certificates (`coordinator_client.access.tls`).

    Raises InputError for files of certificates that cannot be used, and for another form of URL, which would otherwise
    look like a coordinator that is down.
    """

    def __init__(self, base_url: str, *, token: str | CallerToken | None = None) -> None:
        self.addresses = addresses_of(base_url)
        self.token = token
        for url in self.addresses.urls:
            try:
                httpx.URL(url)
            except httpx.InvalidURL as error:
                raise InputError(f"is no address of a coordinator: {error}", url) from None
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._http = http_client(self.addresses.secured, token, limits=limits, headers={"User-Agent": _user_agent()})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def join(self, group_id: str, request: JoinRequest, *, patience: Patience = NO_PATIENCE) -> JoinReply:
        """Join or rejoin. Raises CoordinatorError, CoordinatorUnavailable."""
        answer = self._call("POST", f"{group_path(group_id)}/subscriptions", body=join_body(request), patience=patience)
        return JoinReply(
            _text(answer, "member_id"),
            _integer(answer, "generation_id"),
            _text(answer, "state"),
            _definition(answer.get("definition")),
            paused=answer.get("paused") is True,
        )

    def assignment(
        self, group_id: str, member_id: str, *, min_generation: int, wait_ms: int
    ) -> FetchedAssignment | None:
        """Wait up to `wait_ms` for the assignment of that generation or a later one. None when it is not there yet."""
        response = self._request(
            "GET",
            f"{_member_path(group_id, member_id)}/assignment",
            params={"min_generation": min_generation},
            headers={"Accept": RAW},
            wait_ms=wait_ms,
        )
        if response.status_code == httpx.codes.NO_CONTENT:
            return None
        if response.headers.get("Content-Type", "").startswith(RAW):
            return _raw_assignment(response)
        answer = _document(response)
        return FetchedAssignment(
            _integer(answer, "generation_id"),
            base64.b64decode(_text(answer, "assignment"), validate=True),
            bool(answer.get("followup")),
        )

    def process_heartbeats(self, group_id: str) -> ProcessHeartbeats:
        """A connection of its own for the heartbeats of this process. The caller closes it. It goes where other calls
        found the group's coordinator, and they follow it.
        """
        return ProcessHeartbeats(self.addresses, self.token, group_id)

    def leave(self, group_id: str, member_id: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Leave the group. Returns as well when the group does not know the member. Raises CoordinatorUnavailable."""
        self._request("DELETE", _member_path(group_id, member_id), timeout_s=timeout_s, accept=(404,))

    def declare(
        self,
        group_id: str,
        definition: Mapping[str, object],
        *,
        replace: bool = False,
        patience: Patience = NO_PATIENCE,
    ) -> None:
        """Declare or change a group. `definition`: `input` of rebalance/1 without members and leader. `replace`: also
        when living members run another topology, which may end them; without it that raises GroupRunsAnotherTopology.
        """
        params = {"replace": "true"} if replace else None
        self._request("PUT", group_path(group_id), body=definition, params=params, patience=patience)

    def describe(self, group_id: str) -> dict[str, Any]:
        """State, generation, members and tasks of a group, as the service describes them."""
        return self._call("GET", group_path(group_id))

    def group_ids(self) -> list[str]:
        """Of every group that the coordinator knows."""
        groups = self._call("GET", "/v1/groups").get("groups")
        return [str(group["group_id"]) for group in groups] if isinstance(groups, list) else []

    def delete_group(self, group_id: str) -> None:
        """Forget a group without members, and its history. Returns as well when there is no such group. Raises
        CoordinatorError for a group with members, CoordinatorUnavailable.
        """
        self._request("DELETE", group_path(group_id), accept=(404,))

    def drain(self, group_id: str) -> None:
        """Tell every member to leave and end, by the stop flag of its next heartbeat."""
        self._request("POST", f"{group_path(group_id)}/drain")

    def rebalances(self, group_id: str) -> dict[str, object]:
        """The history of rebalances, as the service lists it."""
        return self._call("GET", f"{group_path(group_id)}/rebalances")

    def rebalance(self, group_id: str, generation_id: int) -> dict[str, object]:
        """One recorded rebalance, a rebalance/1 document."""
        return self._call("GET", f"{group_path(group_id)}/rebalances/{generation_id}")

    def explanations(self, group_id: str, generation_id: int) -> dict[str, object]:
        """Why every task is where that rebalance put it."""
        return self._call("GET", f"{group_path(group_id)}/rebalances/{generation_id}/explain")

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        patience: Patience = NO_PATIENCE,
    ) -> dict[str, object]:
        return _document(self._request(method, path, body=body, patience=patience))

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        params: Mapping[str, int | str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
        wait_ms: int | None = None,
        patience: Patience = NO_PATIENCE,
        accept: tuple[int, ...] = (),
    ) -> httpx.Response:
        call = CoordinatorCall(path, timeout_s, params or {}, wait_ms)

        def once() -> httpx.Response:
            def send(asked: Asked) -> httpx.Response:
                return _send(self._http, method, asked, json=body, headers=headers)

            _, response = _ask(self.addresses, method, call, send)
            if response.status_code not in accept:
                _raise_for_problem(response)
            return response

        repeated = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(CoordinatorUnavailable),
            wait=pause_s,
            stop=tenacity.stop_any(
                tenacity.stop_after_delay(patience.seconds), tenacity.stop_when_event_set(patience.stop)
            ),
            sleep=tenacity.sleep_using_event(patience.stop),
            reraise=True,
        )
        return repeated(once)


class ProcessHeartbeats:
    """The connection that the heartbeats of one process go over, one after the other.

    It is one TCP connection, used for nothing else, because the coordinator takes its end for the end of the process.
    When it breaks, another one to the same coordinator is opened at once, before the next address is asked, because a
    coordinator that lives does not wait long. When the group has moved to another coordinator, the old connection ends
    only when a heartbeat was answered over the new one, so that no coordinator sees an end first. So does one that gave
    no answer in time.
    """

    def __init__(self, addresses: CoordinatorAddresses, token: str | CallerToken | None, group_id: str) -> None:
        self._addresses = addresses
        self._token = token
        self._path = f"{group_path(group_id)}/heartbeat"
        self._clients: dict[str, httpx.Client] = {}
        self._sockets = KeptSockets()

    def send(
        self,
        members: Mapping[str, MemberHeartbeat],
        *,
        known: str | None = None,
        wait_ms: int = 0,
        timeout_s: float = ANSWER_TIMEOUT_S,
        notices: Sequence[Notice] = (),
    ) -> ProcessHeartbeatReply:
        """One heartbeat for all members. While `known` is the present news, the answer is held for up to `wait_ms`.

        `notices`: what the process has to report, empty when that has not changed. `timeout_s`: beyond `wait_ms`.
        Never repeated, because the next heartbeat is the repetition, at the next address after a failure. Raises
        CoordinatorError when all are refused, CoordinatorUnavailable.
        """
        body: dict[str, object] = {"members": {member_id: heartbeat_body(each) for member_id, each in members.items()}}
        if known is not None:
            body["known"] = known
        if notices:
            body["notices"] = [notice.document() for notice in notices]
        call = CoordinatorCall(self._path, timeout_s, wait_ms=wait_ms, one_address=True)
        address, response = _ask(self._addresses, "POST", call, lambda asked: self._send(asked, body))
        if not response.is_server_error:
            self._is_at(address, response)
        _raise_for_problem(response)
        answer = _document(response)
        answered = answer.get("members")
        if not isinstance(answered, dict):
            raise CoordinatorUnavailable("the answer has no 'members'")
        return ProcessHeartbeatReply(
            _text(answer, "state"),
            _integer(answer, "generation_id"),
            _text(answer, "news"),
            {str(member_id): _member_news(news) for member_id, news in answered.items()},
            paused=answer.get("paused") is True,
        )

    def break_off(self) -> None:
        """End the heartbeat that is being held, and all later ones. Any thread may call this."""
        self._sockets.break_off()

    def close(self) -> None:
        """By the thread that sends."""
        for client in self._clients.values():
            client.close()
        self._sockets.close()

    def _send(self, asked: Asked, body: Mapping[str, object]) -> httpx.Response:
        client, opened = self._client_of(asked.address), self._sockets.opened
        try:
            return _send(client, "POST", asked, json=body, extensions={"trace": self._sockets.trace})
        except Unanswered as fault:
            if isinstance(fault.__cause__, _ENDED) and self._sockets.opened == opened:
                raise Unanswered(str(fault), old_connection_ended=True) from fault
            raise

    def _client_of(self, address: str) -> httpx.Client:
        client = self._clients.pop(address, None)
        if client is None:
            limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)
            client = http_client(address, self._token, limits=limits, headers={"User-Agent": _user_agent()})
        if len(self._clients) >= MOST_KEPT:
            self._clients.pop(next(iter(self._clients))).close()  # the one that was used longest ago
        self._clients[address] = client
        return client

    def _is_at(self, address: str, response: httpx.Response) -> None:
        """The coordinator there has answered: all other connections may end."""
        for other in self._clients.keys() - {address}:
            self._clients.pop(other).close()
        self._sockets.keep_only(response.extensions["network_stream"].get_extra_info("socket"))


def _user_agent() -> str:
    """Says which process of which user calls: the coordinator keeps it with what the caller declares."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in many containers
        user = f"user {os.getuid()}"
    who = f"{user}@{socket.gethostname()}, process {os.getpid()}"
    return f"assignor/{version('assignor')} ({''.join(letter if letter.isascii() else '?' for letter in who)})"


def _ask(
    addresses: CoordinatorAddresses, method: str, call: CoordinatorCall, send: Callable[[Asked], httpx.Response]
) -> Answered[httpx.Response]:
    """Raises CoordinatorUnavailable when no answer came."""
    try:
        return ask(addresses, call, send)
    except NoAnswer as error:
        raise CoordinatorUnavailable(f"{method} {call.path}: {error}") from error


def _send(
    http: httpx.Client, method: str, asked: Asked, extensions: Mapping[str, Any] | None = None, **more: Any
) -> httpx.Response:
    try:
        return http.request(method, asked.url, extensions={**(extensions or {}), "timeout": asked.time_left}, **more)
    except (httpx.TransportError, httpx.InvalidURL) as fault:
        raise Unanswered(tls_problem(fault) or f"{type(fault).__name__}: {fault}") from fault


def pause_s(repeated: tenacity.RetryCallState) -> float:
    """Before a call is repeated: pauses that grow, or what the coordinator asked for and up to as much again."""
    error = None if repeated.outcome is None else repeated.outcome.exception()
    retry_after_ms = error.retry_after_ms if isinstance(error, CoordinatorUnavailable) else None
    if retry_after_ms is None:
        return _GROWING_PAUSE(repeated)
    return retry_after_ms / 1000 * (1 + random.random())  # noqa: S311 (it spreads callers)


def _member_news(news: object) -> HeartbeatNews | CoordinatorError:
    if not isinstance(news, dict):
        raise CoordinatorUnavailable("the answer has no news of a member")
    if "code" in news:
        return coordinator_error(_text(news, "code"), httpx.codes.OK, str(news.get("detail", "")))
    return HeartbeatNews(bool(news.get("rejoin")), bool(news.get("stop")), _integer(news, "assignment_generation"))


def _raw_assignment(response: httpx.Response) -> FetchedAssignment:
    try:
        generation_id = int(response.headers["Assignor-Generation-Id"])
    except (KeyError, ValueError) as fault:
        raise CoordinatorUnavailable("the answer does not say which generation its assignment is of") from fault
    return FetchedAssignment(
        generation_id, response.content, followup=response.headers.get("Assignor-Followup") == "true"
    )


def _member_path(group_id: str, member_id: str) -> str:
    return f"{group_path(group_id)}/members/{quote(member_id, safe='')}"


def _raise_for_problem(response: httpx.Response) -> None:
    if response.is_success:
        return
    refusal = refusal_of(response.status_code, response.content)
    raise failure(
        refusal.code,
        refusal.status,
        refusal.detail or response.reason_phrase,
        may_be_repeated=refusal.may_be_repeated,
        retry_after_s=_retry_after_s(response),
    )


def _retry_after_s(response: httpx.Response) -> float | None:
    """Of an overloaded coordinator, in seconds; a date, which HTTP allows as well, may come from a proxy and is left
    out. One that starts or stops is asked again sooner than it says, because a member that waits does not work.
    """
    if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
        return None
    text = response.headers.get("Retry-After", "")
    return min(float(text), LONGEST_RETRY_AFTER_S) if text.isascii() and text.isdigit() else None


def _definition(document: object) -> GroupDefinition | None:
    if not isinstance(document, dict):
        return None
    by, at_ms = document.get("declared_by"), document.get("declared_at_ms")
    at = datetime.fromtimestamp(at_ms / 1000, UTC) if isinstance(at_ms, int) else None
    return GroupDefinition(
        _integer(document, "revision"),
        None if by is None else str(by),
        None if at is None else at.strftime("%Y-%m-%d %H:%M:%SZ"),
    )


def _document(response: httpx.Response) -> dict[str, object]:
    try:
        document = response.json()
    except ValueError as fault:
        raise CoordinatorUnavailable(f"{response.request.url}: the answer is not JSON") from fault
    if not isinstance(document, dict):
        raise CoordinatorUnavailable(f"{response.request.url}: the answer is not a JSON object")
    return document


def _text(answer: Mapping[str, object], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str):
        raise CoordinatorUnavailable(f"the answer has no text {name!r}")
    return value


def _integer(answer: Mapping[str, object], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CoordinatorUnavailable(f"the answer has no number {name!r}")
    return value
