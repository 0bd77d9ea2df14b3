"""The Python types for a member's calls to its coordinator: settings, requests, replies and errors. The module also
computes the pauses before a call is repeated. The module sends no HTTP requests. A call is repeated if the coordinator
gave no usable answer, for example because it is starting or overloaded. If the coordinator has accepted or refused a
call, the call is not repeated. The coordinator recognises a repeated join: a first join by its `join_id`, and a rejoin
by the member id. The parameter `chance` is a random number from 0 to 1. The pauses depend on `chance`, so that many
callers do not repeat their calls at the same time.

Errors are problem+json (RFC 9457). The field `code` of an error is Kafka's error name. A member reacts to an error as
in Kafka: after `UNKNOWN_MEMBER_ID` and `ILLEGAL_GENERATION` the member loses its tasks. After `REBALANCE_IN_PROGRESS`
the member rejoins. `FENCED_INSTANCE_ID` and `FENCED_MEMBER_EPOCH` end the member. Times are in milliseconds.
Source: JoinGroup, SyncGroup and Heartbeat of Kafka's classic group protocol, `Errors`, `ConsumerConfig`; KIP-1082 for
ids that the client chooses.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from assignor.errors import AssignorFault, InputError, Unavailable
from assignor.types import TaskId
from streams_runtime.common.task_flow import TaskFlow


class CoordinatorError(AssignorFault):
    """The coordinator refused the call. `code`: Kafka's error name. `status`: HTTP status. `detail`: explanation."""

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


class NotLetIn(CoordinatorError, InputError):
    """The coordinator refused the call, because the call had no valid bearer token. The caller has to change its token.
    The call had no effect on the group.
    """

    known_code = "SASL_AUTHENTICATION_FAILED"


class GroupRunsAnotherTopology(CoordinatorError):
    """The coordinator refused the new definition of the group, because live members of the group run a different
    topology. The error message names the differences, the process that declared the present topology, and the remedy.
    """

    known_code = "INCONSISTENT_GROUP_PROTOCOL"


class CoordinatorUnavailable(Unavailable):
    """The coordinator gave no usable answer. For example, the coordinator could not be reached, or it closed the
    connection during the call. The coordinator may also have been starting, stopping or overloaded. The caller can
    repeat the call. `retry_after_s`: the pause before the repetition, if the coordinator has asked for a pause.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = None if retry_after_s is None else round(retry_after_s * 1000)


_KNOWN = {error.known_code: error for error in CoordinatorError.__subclasses__()}


def coordinator_error(code: str, status: int, detail: str) -> CoordinatorError:
    """Returns an error of the class for this code. If there is no class for this code, returns a `CoordinatorError`."""
    return _KNOWN.get(code, CoordinatorError)(code, status, detail)


@dataclass(frozen=True, slots=True)
class GroupDefinition:
    """The present definition of a group.

    `declared_by`: a text that names the process that declared the definition. `declared_at`: the time of the
    declaration, as text. `declared_by` and `declared_at` are None if the coordinator does not know them.
    """

    revision: int
    declared_by: str | None = None
    declared_at: str | None = None

    def __str__(self) -> str:
        at = f" at {self.declared_at}" if self.declared_at else ""
        return f"revision {self.revision}, declared{at} by {self.declared_by or 'somebody unknown'}"


@dataclass(frozen=True, slots=True)
class JoinReply:
    """The answer to a join.

    `generation_id`: the generation of the assignment for which the member has to wait. `definition`: the group's
    definition; None if an earlier release of the coordinator has answered. `paused`: see `ProcessHeartbeatReply`.
    `date_ms`: the time of the coordinator's clock, in whole seconds, as milliseconds since the epoch; None if the
    answer has no date.
    """

    member_id: str
    generation_id: int
    state: str
    definition: GroupDefinition | None = None
    paused: bool = False
    date_ms: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FetchedAssignment:
    """The assignment of one member.

    `assignment`: ConsumerProtocolAssignment. `followup`: True if another rebalance begins as soon as all members have
    fetched their assignments. `error`: the coordinator's words if the rebalance failed; None if it did not fail, or if
    the coordinator is of an older release.
    """

    generation_id: int
    assignment: bytes
    followup: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class MemberHeartbeat:
    """The data about one member in the heartbeat of its process.

    `generation_id`: the generation of the member's present assignment; 0 before the first assignment.
    `task_offset_sums`: the offset sum of each task; None if no sum has changed since the last heartbeat. `task_flows`:
    the flow of each running active task; None if no flow has changed since the last heartbeat.
    """

    generation_id: int
    task_offset_sums: Mapping[TaskId, int] | None = None
    task_flows: Mapping[TaskId, TaskFlow] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatNews:
    """The news for one member, in the answer to a heartbeat of its process.

    `rejoin`: True if a rebalance has begun and the member has to rejoin. `stop`: True if the member has to leave the
    group and end. `assignment_generation`: the generation of the assignment that is ready to be fetched; 0 if none is
    ready.
    """

    rejoin: bool = False
    stop: bool = False
    assignment_generation: int = 0


@dataclass(frozen=True, slots=True)
class ProcessHeartbeatReply:
    """The answer to the heartbeat of a process.

    `generation_id`: the generation of the group. `members`: the news for each member, or the error with which the
    coordinator refused the member. `paused`: True if an operator has paused the group; the members of a paused group
    process nothing. `paused` is None if the coordinator has refused the whole heartbeat. `news`: a digest of
    `generation_id`, `members` and `paused`. The next heartbeat contains the digest `news`. If the digest of the
    coordinator's data is still the same, the coordinator delays its answer until the digest is different.
    """

    state: str
    generation_id: int
    news: str
    members: Mapping[str, HeartbeatNews | CoordinatorError]
    paused: bool | None = None


ANSWER_TIMEOUT_MS = 10_000
LEAVE_TIMEOUT_MS = 2_000
"""The time-out of a member's leave call, which is its last call. The time-out is short, because the process is about to
end.
"""

FIRST_PAUSE_MS = 50
LONGEST_PAUSE_MS = 500
FIRST_HEARTBEAT_PAUSE_MS = 20

LONGEST_DEFAULT_HEARTBEAT_INTERVAL_MS = 3_000
"""Kafka's default of heartbeat.interval.ms."""


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The ids and time-outs of a member. `incarnation`: a number that rises each time the static member is started
    again. The coordinator fences a static member with an older incarnation. `leave_on_disconnect`: True to evict the
    member after the connection of its process has broken. Before the coordinator evicts the member, it waits a fraction
    of a second for a new connection.
    Differs from Kafka: in Kafka, a member with a broken connection stays in the group until its session timeout.
    """

    group_id: str
    client_id: str
    group_instance_id: str | None = None
    incarnation: int | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    leave_on_disconnect: bool = True


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A first join or a rejoin. `member_id`: None in a first join.

    `subscription`: ConsumerProtocolSubscription. `join_id`: the id of a first join. If the answer is lost, the member
    repeats the join with the same `join_id`. So a repeated join does not create a second member.
    """

    subscription: bytes
    settings: MemberSettings
    member_id: str | None = None
    join_id: str | None = None


