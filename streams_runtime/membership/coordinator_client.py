"""A typed client for the coordinator's HTTP API, with the calls of group members and of programs that manage groups.

Rule: a call returns an answer, or raises a `CoordinatorError` or a `CoordinatorUnavailable`. If a call gets no usable
answer, it is repeated with growing pauses until the time in its `Patience` is over. So a call succeeds even if the
coordinator restarts during the call. Every call can be repeated safely: the coordinator commits a change before it
answers, and recognises a repeated call. `coordinator_client.http_client` sends the HTTP requests. If one coordinator
does not answer, `http_client` sends the request to the next coordinator. Source of the calls: JoinGroup, SyncGroup,
Heartbeat and LeaveGroup of Kafka's classic group protocol.
"""

from __future__ import annotations

import base64
import getpass
import os
import random
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import quote, unquote

import tenacity

from coordinator_client.addresses import CoordinatorAddresses, CoordinatorCall
from coordinator_client.calls import CallerToken, CoordinatorRefused, NoAnswer, Refusal, addresses_of, group_path
from coordinator_client.http_client import CoordinatorAnswer, CoordinatorHttpClient
from streams_runtime.common.failures import ReportedFailure
from streams_runtime.common.notices import Notice
from streams_runtime.membership import calls

ANSWER_TIMEOUT_S = calls.ANSWER_TIMEOUT_MS / 1000
RAW = "application/octet-stream"
_GROWING_PAUSE = tenacity.wait_random_exponential(
    multiplier=calls.FIRST_PAUSE_MS / 1000, max=calls.LONGEST_PAUSE_MS / 1000
)
_OK, _NO_CONTENT, _NOT_FOUND = 200, 204, 404


@dataclass(frozen=True, slots=True)
class Patience:
    """The time for which a client repeats a call without a usable answer. `stop`: an event that ends the repetition."""

    seconds: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)


NO_PATIENCE = Patience()


