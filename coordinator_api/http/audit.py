"""The audit log. This file builds the audit line of a call and writes it.

A line of the audit log has the caller, the call, the time, the caller's address, the reason and the outcome. A change
is committed first, then its line is written, and then the call is answered. Each answered change therefore has its
audit line, even if the process is killed. Each call has one line. A refused call has a line too. If a call is
redirected to another coordinator, the coordinator that answers the call writes the line. The audit log leaves out
reads, heartbeats, computations (`/v1/assign`, `/v1/simulate`), and joins that make no new member (status 200).
`docs/formats.md` describes the fields of a line.

A line is one JSON object in ASCII, so a text that a caller sends cannot begin a new line. The line is written to a file
or to the service's log. `AuditLog.write` hands the line to the operating system before it returns, so a crash of the
process loses no line. A power loss may lose lines, because the file is not synced. The file is created with mode 0600.
If a program such as logrotate moves the audit file away, the service creates a new file.

If the file cannot be written, calls are still answered. So members can join and leave while the disk is full. The
service logs the error once, and counts the lost lines.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Scope, Send

from coordinator_api.group.events import Event, SetInstanceDrain, SetLever
from coordinator_api.group.group_levers import LeverName
from coordinator_api.http.call_rights import Call, is_page, token_of_cookie
from coordinator_api.http.problems import MOVED, PROBLEM_CODE, Problem
from coordinator_api.settings import SettingsError
from coordinator_client.access.principals import Principal

_JOIN = "/v1/groups/{group}/subscriptions"
_TOKENS = "/v1/tokens"

MAX_REASON = 200
REASON_PATTERN = r"^[^\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]*$"
"""The pattern of a reason. A reason is one line of free text in any script. The pattern refuses control characters and
characters that hide letters or change their order. The pattern allows the invisible joiners U+200B to U+200D, which
Persian, Thai and emoji need.
"""
_REASON = re.compile(REASON_PATTERN)
AUDITED_CALL = "audited_call"
_EFFECTS = ("revision", "generation_id", "executed", "right", "groups")
"""The fields of answers that are copied to the line. No other field of an answer is copied, because an answer may
contain a token.
"""
_MOST_OF_A_NAME = 256
_LONGEST_ANSWER = 65_536

_EVENT = "audit"


def _audited(request: Request) -> AuditedCall:
    audited: AuditedCall = request.scope["state"][AUDITED_CALL]
    return audited


def note_effect(request: Request, **effect: object) -> None:
    """Adds fields to the audit line of the call. The call's answer does not contain these fields."""
    _audited(request).effect.update(effect)


def note_lever(request: Request, event: Event) -> None:
    """Adds the new value of the lever to the audit line of the call. For a drain, adds the drained instance or
    member.
    """
    match event:
        case SetInstanceDrain(process_id=process_id, member_id=member_id):
            drained = {"instance": _name(process_id)} if member_id is None else {"member": _name(member_id)}
            note_effect(request, **drained)
        case SetLever(LeverName.HOLD, is_on=True, value_ms=time_limit_ms):
            note_effect(request, time_limit_ms=time_limit_ms)
        case SetLever(LeverName.REJOIN_GRACE, is_on=True, value_ms=grace_ms):
            note_effect(request, grace_ms=grace_ms)


def note_caller(request: Request, principal: Principal | None) -> None:
    """Sets the caller in the audit line of a call that needs no right. `principal` is None if the caller's token is
    unknown.
    """
    _audited(request).found_out(principal)


def reason_of(request: Request) -> str | None:
    """Returns the value of `?reason=` in the address of an audited call."""
    return _audited(request).reason


def note_reason(request: Request, reason: str) -> str | None:
    """Sets the reason of a call that sends its reason in a form. Raises Problem for a reason that is not one printable
    line.
    """
    _audited(request).reason = checked = _checked_reason(reason, "reason")
    return checked


