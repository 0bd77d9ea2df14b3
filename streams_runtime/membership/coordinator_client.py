"""The calls of a coordinator's HTTP contract that members and their drivers make, typed.

Rule: every call either gives an answer or raises one of `coordinator_errors`. A call without a usable answer is
repeated with growing pauses while its `Patience` lasts, so that it survives a restart of the coordinator. Every call
here may be repeated, because the coordinator commits what it answers. Source of the calls: JoinGroup, SyncGroup,
Heartbeat and LeaveGroup of Kafka's classic group protocol.
"""

from __future__ import annotations

import base64
import contextlib
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

from assignor.access.tls import client_context, tls_problem
from assignor.coordinator_calls import CallerToken, check_url, group_path, refusal_of
from streams_runtime.membership.bearer_auth import BearerAuth
from streams_runtime.membership.call_answers import ANSWER_TIMEOUT_MS, failure, heartbeat_body, join_body
from streams_runtime.membership.calls import (
    FetchedAssignment,
    GroupDefinition,
    HeartbeatNews,
    JoinReply,
    JoinRequest,
    MemberHeartbeat,
    ProcessHeartbeatReply,
)
from streams_runtime.membership.coordinator_errors import CoordinatorError, CoordinatorUnavailable, coordinator_error
from streams_runtime.membership.repeated_calls import is_patience_over, pause_of_a_patient_call_ms
from streams_runtime.notices import Notice

CONNECT_TIMEOUT_S = 2.0
ANSWER_TIMEOUT_S = ANSWER_TIMEOUT_MS / 1000
LONGEST_RETRY_AFTER_S = 60.0
RAW = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call without a usable answer is repeated. Once `stop` is set, it is not repeated any more."""

    seconds: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)


NO_PATIENCE = Patience()


class CoordinatorClient:
    """One coordinator. Several threads may use it at once. Close it when done.

    `base_url`: where it listens, for example http://127.0.0.1:8080. `token`: the bearer token, if it asks for one;
    instances of the group ask for the same. A `CallerToken` may change meanwhile. Of https, the environment names the
    certificates (`assignor.access.tls`).

    Raises InputError for files of certificates that cannot be used, and for another form of URL, which would otherwise
    look like a coordinator that is down.
    """

    def __init__(self, base_url: str, *, token: str | CallerToken | None = None) -> None:
        check_url(base_url)
        self._base_url = base_url
        self.token = token
        self._http = _http_client(base_url, token, httpx.Limits(max_connections=None, max_keepalive_connections=64))

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
        self, group_id: str, member_id: str, *, min_generation: int, wait_ms: int, patience: Patience = NO_PATIENCE
    ) -> FetchedAssignment | None:
        """Wait up to `wait_ms` for the assignment of that generation or a later one. None when it is not there yet."""
        response = self._request(
            "GET",
            f"{_member_path(group_id, member_id)}/assignment",
            params={"min_generation": min_generation, "wait_ms": wait_ms},
            headers={"Accept": RAW},
            timeout_s=wait_ms / 1000 + ANSWER_TIMEOUT_S,
            patience=patience,
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
        """A connection of its own for the heartbeats of this process. The caller closes it."""
        return ProcessHeartbeats(self._base_url, self.token, group_id)

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
        timeout_s: float = ANSWER_TIMEOUT_S,
        patience: Patience = NO_PATIENCE,
    ) -> dict[str, object]:
        return _document(self._request(method, path, body=body, timeout_s=timeout_s, patience=patience))

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        params: Mapping[str, int | str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
        patience: Patience = NO_PATIENCE,
        accept: tuple[int, ...] = (),
    ) -> httpx.Response:
        def once() -> httpx.Response:
            response = _send(self._http, method, path, timeout_s, json=body, params=params, headers=headers)
            if response.status_code not in accept:
                _raise_for_problem(response)
            return response

        repeated = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(CoordinatorUnavailable),
            wait=_pause_s,
            stop=_is_over(patience),
            sleep=tenacity.sleep_using_event(patience.stop),
            reraise=True,
        )
        return repeated(once)


class ProcessHeartbeats:
    """The connection that the heartbeats of one process go over, one after the other.

    It is one TCP connection, used for nothing else, because the coordinator takes its end for the end of the process.
    When it breaks, the next heartbeat opens another.
    """

    def __init__(self, base_url: str, token: str | CallerToken | None, group_id: str) -> None:
        self._path = f"{group_path(group_id)}/heartbeat"
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)
        self._http = _http_client(base_url, token, limits)
        self._socket: socket.socket | None = None
        self._broken_off = False

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

        `notices`: what the process has to tell people, empty when that has not changed. `timeout_s`: beyond `wait_ms`.
        Never repeated, because the next heartbeat is the repetition. Raises CoordinatorError when all are refused,
        CoordinatorUnavailable.
        """
        body: dict[str, object] = {"members": {member_id: heartbeat_body(each) for member_id, each in members.items()}}
        if known is not None:
            body["known"] = known
        if notices:
            body["notices"] = [notice.document() for notice in notices]
        response = _send(
            self._http,
            "POST",
            self._path,
            wait_ms / 1000 + timeout_s,
            json=body,
            params={"wait_ms": wait_ms},
            extensions={"trace": self._trace},
        )
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
        self._broken_off = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """By the thread that sends."""
        self._http.close()

    def _trace(self, event: str, info: Mapping[str, object]) -> None:
        """Remember the socket: the HTTP client itself offers no way to end a request from another thread."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            stream = info["return_value"]
            self._socket = stream.get_extra_info("socket")  # type: ignore[attr-defined]
            if self._broken_off:
                self.break_off()


def _http_client(base_url: str, token: str | CallerToken | None, limits: httpx.Limits) -> httpx.Client:
    return httpx.Client(
        base_url=base_url.rstrip("/"),
        headers={"User-Agent": _user_agent()},
        auth=BearerAuth(token),
        timeout=httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        limits=limits,
        trust_env=False,  # a proxy that the environment names must not see loopback calls
        verify=client_context(base_url, httpx.create_ssl_context),
    )


def _user_agent() -> str:
    """Says which process of which user calls: the coordinator keeps it with what the caller declares."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in many containers
        user = f"user {os.getuid()}"
    who = f"{user}@{socket.gethostname()}, process {os.getpid()}"
    return f"assignor/{version('assignor')} ({''.join(letter if letter.isascii() else '?' for letter in who)})"


