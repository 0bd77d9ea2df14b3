"""The calls of a coordinator's HTTP contract that members and their drivers make, typed.

Rule: every call either gives an answer or raises one of `coordinator_errors`. A call without a usable answer is
repeated with growing pauses while its `Patience` lasts, so that it survives a restart of the coordinator. Every call
here may be repeated, because the coordinator commits what it answers. Source of the calls: JoinGroup, SyncGroup,
Heartbeat and LeaveGroup of Kafka's classic group protocol.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote

import httpx
import tenacity

from assignor.coordinator_calls import authorization, check_url, group_path, refusal_of
from assignor.types import TaskId
from streams_runtime.membership.coordinator_errors import CoordinatorUnavailable, coordinator_error

CONNECT_TIMEOUT_S = 2.0
ANSWER_TIMEOUT_S = 10.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A first join (`member_id` None) or a rejoin.

    `subscription`: ConsumerProtocolSubscription. Times are in milliseconds.
    """

    subscription: bytes
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str | None = None
    group_instance_id: str | None = None
    incarnation: int | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class JoinReply:
    """`generation_id`: the generation whose assignment the member has to wait for."""

    member_id: str
    generation_id: int
    state: str


@dataclass(frozen=True, slots=True)
class FetchedAssignment:
    """`assignment`: ConsumerProtocolAssignment.

    `followup`: another rebalance follows as soon as all members have fetched their assignments.
    """

    generation_id: int
    assignment: bytes
    followup: bool


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """`rejoin`: a rebalance is being prepared and waits for this member. `stop`: leave the group and end."""

    state: str
    rejoin: bool
    stop: bool


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call without a usable answer is repeated. Once `stop` is set, it is not repeated any more."""

    seconds: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)


NO_PATIENCE = Patience()


class CoordinatorClient:
    """One coordinator. Several threads may use it at once. Close it when done.

    `base_url`: where it listens, for example http://127.0.0.1:8080. `token`: the bearer token, if it asks for one.
    Raises InputError for another form of URL, which would otherwise look like a coordinator that is down.
    """

    def __init__(self, base_url: str, *, token: str | None = None) -> None:
        check_url(base_url)
        self._http = httpx.Client(
            base_url=base_url.rstrip("/"),
            headers=authorization(token),
            timeout=httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,  # a proxy that the environment names must not see loopback calls
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def join(self, group_id: str, request: JoinRequest, *, patience: Patience = NO_PATIENCE) -> JoinReply:
        """Join or rejoin. Raises CoordinatorError, CoordinatorUnavailable."""
        body: dict[str, object] = {
            "session_timeout_ms": request.session_timeout_ms,
            "rebalance_timeout_ms": request.rebalance_timeout_ms,
            "subscription": base64.b64encode(request.subscription).decode("ascii"),
        }
        for name in ("member_id", "group_instance_id", "incarnation", "client_id"):
            value = getattr(request, name)
            if value is not None:
                body[name] = value
        answer = self._call("POST", f"{group_path(group_id)}/subscriptions", body=body, patience=patience)
        return JoinReply(_text(answer, "member_id"), _integer(answer, "generation_id"), _text(answer, "state"))

    def assignment(
        self, group_id: str, member_id: str, *, min_generation: int, wait_ms: int, patience: Patience = NO_PATIENCE
    ) -> FetchedAssignment | None:
        """Wait up to `wait_ms` for the assignment of that generation or a later one. None when it is not there yet."""
        response = self._request(
            "GET",
            f"{_member_path(group_id, member_id)}/assignment",
            params={"min_generation": min_generation, "wait_ms": wait_ms},
            timeout_s=wait_ms / 1000 + ANSWER_TIMEOUT_S,
            patience=patience,
        )
        if response.status_code == httpx.codes.NO_CONTENT:
            return None
        answer = _document(response)
        return FetchedAssignment(
            _integer(answer, "generation_id"),
            base64.b64decode(_text(answer, "assignment"), validate=True),
            bool(answer.get("followup")),
        )

    def heartbeat(
        self,
        group_id: str,
        member_id: str,
        generation_id: int,
        *,
        task_offset_sums: Mapping[TaskId, int] | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> HeartbeatReply:
        """`generation_id`: of the assignment that the member works by, 0 before the first.

        Never repeated, because the next heartbeat is the repetition. Raises CoordinatorError, CoordinatorUnavailable.
        """
        body: dict[str, object] = {"generation_id": generation_id}
        if task_offset_sums is not None:
            body["task_offset_sums"] = {str(task): offset_sum for task, offset_sum in task_offset_sums.items()}
        answer = self._call("POST", f"{_member_path(group_id, member_id)}/heartbeat", body=body, timeout_s=timeout_s)
        return HeartbeatReply(_text(answer, "state"), bool(answer.get("rejoin")), bool(answer.get("stop")))

    def leave(self, group_id: str, member_id: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Leave the group. Returns as well when the group does not know the member. Raises CoordinatorUnavailable."""
        self._request("DELETE", _member_path(group_id, member_id), timeout_s=timeout_s, accept=(404,))

    def declare(self, group_id: str, definition: Mapping[str, object], *, patience: Patience = NO_PATIENCE) -> None:
        """Declare or change a group. `definition`: `input` of rebalance/1 without members and leader."""
        self._request("PUT", group_path(group_id), body=definition, patience=patience)

    def describe(self, group_id: str) -> dict[str, object]:
        """State, generation, members and tasks of a group, as the service describes them."""
        return self._call("GET", group_path(group_id))

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
        params: Mapping[str, int] | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
        patience: Patience = NO_PATIENCE,
        accept: tuple[int, ...] = (),
    ) -> httpx.Response:
        def once() -> httpx.Response:
            timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
            try:
                response = self._http.request(method, path, json=body, params=params, timeout=timeout)
            except httpx.TransportError as fault:
                raise CoordinatorUnavailable(f"{method} {path}: {type(fault).__name__}: {fault}") from fault
            if response.status_code not in accept:
                _raise_for_problem(response)
            return response

        repeated = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(CoordinatorUnavailable),
            wait=tenacity.wait_random_exponential(multiplier=FIRST_PAUSE_S, max=LONGEST_PAUSE_S),
            stop=tenacity.stop_after_delay(patience.seconds) | tenacity.stop_when_event_set(patience.stop),
            sleep=tenacity.sleep_using_event(patience.stop),
            reraise=True,
        )
        return repeated(once)


def _member_path(group_id: str, member_id: str) -> str:
    return f"{group_path(group_id)}/members/{quote(member_id, safe='')}"


def _raise_for_problem(response: httpx.Response) -> None:
    if response.is_success:
        return
    refusal = refusal_of(response.status_code, response.content)
    code = refusal.code or f"HTTP_{refusal.status}"
    detail = refusal.detail or response.reason_phrase
    if refusal.may_be_repeated:
        raise CoordinatorUnavailable(f"{code} ({refusal.status}): {detail}")
    raise coordinator_error(code, refusal.status, detail)


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
