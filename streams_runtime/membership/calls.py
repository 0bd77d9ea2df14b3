"""The calls between a member and its coordinator as values, without HTTP: settings, requests, replies, errors, and the
pauses before a call is repeated. Pure.

An answer is final, or the call is repeated: when the coordinator gave no usable answer, or says that it did not take
the call. What a repeated join carries makes it the same join: its `join_id` while the member has no id, the id after
that. Chance comes in as a number from 0 to 1, which spreads callers.

Errors are problem+json (RFC 9457) whose `code` is Kafka's error name. The names, and what a member does about each, are
Kafka's: `UNKNOWN_MEMBER_ID` and `ILLEGAL_GENERATION` take its tasks away, `REBALANCE_IN_PROGRESS` asks for a rejoin,
`FENCED_INSTANCE_ID` and `FENCED_MEMBER_EPOCH` end the member. Source: JoinGroup, SyncGroup and Heartbeat of Kafka's
classic group protocol, `Errors`, `ConsumerConfig`; KIP-1082 for ids that the client chooses. Times are in milliseconds.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from assignor.errors import AssignorFault, InputError, Unavailable
from assignor.types import TaskId


class CoordinatorError(AssignorFault):
    """The coordinator refused the call. `code`: Kafka's error name; `status`: of HTTP; `detail`: its explanation."""

    known_code: ClassVar[str] = ""

    def __init__(self, code: str, status: int, detail: str) -> None:
        super().__init__(f"{code} ({status}): {detail}" if detail else f"{code} ({status})")
        self.code = code
        self.status = status
        self.detail = detail


class GroupIdNotFound(CoordinatorError):
    known_code = "GROUP_ID_NOT_FOUND"


class UnknownMemberId(CoordinatorError):
    known_code = "UNKNOWN_MEMBER_ID"


class IllegalGeneration(CoordinatorError):
    known_code = "ILLEGAL_GENERATION"


class RebalanceInProgress(CoordinatorError):
    known_code = "REBALANCE_IN_PROGRESS"


class FencedInstanceId(CoordinatorError):
    known_code = "FENCED_INSTANCE_ID"


class FencedMemberEpoch(CoordinatorError):
    known_code = "FENCED_MEMBER_EPOCH"


class GroupMaxSizeReached(CoordinatorError):
    known_code = "GROUP_MAX_SIZE_REACHED"


class NotLetIn(CoordinatorError, InputError):
    """Without the coordinator's bearer token: a mistake of the caller; the group was not asked."""

    known_code = "SASL_AUTHENTICATION_FAILED"


class GroupRunsAnotherTopology(CoordinatorError):
    """The group has living members, and they run another topology than the one declared. The detail says how the two
    differ, who declared the other, and what to do.
    """

    known_code = "INCONSISTENT_GROUP_PROTOCOL"


class CoordinatorUnavailable(Unavailable):
    """The coordinator gave no usable answer: it was not reachable, went away during the call, was starting, stopping or
    overloaded. The call can be tried again, but not before `retry_after_s` if the coordinator gave it."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = None if retry_after_s is None else round(retry_after_s * 1000)


_KNOWN = {error.known_code: error for error in CoordinatorError.__subclasses__()}


def coordinator_error(code: str, status: int, detail: str) -> CoordinatorError:
    """An error of the class that belongs to the code, or of `CoordinatorError` when no class does."""
    return _KNOWN.get(code, CoordinatorError)(code, status, detail)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A first join (`member_id` None) or a rejoin.

    `subscription`: ConsumerProtocolSubscription. `join_id`: of a first join; sent again with the same id when its
    answer was lost, it makes no second member. `leave_on_disconnect`: the member's session ends soon after the
    connection of its process heartbeats has broken.
    """

    subscription: bytes
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str | None = None
    group_instance_id: str | None = None
    incarnation: int | None = None
    client_id: str | None = None
    join_id: str | None = None
    leave_on_disconnect: bool = False


@dataclass(frozen=True, slots=True)
class GroupDefinition:
    """The definition that a group has. `declared_by`: who declared it; `declared_at`: when, as text. None when the
    coordinator does not know.
    """

    revision: int
    declared_by: str | None = None
    declared_at: str | None = None

    def __str__(self) -> str:
        at = f" at {self.declared_at}" if self.declared_at else ""
        return f"revision {self.revision}, declared{at} by {self.declared_by or 'somebody unknown'}"


@dataclass(frozen=True, slots=True)
class JoinReply:
    """`generation_id`: the generation whose assignment the member has to wait for. `definition`: what it has to run;
    None from a coordinator of an earlier release. `paused`: as in `ProcessHeartbeatReply`.
    """

    member_id: str
    generation_id: int
    state: str
    definition: GroupDefinition | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class FetchedAssignment:
    """`assignment`: ConsumerProtocolAssignment.

    `followup`: another rebalance follows as soon as all members have fetched their assignments.
    """

    generation_id: int
    assignment: bytes
    followup: bool


@dataclass(frozen=True, slots=True)
class MemberHeartbeat:
    """One member in the heartbeat of a process.

    `generation_id`: of the assignment that it works by, 0 before the first. `task_offset_sums`: None when nothing has
    changed since the last report.
    """

    generation_id: int
    task_offset_sums: Mapping[TaskId, int] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatNews:
    """Of one member. `rejoin`: a rebalance is being prepared and waits for it. `stop`: leave the group and end.
    `assignment_generation`: the generation of the assignment that the member can fetch now, 0 for none.
    """

    rejoin: bool = False
    stop: bool = False
    assignment_generation: int = 0


@dataclass(frozen=True, slots=True)
class ProcessHeartbeatReply:
    """`generation_id`: of the group. `members`: news, or a refusal, for each member that was named. `paused`: members
    are to process nothing, as its operator ordered; None when the answer did not contain it. `news`: a digest of these
    three; a heartbeat that names the present digest is held until there is another.
    """

    state: str
    generation_id: int
    news: str
    members: Mapping[str, HeartbeatNews | CoordinatorError]
    paused: bool | None = None


ANSWER_TIMEOUT_MS = 10_000
LEAVE_TIMEOUT_MS = 2_000
"""A member that leaves does not wait long for the answer: its process is about to end."""

FIRST_PAUSE_MS = 50
LONGEST_PAUSE_MS = 500
FIRST_HEARTBEAT_PAUSE_MS = 20

LONGEST_DEFAULT_HEARTBEAT_INTERVAL_MS = 3_000
"""Kafka's default of heartbeat.interval.ms."""


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The identity of a member, and its time-outs.

    `incarnation`: rises each time the static member `group_instance_id` is started again; the older one is fenced.
    `leave_on_disconnect`: the coordinator may take the member for dead when the connection of its process breaks and
    does not come back within a fraction of a second. Differs from Kafka, where only the session timeout counts.
    """

    group_id: str
    client_id: str
    group_instance_id: str | None = None
    incarnation: int | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    leave_on_disconnect: bool = True


def default_heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """Kafka's 3 s, or a third of the session when that is shorter, so that two heartbeats of a session may be lost."""
    return max(1, min(LONGEST_DEFAULT_HEARTBEAT_INTERVAL_MS, session_timeout_ms // 3))


_NAMES_A_MEMBER = ("member_id", "group_instance_id", "incarnation", "client_id", "join_id")


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
    """One member in the JSON body of a process's heartbeat."""
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