def _send(http: httpx.Client, method: str, path: str, timeout_s: float, **more: Any) -> httpx.Response:
    """Raises CoordinatorUnavailable when no answer came."""
    timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
    try:
        return http.request(method, path, timeout=timeout, **more)
    except httpx.TransportError as fault:
        said = tls_problem(fault) or f"{type(fault).__name__}: {fault}"
        raise CoordinatorUnavailable(f"{method} {path}: {said}") from fault


def _is_over(patience: Patience) -> Callable[[tenacity.RetryCallState], bool]:
    return lambda repeated: (
        patience.stop.is_set()
        or is_patience_over(1000 * (repeated.seconds_since_start or 0.0), 1000 * patience.seconds)
    )


def _pause_s(repeated: tenacity.RetryCallState) -> float:
    """Before a call is repeated: pauses that grow, or what the coordinator asked for and up to as much again."""
    error = None if repeated.outcome is None else repeated.outcome.exception()
    asked_s = error.retry_after_s if isinstance(error, CoordinatorUnavailable) else None
    retry_after_ms = None if asked_s is None else round(asked_s * 1000)
    chance = random.random()  # noqa: S311 (it spreads callers)
    return pause_of_a_patient_call_ms(repeated.attempt_number, retry_after_ms, chance) / 1000


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


def _definition(told: object) -> GroupDefinition | None:
    if not isinstance(told, dict):
        return None
    by, at_ms = told.get("declared_by"), told.get("declared_at_ms")
    at = datetime.fromtimestamp(at_ms / 1000, UTC) if isinstance(at_ms, int) else None
    return GroupDefinition(
        _integer(told, "revision"),
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
