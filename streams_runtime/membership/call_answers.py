"""The bodies of a member's calls, the events that their answers become, and when a call is repeated. Pure.

Rule: an answer is final, or the call is repeated. It is repeated when the coordinator gave no usable answer, or says
that it did not take the call. What a repeated join carries makes it the same join: its `join_id` while the member has
no id, the id after that. Time comes in with the answer, as does chance: a number from 0 to 1, which spreads callers.
"""

from __future__ import annotations

import base64

from streams_runtime.membership.calls import (
    CoordinatorError,
    CoordinatorUnavailable,
    JoinRequest,
    MemberHeartbeat,
    coordinator_error,
)
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
    """The event of a call that failed. `chance`: from 0 to 1, for the pause before its repetition."""
    if isinstance(error, CoordinatorUnavailable):
        retry_after_ms = None if error.retry_after_s is None else round(error.retry_after_s * 1000)
        return CallUnanswered(call.call, retry_after_ms, chance)
    if isinstance(error, CoordinatorError):
        return CallRefused(call.call, error)
    return MemberFailed(error)  # an error of this program


FIRST_PAUSE_MS = 50
LONGEST_PAUSE_MS = 500
FIRST_HEARTBEAT_PAUSE_MS = 20


def pause_before_repetition_ms(failures: int, retry_after_ms: int | None, chance: float) -> int:
    """Of a member's call: the first time at once, then after pauses that grow.

    `failures`: of this call so far, at least 1. `retry_after_ms`: the pause that the coordinator asked for; chance
    makes it longer, never shorter.
    """
    if retry_after_ms is not None:
        return round(retry_after_ms * (1 + chance))
    if failures == 1:
        return 0
    return round(min(FIRST_PAUSE_MS * (1 << min(failures - 2, 10)), LONGEST_PAUSE_MS) * (1 + chance) / 2)


def pause_between_heartbeats_ms(times: int, retry_after_ms: int | None, chance: float, interval_ms: int) -> int:
    """Before a heartbeat that follows others too soon: pauses that grow, never so long that a session could end.

    `times`: so many came before, at least 1. `interval_ms`: heartbeat.interval.ms, which is the longest pause.
    """
    growing_ms = min(FIRST_HEARTBEAT_PAUSE_MS * (1 << min(times - 1, 10)), LONGEST_PAUSE_MS) / 2
    return round(min(max(growing_ms, retry_after_ms or 0) * (1 + chance), interval_ms))


def pause_of_a_patient_call_ms(failures: int, retry_after_ms: int | None, chance: float) -> int:
    """Of a call that its caller wants repeated for a while: any pause up to a longest one, which grows.

    `failures`, `retry_after_ms`: as above.
    """
    if retry_after_ms is not None:
        return round(retry_after_ms * (1 + chance))
    return round(min(FIRST_PAUSE_MS * (1 << min(failures - 1, 10)), LONGEST_PAUSE_MS) * chance)


def is_patience_over(waited_ms: float, patience_ms: float) -> bool:
    """Whether a call that has failed is not repeated any more. Without patience it is made once."""
    return waited_ms >= patience_ms
