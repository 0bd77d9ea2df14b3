"""Which calls the audit log has, and what it says of each: who did what, when, from where, why, and how it ended.

A line is written when the answer is known and before it goes out. What was answered was committed before, so each
change that somebody heard of has its line, also when the process is killed. A call has one line, whether it was carried
out or refused; one that another coordinator has to answer has it there. Not in it are reads, and what members do all
the time and what changes no membership: heartbeats, and rejoins (status 200). `docs/formats.md` describes the fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Scope, Send

from assignor.access.principals import Principal
from coordinator_api.group.events import DrainInstance, EndInstanceDrain, Event, SetHold, SetRejoinGrace
from coordinator_api.http.audit_log import AuditLog
from coordinator_api.http.call_rights import RIGHTS, Call
from coordinator_api.http.page_rights import PAGE_RIGHTS, is_page, token_of_cookie
from coordinator_api.http.problems import PROBLEM_CODE, Problem

_MOVED = 307
_JOIN = ("POST", "/v1/groups/{group}/subscriptions")
_CHANGES_NOTHING = frozenset(
    {
        ("POST", "/v1/groups/{group}/heartbeat"),
        ("POST", "/v1/groups/{group}/members/{member}/heartbeat"),
        ("POST", "/v1/assign"),
        ("POST", "/v1/simulate"),
    }
)
AUDITED = frozenset(call for call in (*RIGHTS, *PAGE_RIGHTS) if call[0] != "GET") - _CHANGES_NOTHING
"""Method and address, as FastAPI has it."""

MAX_REASON = 200
REASON_PATTERN = r"^[^\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]*$"
"""A reason is free text for people, in letters of any script, on one line: without controls, and without what changes
the order of letters or hides them. Persian, Thai and emoji need the invisible joiners U+200B to U+200D.
"""
_REASON = re.compile(REASON_PATTERN)
_AUDITED_CALL = "audited_call"
_EFFECTS = ("revision", "generation_id", "executed", "right", "groups")
"""Fields of answers that say what came of a call. No other one is copied: the answer may have a token."""
_MOST_OF_A_NAME = 256
_LONGEST_ANSWER = 65_536


def begin(log: AuditLog, scope: Scope, call: Call | None) -> AuditedCall | None:
    """None for a call that the audit log has not."""
    if call is None or (scope["method"], call.route) not in AUDITED:
        return None
    audited = AuditedCall(log, scope, call)
    scope.setdefault("state", {})[_AUDITED_CALL] = audited
    return audited


def note_effect(request: Request, **effect: object) -> None:
    """What came of the call, where its answer does not say so."""
    audited: AuditedCall | None = request.scope.get("state", {}).get(_AUDITED_CALL)
    if audited is not None:
        audited.effect.update(effect)


def note_lever(request: Request, event: Event) -> None:
    """What was set, and for whom, of a lever: its call has it in its query or its body, or in a form."""
    match event:
        case DrainInstance(process_id, member_id) | EndInstanceDrain(process_id, member_id):
            drained = {"instance": _name(process_id)} if member_id is None else {"member": _name(member_id)}
            note_effect(request, **drained)
        case SetHold(time_limit_ms):
            note_effect(request, time_limit_ms=time_limit_ms)
        case SetRejoinGrace(grace_ms) if grace_ms is not None:
            note_effect(request, grace_ms=grace_ms)


def note_caller(request: Request, principal: Principal | None) -> None:
    """Who made a call that anybody may make, once it is known; None when it is found to be nobody."""
    audited: AuditedCall | None = request.scope.get("state", {}).get(_AUDITED_CALL)
    if audited is not None:
        audited.found_out(principal)


def reason_of(request: Request) -> str | None:
    """Why an audited call is made, as its address says it."""
    audited: AuditedCall | None = request.scope.get("state", {}).get(_AUDITED_CALL)
    return None if audited is None else audited.reason


def note_reason(request: Request, reason: str) -> str | None:
    """Why the call is made, where its form says so and not its address. Raises Problem for a reason that is none."""
    checked = _checked_reason(reason, "reason")
    audited: AuditedCall | None = request.scope.get("state", {}).get(_AUDITED_CALL)
    if audited is not None:
        audited.reason = checked
    return checked


class AuditedCall:
    """One call. Who makes it is not known at first."""

    def __init__(self, log: AuditLog, scope: Scope, call: Call) -> None:
        self._log = log
        self._method = scope["method"]
        self._call = call
        self._query: bytes = scope.get("query_string", b"")
        self._client = scope["client"][0] if scope.get("client") else None
        self._principal: Principal | None = None
        self.reason: str | None = None
        self.effect: dict[str, object] = {}
        self._scope = scope
        self._stranger = "no token"
        if any(name == b"authorization" for name, _ in scope["headers"]) or _has_session(scope):
            self._stranger = "unknown token"

    def made_by(self, principal: Principal) -> None:
        """Raises Problem for a reason that is none."""
        self._principal = principal
        self.reason = _reason(self._query)

    def found_out(self, principal: Principal | None) -> None:
        """The token of a login is not known before its form is read."""
        self._principal, self._stranger = principal, "unknown token"

    def before(self, send: Send) -> Send:
        """Sends as `send` does, once the line is written. The answer's head waits for its body, which says more."""
        head: Message | None = None

        async def send_after_line(message: Message) -> None:
            nonlocal head
            if message["type"] == "http.response.start":
                head = message
                return
            if head is not None:
                self._write(head["status"], message.get("body", b""))
                beginning, head = head, None
                await send(beginning)
            await send(message)

        return send_after_line

    def _write(self, status: int, body: bytes) -> None:
        if status == 200 and (self._method, self._call.route) == _JOIN:
            return
        if status == _MOVED:
            return  # its line is in the log of the coordinator that answers it
        answer, asked = _answered(body), self._call.parameters
        effect = {name: answer[name] for name in _EFFECTS if name in answer and status < 400}
        if status == 201:
            effect["created"] = True
        self._log.write(
            {
                "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "principal": self._stranger if self._principal is None else self._principal.name,
                "right": None if self._principal is None else str(self._principal.right),
                "client": self._client,
                "call": f"{self._method} {self._call.route}",
                "group": _name(asked.get("group")),
                "member": _name(asked.get("member") or answer.get("member_id")),
                "token": _name(asked.get("name") or (answer.get("name") if self._call.route == "/v1/tokens" else None)),
                "status": status,
                "code": "NONE" if status < 400 else answer.get("code") or self._scope["state"].get(PROBLEM_CODE),
                "effect": {**effect, **self.effect},
                "reason": self.reason,
            }
        )