class AuditedCall:
    """Builds and writes the audit line of one call. The line is written before the call's answer is sent. An
    `AuditedCall` is created before the caller is known.
    """

    def __init__(self, log: AuditLog, scope: Scope, call: Call) -> None:
        self._log = log
        self._call = call
        self._principal: Principal | None = None
        self.reason: str | None = None
        self.effect: dict[str, object] = {}
        self._scope = scope
        self._stranger = "no token"
        headers = Headers(scope=scope)
        if "authorization" in headers or (is_page(scope["path"]) and token_of_cookie(headers) is not None):
            self._stranger = "unknown token"

    def made_by(self, principal: Principal) -> None:
        """Sets the caller, and reads the reason from the address of the call. Raises Problem for a reason that is not
        one printable line.
        """
        self._principal = principal
        self.reason = _reason(self._scope.get("query_string", b""))

    def found_out(self, principal: Principal | None) -> None:
        """Sets the caller of a login. The service knows this caller only after it has read the login form. `principal`
        is None if the token is unknown.
        """
        self._principal, self._stranger = principal, "unknown token"

    def before(self, send: Send) -> Send:
        """Returns a function that writes the audit line, and then calls `send`. The audit line contains fields of the
        answer's body. The returned function therefore delays the head of the answer until it has the first part of the
        body.
        """
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
        route = self._call.endpoint.route
        if status == 200 and route == _JOIN:
            return
        if status == MOVED:
            return  # redirected: the coordinator that answers the call writes the line
        answer, asked = _answered(body), self._call.parameters
        effect = {name: answer[name] for name in _EFFECTS if name in answer and status < 400}
        if status == 201:
            effect["created"] = True
        self._log.write(
            {
                "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "principal": self._stranger if self._principal is None else self._principal.name,
                "right": None if self._principal is None else str(self._principal.right),
                "client": self._scope["client"][0] if self._scope.get("client") else None,
                "call": f"{self._call.endpoint.method} {route}",
                "group": _name(asked.get("group")),
                "member": _name(asked.get("member") or answer.get("member_id")),
                "token": _name(asked.get("name") or (answer.get("name") if route == _TOKENS else None)),
                "status": status,
                "code": "NONE" if status < 400 else answer.get("code") or self._scope["state"].get(PROBLEM_CODE),
                "effect": {**effect, **self.effect},
                "reason": self.reason,
            }
        )


def _answered(body: bytes) -> Mapping[str, Any]:
    """Returns the JSON object in the body of an answer. Returns an empty mapping if the body is too long or is not a
    JSON object.
    """
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
    """Reads `?reason=` from the query of a call. Raises Problem."""
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


class AuditLog:
    """Writes the audit lines of one service. Use an AuditLog only on the service's event loop. `on_lost`: a function
    that is called for each lost line.
    """

    def __init__(self, file: Path | None) -> None:
        """`file`: the audit file; None to write to the service's log. Raises SettingsError if the file cannot be
        written.
        """
        self.on_lost: Callable[[], object] = lambda: None
        self._logger = structlog.get_logger("coordinator_api")
        self._path = file
        self._file: _AppendedFile | None = None
        self._lost = 0
        if file is not None:
            try:
                self._file = _AppendedFile(file)
            except OSError as error:
                raise SettingsError(f"audit.log.file: {file} cannot be written: {error.strerror or error}") from None

    def write(self, line: Mapping[str, object]) -> None:
        """Write one line. `line`: the fields, in the order in which they are written."""
        if self._path is None:
            self._logger.info(_EVENT, **line)
            return
        try:
            self._opened(self._path).append(json.dumps(line).encode("ascii") + b"\n")
        except OSError as error:
            self.on_lost()
            if not self._lost:
                self._logger.error("audit_not_written", file=str(self._path), error=str(error))
            self._lost += 1
            return
        if self._lost:
            self._logger.warning("audit_written_again", file=str(self._path), lost=self._lost)
            self._lost = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self, path: Path) -> _AppendedFile:
        if self._file is not None and not self._file.is_at(path):
            self.close()
        if self._file is None:
            self._file = _AppendedFile(path)
        return self._file


class _AppendedFile:
    """An open audit file. The constructor raises OSError if the file cannot be opened."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._status = os.fstat(self._descriptor)
        if not stat.S_ISREG(self._status.st_mode):
            os.close(self._descriptor)
            raise OSError("it is no regular file")

    def is_at(self, path: Path) -> bool:
        """True if `path` still leads to the opened file."""
        try:
            return os.path.samestat(os.stat(path), self._status)
        except OSError:
            return False

    def append(self, line: bytes) -> None:
        """Appends a line. Raises OSError if the line was not written completely."""
        size = os.fstat(self._descriptor).st_size
        # the last line may be incomplete, for example because the disk was full
        is_torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        whole = b"\n" + line if is_torn else line
        if os.write(self._descriptor, whole) < len(whole):
            raise OSError("only a part of the line could be written")

    def close(self) -> None:
        os.close(self._descriptor)