class CoordinatorClient(AbstractContextManager["CoordinatorClient"]):
    """A client of one coordinator, or of several coordinators that share one database. Several threads may use the
    client at the same time. The caller has to close the client.

    `base_url`: the URL of the coordinator, for example http://127.0.0.1:8080; several URLs are separated by commas.
    `token`: the bearer token, if the coordinator requires a token. Instances of the group require the same token from
    their callers. A `CallerToken` may return a different token for each call. For an https URL, environment variables
    name the certificate files (`coordinator_client.access.tls`).

    Raises InputError if a certificate file is unusable or a URL is invalid. Without the check of files and URLs, each
    call would fail as if the coordinator were down.
    """

    def __init__(self, base_url: str, *, token: str | CallerToken | None = None) -> None:
        self.addresses = addresses_of(base_url)
        self.token = token
        self._http = _http_client(self.addresses, token)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def join(self, group_id: str, request: calls.JoinRequest, *, patience: Patience = NO_PATIENCE) -> calls.JoinReply:
        """Join or rejoin. Raises CoordinatorError, CoordinatorUnavailable."""
        call = CoordinatorCall(f"{group_path(group_id)}/subscriptions", ANSWER_TIMEOUT_S)
        joined = _call(self._http, "POST", call, json=calls.join_body(request), retrying=_retrying(patience))
        answer = _document(joined)
        return calls.JoinReply(
            _text(answer, "member_id"),
            _integer(answer, "generation_id"),
            _text(answer, "state"),
            _definition(answer.get("definition")),
            paused=answer.get("paused") is True,
            date_ms=_date_ms(joined.headers.get("Date", "")),
        )

    def assignment(
        self, group_id: str, member_id: str, *, min_generation: int, wait_ms: int
    ) -> calls.FetchedAssignment | None:
        """Wait up to `wait_ms` for the assignment of `min_generation` or later. Returns None if the assignment is not
        available in time.
        """
        path = f"{_member_path(group_id, member_id)}/assignment"
        call = CoordinatorCall(path, ANSWER_TIMEOUT_S, {"min_generation": min_generation}, wait_ms)
        answer = _call(self._http, "GET", call, headers={"Accept": RAW})
        if answer.status == _NO_CONTENT:
            return None
        if answer.headers.get("Content-Type", "").startswith(RAW):
            return _raw_assignment(answer)
        document = _document(answer)
        return calls.FetchedAssignment(
            _integer(document, "generation_id"),
            base64.b64decode(_text(document, "assignment"), validate=True),
            bool(document.get("followup")),
            None if document.get("error") is None else str(document["error"]),
        )

    def process_heartbeats(self, group_id: str) -> ProcessHeartbeats:
        """Returns an object that sends the heartbeats of this process over a separate connection. The caller has to
        close the returned object. If the returned object or this client finds another address at which a coordinator
        answers, both use the new address.
        """
        return ProcessHeartbeats(self.addresses, self.token, group_id)

    def leave(
        self,
        group_id: str,
        member_id: str,
        *,
        failure: ReportedFailure | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        """Leave the group. Does nothing if the group does not have this member. `failure`: the error because of which
        the member leaves, or None. Raises CoordinatorUnavailable.
        """
        call = CoordinatorCall(_member_path(group_id, member_id), timeout_s)
        body = {} if failure is None else {"json": {"failure": failure.document()}}
        _call(self._http, "DELETE", call, accept=(_NOT_FOUND,), **body)

    def declare(
        self,
        group_id: str,
        definition: Mapping[str, object],
        *,
        replace: bool = False,
        patience: Patience = NO_PATIENCE,
    ) -> None:
        """Declare or change a group.

        `definition`: the object `input` of a rebalance/1 document, without members and leader. `replace`: True to
        replace the definition even if live members run a different topology. The new definition may end these members.
        If `replace` is False and live members run a different topology, raises GroupRunsAnotherTopology.
        """
        call = CoordinatorCall(group_path(group_id), ANSWER_TIMEOUT_S, {"replace": "true"} if replace else {})
        _call(self._http, "PUT", call, json=definition, retrying=_retrying(patience))

    def describe(self, group_id: str) -> dict[str, Any]:
        """Returns the state, generation, members and tasks of a group, in the form of the HTTP API."""
        return self._get(group_path(group_id))

    def group_ids(self) -> list[str]:
        """Returns the ids of all groups of the coordinator."""
        groups = self._get("/v1/groups").get("groups")
        return [str(group["group_id"]) for group in groups] if isinstance(groups, list) else []

    def delete_group(self, group_id: str) -> None:
        """Delete a group that has no members. Also deletes the history of its rebalances. Does nothing if there is no
        such group. Raises CoordinatorError if the group has members. Raises CoordinatorUnavailable.
        """
        _call(self._http, "DELETE", CoordinatorCall(group_path(group_id), ANSWER_TIMEOUT_S), accept=(_NOT_FOUND,))

    def drain(self, group_id: str) -> None:
        """Stop every member of the group. The answer to the next heartbeat tells each member to stop."""
        _call(self._http, "POST", CoordinatorCall(f"{group_path(group_id)}/drain", ANSWER_TIMEOUT_S))

    def rebalances(self, group_id: str) -> dict[str, Any]:
        """Returns the history of rebalances in the form of the HTTP API."""
        return self._get(f"{group_path(group_id)}/rebalances")

    def rebalance(self, group_id: str, generation_id: int) -> dict[str, Any]:
        """Returns one recorded rebalance, as a rebalance/1 document."""
        return self._get(f"{group_path(group_id)}/rebalances/{generation_id}")

    def explanations(self, group_id: str, generation_id: int) -> dict[str, Any]:
        """For each Streams task, returns the reason why the rebalance assigned the task to its member."""
        return self._get(f"{group_path(group_id)}/rebalances/{generation_id}/explain")

    def _get(self, path: str) -> dict[str, Any]:
        return _document(_call(self._http, "GET", CoordinatorCall(path, ANSWER_TIMEOUT_S)))


class ProcessHeartbeats:
    """Sends the heartbeats of one process over one TCP connection. Each heartbeat is sent after the answer to the
    previous heartbeat.

    Only heartbeats use this TCP connection. If the connection ends, the coordinator assumes that the process has ended.
    The module `coordinator_client.http_client` documents when the connection is replaced.
    """

    def __init__(self, addresses: CoordinatorAddresses, token: str | CallerToken | None, group_id: str) -> None:
        self._path = f"{group_path(group_id)}/heartbeat"
        self._http = _http_client(addresses, token, keep_connections=True)

    def send(
        self,
        members: Mapping[str, calls.MemberHeartbeat],
        *,
        known: str | None = None,
        wait_ms: int = 0,
        timeout_s: float = ANSWER_TIMEOUT_S,
        notices: Sequence[Notice] = (),
    ) -> calls.ProcessHeartbeatReply:
        """Send one heartbeat for all members. `known`: the digest of the news that the process has. The coordinator
        delays its answer until it has news with a different digest, but at most for `wait_ms`.

        `notices`: the notices of the process; empty if the notices have not changed. `timeout_s`: the time for which
        the client waits for the answer, in addition to `wait_ms`. This method never repeats the call. After a failure,
        the caller sends another heartbeat, which goes to the next address. Raises CoordinatorError if the coordinator
        refuses the whole heartbeat. Raises CoordinatorUnavailable.
        """
        body: dict[str, object] = {
            "members": {member_id: calls.heartbeat_body(each) for member_id, each in members.items()}
        }
        if known is not None:
            body["known"] = known
        if notices:
            body["notices"] = [notice.document() for notice in notices]
        call = CoordinatorCall(self._path, timeout_s, wait_ms=wait_ms, one_address=True)
        answer = _document(_call(self._http, "POST", call, json=body))
        answered = answer.get("members")
        if not isinstance(answered, dict):
            raise calls.CoordinatorUnavailable("the answer has no 'members'")
        return calls.ProcessHeartbeatReply(
            _text(answer, "state"),
            _integer(answer, "generation_id"),
            _text(answer, "news"),
            {str(member_id): _member_news(news) for member_id, news in answered.items()},
            paused=answer.get("paused") is True,
        )

    def break_off(self) -> None:
        """Abort the heartbeat that waits for its answer. Later heartbeats fail at once. Any thread may call
        `break_off`.
        """
        self._http.break_off()

    def close(self) -> None:
        """Close the connection. Only the thread that sends the heartbeats may call `close`."""
        self._http.close()


def _http_client(
    addresses: CoordinatorAddresses, token: str | CallerToken | None, *, keep_connections: bool = False
) -> CoordinatorHttpClient:
    headers = {"User-Agent": _user_agent()}
    return CoordinatorHttpClient(addresses, token, headers=headers, keep_connections=keep_connections)


def _user_agent() -> str:
    """Returns a text that names this process and its user. If the process declares a definition, the coordinator stores
    this text with the definition.
    """
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # in many containers, the user id of the process has no user name
        user = f"user {os.getuid()}"
    process = f"{user}@{socket.gethostname()}, process {os.getpid()}"
    return f"assignor/{version('assignor')} ({''.join(letter if letter.isascii() else '?' for letter in process)})"


def _call(http: CoordinatorHttpClient, method: str, call: CoordinatorCall, **more: Any) -> CoordinatorAnswer:
    """`more`: more arguments for `CoordinatorHttpClient.call`. Raises CoordinatorError, CoordinatorUnavailable."""
    try:
        return http.call(method, call, **more)
    except NoAnswer as error:
        raise calls.CoordinatorUnavailable(f"{method} {call.path}: {error}") from error
    except CoordinatorRefused as error:
        raise failure(error.refusal) from None


def failure(refusal: Refusal) -> calls.CoordinatorError | calls.CoordinatorUnavailable:
    """Returns the error for an answer that reports a failure."""
    code = refusal.code or f"HTTP_{refusal.status}"
    if refusal.may_be_repeated:
        return calls.CoordinatorUnavailable(f"{code} ({refusal.status}): {refusal.detail}", refusal.retry_after_s)
    return calls.coordinator_error(code, refusal.status, refusal.detail)


def _retrying(patience: Patience) -> tenacity.Retrying:
    return tenacity.Retrying(
        wait=pause_s,
        stop=tenacity.stop_any(
            tenacity.stop_after_delay(patience.seconds), tenacity.stop_when_event_set(patience.stop)
        ),
        sleep=tenacity.sleep_using_event(patience.stop),
    )


def pause_s(repeated: tenacity.RetryCallState) -> float:
    """Returns the pause before a call is repeated. If the coordinator has sent Retry-After, the pause is random, from
    one to two times this value. If the coordinator has sent no Retry-After, the pause grows with each repetition.
    """
    error = None if repeated.outcome is None else repeated.outcome.exception()
    retry_after_s = error.refusal.retry_after_s if isinstance(error, CoordinatorRefused) else None
    if retry_after_s is None:
        return _GROWING_PAUSE(repeated)
    return retry_after_s * (1 + random.random())  # noqa: S311 (the random number spreads callers)


def _member_news(news: object) -> calls.HeartbeatNews | calls.CoordinatorError:
    if not isinstance(news, dict):
        raise calls.CoordinatorUnavailable("the answer has no news of a member")
    if "code" in news:
        return calls.coordinator_error(_text(news, "code"), _OK, str(news.get("detail", "")))
    return calls.HeartbeatNews(
        bool(news.get("rejoin")), bool(news.get("stop")), _integer(news, "assignment_generation")
    )


def _raw_assignment(answer: CoordinatorAnswer) -> calls.FetchedAssignment:
    try:
        generation_id = int(answer.headers["Assignor-Generation-Id"])
    except (KeyError, ValueError) as fault:
        raise calls.CoordinatorUnavailable("the answer does not say which generation its assignment is of") from fault
    error = answer.headers.get("Assignor-Error")
    return calls.FetchedAssignment(
        generation_id,
        answer.content,
        followup=answer.headers.get("Assignor-Followup") == "true",
        error=None if error is None else unquote(error),
    )


def _member_path(group_id: str, member_id: str) -> str:
    return f"{group_path(group_id)}/members/{quote(member_id, safe='')}"


def _definition(document: object) -> calls.GroupDefinition | None:
    if not isinstance(document, dict):
        return None
    by, at_ms = document.get("declared_by"), document.get("declared_at_ms")
    at = datetime.fromtimestamp(at_ms / 1000, UTC) if isinstance(at_ms, int) else None
    return calls.GroupDefinition(
        _integer(document, "revision"),
        None if by is None else str(by),
        None if at is None else at.strftime("%Y-%m-%d %H:%M:%SZ"),
    )


def _document(answer: CoordinatorAnswer) -> dict[str, object]:
    try:
        return answer.document()
    except ValueError as error:
        raise calls.CoordinatorUnavailable(f"{answer.url}: {error}") from None


def _date_ms(header: str) -> int | None:
    try:
        return round(parsedate_to_datetime(header).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return None


def _text(answer: Mapping[str, object], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str):
        raise calls.CoordinatorUnavailable(f"the answer has no text {name!r}")
    return value


def _integer(answer: Mapping[str, object], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise calls.CoordinatorUnavailable(f"the answer has no number {name!r}")
    return value