def _answered(body: bytes) -> Mapping[str, Any]:
    """The JSON object of an answer; empty for what is none."""
    if not body.startswith(b"{") or len(body) > _LONGEST_ANSWER:
        return {}
    try:
        answer: dict[str, Any] = json.loads(body)
    except ValueError:
        return {}
    return answer


def _name(value: object) -> str | None:
    return value[:_MOST_OF_A_NAME] if isinstance(value, str) else None


def _reason(query: bytes) -> str | None:
    """`?reason=` of a call. Raises Problem."""
    if b"reason" not in query:
        return None
    try:
        given = parse_qs(query.decode("latin-1"), errors="strict").get("reason", [""])
    except ValueError:
        raise Problem("INVALID_REQUEST", "query: must be UTF-8") from None
    if len(given) > 1:
        raise Problem("INVALID_REQUEST", "query.reason: is there more than once")
    return _checked_reason(given[0], "query.reason")


def _checked_reason(given: str, where: str) -> str | None:
    if len(given) > MAX_REASON or _REASON.fullmatch(given) is None:
        raise Problem(
            "INVALID_REQUEST",
            f"{where}: must be one line of up to {MAX_REASON} characters, without controls of any kind",
        )
    return given or None


def _has_session(scope: Scope) -> bool:
    return is_page(scope["path"]) and token_of_cookie(Headers(scope=scope)) is not None
