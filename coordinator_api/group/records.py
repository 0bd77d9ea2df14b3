"""What a group remembers. The state of a group is what its records replay to; nothing else changes it.

A record is one small fact, and records have an order. `Group.handle` computes them, the caller commits them in one
transaction, and `Group.apply` takes them in. `record_codec` writes each one as a JSON object. Source:
`GroupCoordinatorRecordHelpers`. Differs from Kafka: there one record holds a whole group; here a record is one change,
and `snapshot` gives the shortest list that replays to the same state. Only a snapshot has the `...Restored` records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.snapshot import Member
from assignor.types import TaskId
from coordinator_api.group.image import (
    DefinitionOrigin,
    HeldRebalance,
    LastRebalance,
    RebalanceBasis,
    RebalanceCause,
    RebalanceEnd,
)
from coordinator_api.group.levers import Drained, Hold, RejoinGrace, Said
from coordinator_api.group.members import ClassicGroupMember, LastJoin
from coordinator_api.group.packed_assignments import PackedAssignments
from coordinator_api.group.states import GroupState, HoldEnd, KeptBecause, RemovalReason


@dataclass(frozen=True, slots=True)
class DefinitionChanged:
    """The group was declared, or declared differently. `revision`: 1, 2, 3 ..."""

    revision: int
    input_json: str
    origin: DefinitionOrigin = field(default_factory=DefinitionOrigin)


@dataclass(frozen=True, slots=True)
class DrainChanged:
    """`draining`: whether heartbeats ask members to stop."""

    draining: bool


@dataclass(frozen=True, slots=True)
class HoldChanged:
    """Computed rebalances wait for approval. None: they no longer do."""

    hold: Hold | None


@dataclass(frozen=True, slots=True)
class RejoinGraceChanged:
    """Tasks of members that leave wait for them. None: they no longer do."""

    rejoin_grace: RejoinGrace | None


@dataclass(frozen=True, slots=True)
class PromotionChanged:
    """A rebalance follows as soon as the warm-ups have caught up. None: at the probing deadline, as in Kafka."""

    promotion: Said | None


@dataclass(frozen=True, slots=True)
class PauseChanged:
    """Members process no records. None: they do."""

    pause: Said | None


@dataclass(frozen=True, slots=True)
class InstanceDrained:
    """An instance, or one of its members, is to have no tasks."""

    drained: Drained


@dataclass(frozen=True, slots=True)
class InstanceDrainEnded:
    """The instance, or the member, may have tasks again, or is gone. `target`: as in `Drained`."""

    target: str


@dataclass(frozen=True, slots=True)
class MemberSubscribed:
    """A new member joined, or a known one sent another subscription."""

    member_id: str
    join: LastJoin


@dataclass(frozen=True, slots=True)
class MemberReplaced:
    """A newer incarnation of a static member took over its place and assignment; or the process of a dynamic one that
    was away came back, then `group_instance_id` is None. The old member id is fenced.
    """

    group_instance_id: str | None
    old_member_id: str
    new_member_id: str


@dataclass(frozen=True, slots=True)
class MemberAway:
    """A member left, and its place waits for its process to come back until `until_ms`."""

    member_id: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    """The group no longer knows the member. The next rebalance gives its tasks to others."""

    member_id: str
    reason: RemovalReason


@dataclass(frozen=True, slots=True)
class RebalanceStarted:
    """PreparingRebalance: all members have to rejoin. `initial`: the group was empty, so the initial delay applies."""

    cause: RebalanceCause
    initial: bool


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """CompletingRebalance: this generation is being computed from this revision of the definition."""

    generation_id: int
    definition_revision: int


@dataclass(frozen=True, slots=True)
class GroupEmptied:
    """Empty: the last member has gone. As in Kafka, the group gets a new generation."""

    generation_id: int


@dataclass(frozen=True, slots=True)
class RebalanceCompleted:
    """Stable: what the rebalance decided.

    `assignments`: member id to ConsumerProtocolAssignment, for every member; packed, unless an earlier release stored
    them. `warm_ups`: which of a member's
    standby tasks are warm-ups; members without any may be left out.
    """

    generation_id: int
    end: RebalanceEnd
    assignments: SharedAssignments | PackedAssignments
    warm_ups: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    basis: RebalanceBasis = field(default_factory=RebalanceBasis)


@dataclass(frozen=True, slots=True)
class RebalanceHeld:
    """The rebalance of this generation was computed and waits for approval. The state stays CompletingRebalance."""

    generation_id: int
    held: HeldRebalance


@dataclass(frozen=True, slots=True)
class HeldRebalanceEnded:
    """The rebalance waits no more. What is carried out is completed by the next record. `said`: who ended the wait
    and why, by nobody when time did, or another rebalance.
    """

    generation_id: int
    end: HoldEnd
    said: Said


@dataclass(frozen=True, slots=True)
class RebalanceKept:
    """The generation is computed again, with every task kept where it is that has a living owner."""

    generation_id: int
    because: KeptBecause


@dataclass(frozen=True, slots=True)
class RebalanceLedElsewhere:
    """Stable: another leader ran a rebalance and reported it. A `MemberReported` for each member follows.

    `led_by`: who leads the group. `input_json`: what that leader knew; it stands in for a definition.
    """

    led_by: str
    generation_id: int
    reported_at_ms: int
    input_json: str
    end: RebalanceEnd


@dataclass(frozen=True, slots=True)
class MemberReported:
    """A member of a rebalance that was led elsewhere, in the order in which its leader received the members.

    `assignment`: None for none, and when an `AssignmentsPacked` follows.
    """

    member_id: str
    member: Member
    assignment: AssignmentParts | None
    warm_ups: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """Dead."""


@dataclass(frozen=True, slots=True)
class GroupRestored:
    """In a snapshot: where the group stands. `definition_revision`: the one that the current rebalance started from."""

    state: GroupState
    generation_id: int
    initial: bool
    cause: RebalanceCause | None
    definition_revision: int


@dataclass(frozen=True, slots=True)
class LastRebalanceRestored:
    """In a snapshot: the last rebalance that was completed."""

    last_rebalance: LastRebalance


@dataclass(frozen=True, slots=True)
class ApprovalRestored:
    """In a snapshot: what follows from the rebalance of this generation needs no approval."""

    generation_id: int


@dataclass(frozen=True, slots=True)
class WarmUpsPromoted:
    """A rebalance is to begin because these warm-ups, by member, have caught up. In a snapshot: all such that count."""

    warm_ups: Mapping[str, tuple[TaskId, ...]]


@dataclass(frozen=True, slots=True)
class MemberRestored:
    """In a snapshot: one member with all that the group remembers of it, in the order of joining.

    An assignment that shares bytes with others comes in an `AssignmentsPacked`.
    """

    member: ClassicGroupMember


@dataclass(frozen=True, slots=True)
class AssignmentsPacked:
    """The assignments of members that the records before it have named without one: in a snapshot, or in a report of a
    rebalance that was led elsewhere. So the part that all of them share is stored once.
    """

    assignments: PackedAssignments


CoordinatorRecord = (
    DefinitionChanged
    | DrainChanged
    | HoldChanged
    | RejoinGraceChanged
    | PromotionChanged
    | PauseChanged
    | InstanceDrained
    | InstanceDrainEnded
    | MemberSubscribed
    | MemberReplaced
    | MemberAway
    | MemberRemoved
    | RebalanceStarted
    | GenerationStarted
    | GroupEmptied
    | RebalanceCompleted
    | RebalanceHeld
    | HeldRebalanceEnded
    | RebalanceKept
    | ApprovalRestored
    | WarmUpsPromoted
    | RebalanceLedElsewhere
    | MemberReported
    | GroupDeleted
    | GroupRestored
    | LastRebalanceRestored
    | MemberRestored
    | AssignmentsPacked
)