def default_heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """Returns the shorter of two times: Kafka's default of 3 s, and a third of the session timeout."""
    return max(1, min(LONGEST_DEFAULT_HEARTBEAT_INTERVAL_MS, session_timeout_ms // 3))


def join_body(request: JoinRequest) -> dict[str, object]:
    """Returns the JSON body of a join. Two calls with the same request return the same body."""
    settings = request.settings
    names = {
        "member_id": request.member_id,
        "group_instance_id": settings.group_instance_id,
        "incarnation": settings.incarnation,
        "client_id": settings.client_id,
        "join_id": request.join_id,
        "leave_on_disconnect": settings.leave_on_disconnect or None,
    }
    return {
        "session_timeout_ms": settings.session_timeout_ms,
        "rebalance_timeout_ms": settings.rebalance_timeout_ms,
        "subscription": base64.b64encode(request.subscription).decode("ascii"),
        **{name: value for name, value in names.items() if value is not None},
    }


def heartbeat_body(heartbeat: MemberHeartbeat) -> dict[str, object]:
    """Returns the JSON object for one member in the heartbeat of its process."""
    body: dict[str, object] = {"generation_id": heartbeat.generation_id}
    if heartbeat.task_offset_sums is not None:
        body["task_offset_sums"] = {str(task): offset_sum for task, offset_sum in heartbeat.task_offset_sums.items()}
    if heartbeat.task_flows is not None:
        body["task_flows"] = {str(task): flow for task, flow in heartbeat.task_flows.items()}
    return body


def pause_before_repetition_ms(failures: int, retry_after_ms: int | None, chance: float) -> int:
    """Returns the pause before a member repeats a call. The first repetition of a call follows without a pause. The
    pauses before later repetitions grow. `failures`: how many times the call has failed, at least 1. `retry_after_ms`:
    the pause that the coordinator asked for. `chance`: a higher number makes the pause longer.
    """
    if retry_after_ms is not None:
        return round(retry_after_ms * (1 + chance))
    if failures == 1:
        return 0
    return round(min(FIRST_PAUSE_MS * (1 << min(failures - 2, 10)), LONGEST_PAUSE_MS) * (1 + chance) / 2)


def pause_between_heartbeats_ms(times: int, retry_after_ms: int | None, chance: float, interval_ms: int) -> int:
    """Returns the pause before the next heartbeat. A pause is needed if the last heartbeats were answered too soon or
    not at all. Each pause in a row is longer than the one before. The longest pause is `interval_ms`, because the
    session would end during a longer pause. `times`: the number of pauses in a row, including this pause.
    `interval_ms`: heartbeat.interval.ms.
    """
    growing_ms = min(FIRST_HEARTBEAT_PAUSE_MS * (1 << min(times - 1, 10)), LONGEST_PAUSE_MS) / 2
    return round(min(max(growing_ms, retry_after_ms or 0) * (1 + chance), interval_ms))
