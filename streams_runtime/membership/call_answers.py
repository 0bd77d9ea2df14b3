"""What a member's calls say, and what their answers mean to the member: values in, events out.

Rule: an answer is final, or the call is repeated. It is repeated when the coordinator gave no usable answer, or says
that it did not take the call. What a repeated join carries makes it the same join: its `join_id` while the member has
no id, the id after that. Time and chance come in with the answer.
"""

from __future__ import annotations

import base64

from streams_runtime.membership.calls import JoinRequest, MemberHeartbeat
from streams_runtime.membership.coordinator_errors import CoordinatorError, CoordinatorUnavailable, coordinator_error
from streams_runtime.membership.member_events import (
    CallRefused,
    CallUnanswered,
    MemberEvent,
    MemberFailed,
    SendFetch,
    SendJoin,
    SendLeave,
)

ANSWER_TIMEOUT_MS = 10_000
LEAVE_TIMEOUT_MS = 2_000

_NAMES_A_MEMBER = ("member_id", "group_instance_id", "incarnation", "client_id", "join_id")


def answer_timeout_ms(call: SendJoin | SendFetch | SendLeave) -> int:
    """How long the member waits for the answer. One that leaves does not wait long: its process is about to end."""
    return LEAVE_TIMEOUT_MS if isinstance(call, SendLeave) else ANSWER_TIMEOUT_MS


def join_body(request: JoinRequest) -> dict[str, object]:
    """The JSON body of a join. The same request gives the same body, however often it is sent."""
    body: dict[str, object] = {
        "session_timeout_ms": request.session_timeout_ms,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
        "subscription": base64.b64encode(request.subscription).decode("ascii"),
    }
    for name in _NAMES_A_MEMBER:
        value = getattr(request, name)
        if value is not None:
            body[name] = value
    if request.leave_on_disconnect:
        body["leave_on_disconnect"] = True
    return body


def heartbeat_body(heartbeat: MemberHeartbeat) -> dict[str, object]:
    """What the JSON body of a process's heartbeat has of one member."""
    body: dict[str, object] = {"generation_id": heartbeat.generation_id}
    if heartbeat.task_offset_sums is not None:
        body["task_offset_sums"] = {str(task): offset_sum for task, offset_sum in heartbeat.task_offset_sums.items()}
    return body


def failure(
    code: str | None, status: int, detail: str, *, may_be_repeated: bool, retry_after_s: float | None = None
) -> CoordinatorError | CoordinatorUnavailable:
    """Of an unsuccessful answer. `may_be_repeated`: the coordinator did not take the call. `retry_after_s`: not before
    this time.
    """
    known = code or f"HTTP_{status}"
    if may_be_repeated:
        return CoordinatorUnavailable(f"{known} ({status}): {detail}", retry_after_s)
    return coordinator_error(known, status, detail)


def event_of_failure(call: SendJoin | SendFetch | SendLeave, error: Exception, chance: float) -> MemberEvent:
    """What the member hears of a call that failed. `chance`: from 0 to 1, for the pause before its repetition."""
    if isinstance(error, CoordinatorUnavailable):
        retry_after_ms = None if error.retry_after_s is None else round(error.retry_after_s * 1000)
        return CallUnanswered(call.call, retry_after_ms, chance)
    if isinstance(error, CoordinatorError):
        return CallRefused(call.call, error)
    return MemberFailed(error)  # an error of this program
