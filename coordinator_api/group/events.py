"""What can happen to a group: requests of members and operators, the result of a round, and time going by.

Every event is a plain value; the time at which it happens is handed to `Group.handle` beside it. What the core cannot
know (a fresh member id) comes with the event. Source: the JoinGroup, SyncGroup, Heartbeat and LeaveGroup requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.snapshot import Member, RebalanceResult
from assignor.types import TaskId


@dataclass(frozen=True, slots=True)
class DeclareGroup:
    """PUT of the group's definition.

    `input_json`: the `input` object of rebalance/1 without members, validated by the caller, opaque here, in one
    canonical spelling (sorted keys), because a definition has changed when this text has. An unchanged definition is a
    no-op unless the last round ended with an error: then it starts a new one. A changed one starts a round when the
    group has members. Either ends a drain. Answered with `Declared`.
    """

    input_json: str


@dataclass(frozen=True, slots=True)
class Join:
    """POST of a subscription: a first join (`member_id` None) or a rejoin.

    `new_member_id`: a fresh id proposed by the caller, used only when this join makes a new member id. `incarnation`:
    rises each time the static member `group_instance_id` is started anew (Spark's taskAttemptId). `subscription`: bytes
    of ConsumerProtocolSubscription, which the caller has found to be readable. Times in milliseconds. Answered with
    `JoinAnswered`.
    """

    subscription: bytes
    session_timeout_ms: int
    rebalance_timeout_ms: int
    new_member_id: str
    member_id: str | None = None
    group_instance_id: str | None = None
    incarnation: int | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """`generation_id`: the generation of the assignment the member works by, 0 (or less) before its first one.

    `task_offset_sums`: how far it is with each task, None to leave what is known as it is. Answered with
    `HeartbeatAnswered`.
    """

    member_id: str
    generation_id: int
    task_offset_sums: Mapping[TaskId, int] | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class FetchAssignment:
    """GET of the assignment, as the request arrives: a sign of life.

    `min_generation`: the `generation_id` of the member's `JoinAnswered`; 0 or less for whatever is there. Answered with
    `AssignmentReady` or `AssignmentPending`.
    """

    member_id: str
    min_generation: int
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class RecheckAssignment:
    """The same question asked again for a request that is being held (long poll). Not a sign of life."""

    member_id: str
    min_generation: int
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """DELETE of a member, dynamic or static. Answered with `Left`."""

    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class AssignmentComputed:
    """The round asked for by `RunRebalance(generation_id)` has been computed.

    `topics`: partition counts of the topology's topics as the round left them, 0 for one that is not there; empty for a
    group whose definition describes its cluster itself. `missing_topics`: source topics that were not there.
    Answered with `AssignmentStored`, or `AssignmentDiscarded` when the group has moved on: then the result must not be
    recorded as a round of this group.
    """

    generation_id: int
    result: RebalanceResult
    topics: Mapping[str, int] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RebalanceFailed:
    """The round asked for could not be computed, or could not be carried out. `error`: `"SimpleName: message"`.

    `topics`: as in `AssignmentComputed`; empty when nobody looked. Answered as `AssignmentComputed`.
    """

    generation_id: int
    error: str
    topics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """Somebody looked at the group's cluster. `topics`: as in `AssignmentComputed`, of the definition that now holds.

    Starts a round when they are not what the last round worked with. Answered with `Accepted`.
    """

    topics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReportRebalance:
    """A round that was led elsewhere, as its leader or somebody who watched it reports it.

    `led_by`: who leads the group. `input_json`: what the leader knew, as in `DeclareGroup`. `members`: in the order the
    leader received them; `assignments`: bytes of ConsumerProtocolAssignment, none for a round that failed. `warm_ups`:
    which of a member's standby tasks are warm-ups, as far as is known. `error`: `"SimpleName: message"`. The caller has
    found all bytes to be readable. Answered with `RebalanceReported`.
    """

    led_by: str
    generation_id: int
    input_json: str
    members: Mapping[str, Member]
    assignments: Mapping[str, bytes]
    warm_ups: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    followup_rebalance: bool = False
    probing_rebalance_at_ms: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went by: sent at `Outcome.next_timer_ms` (early or late is harmless). Answered with `Accepted`."""


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Only a group without members can be deleted, or one that is led elsewhere. Answered with `Accepted`."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Tell every member to stop: heartbeats say so until the next PUT. Answered with `Accepted`."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The first event after `replay`: asks again for a round that was being computed. Answered with `Accepted`."""


Event = (
    DeclareGroup
    | Join
    | Heartbeat
    | FetchAssignment
    | RecheckAssignment
    | Leave
    | AssignmentComputed
    | RebalanceFailed
    | TopicsSeen
    | ReportRebalance
    | Tick
    | DeleteGroup
    | Drain
    | Recovered
)
