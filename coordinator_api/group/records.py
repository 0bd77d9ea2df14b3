"""What a group remembers: its state is what its records replay to, and nothing else changes it.

Records are small facts in order. `Group.handle` computes them, the caller commits them in one transaction,
`Group.apply` takes them in. `record_codec` writes each as one JSON object. Source: `GroupCoordinatorRecordHelpers`.
Differs from Kafka: a whole group is one record there; here a record is one change, and `Group.snapshot` gives the
shortest list that replays to the same state (it is the only one who writes the `...Restored` records).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.types import TaskId
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RemovalReason


@dataclass(frozen=True, slots=True)
class DefinitionChanged:
    """The group got a definition, its first or another. `revision`: 1, 2, 3 ..."""

    revision: int
    input_json: str


@dataclass(frozen=True, slots=True)
class DrainChanged:
    """`draining`: whether heartbeats tell members to stop."""

    draining: bool


@dataclass(frozen=True, slots=True)
class MemberSubscribed:
    """A member is new, or has sent a subscription. `joined_generation`: the generation this subscription is for."""

    member_id: str
    group_instance_id: str | None
    incarnation: int | None
    client_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    joined_generation: int


@dataclass(frozen=True, slots=True)
class MemberReplaced:
    """A newer incarnation of a static member took its place, assignment included; the old member id is fenced."""

    group_instance_id: str
    old_member_id: str
    new_member_id: str


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    """The member is no longer known; its tasks are free for the next round."""

    member_id: str
    reason: RemovalReason


@dataclass(frozen=True, slots=True)
class RebalanceStarted:
    """PreparingRebalance: members are to rejoin. `initial`: the group was empty, so the initial delay applies.

    `detail`: the reason in words, where there is more to say than its name.
    """

    reason: RebalanceReason
    initial: bool
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """CompletingRebalance: the round of this generation is being computed, from this revision of the definition."""

    generation_id: int
    definition_revision: int


@dataclass(frozen=True, slots=True)
class GroupEmptied:
    """Empty: the last member has gone. As in Kafka this is a generation of its own."""

    generation_id: int


@dataclass(frozen=True, slots=True)
class RebalanceCompleted:
    """Stable: what the round decided.

    `assignments`: member id to bytes of ConsumerProtocolAssignment, for every member. `followup_rebalance`: what the
    round asked for; `outcome` says whether it is done. `error`: `"SimpleName: message"`, `error_code`: the code inside
    error assignments, 0 otherwise. `warm_ups`: which of a member's standby tasks are warm-ups. `fingerprint`: the same
    for two rounds that decided the same from the same input. `topics`, `missing_topics`: see `AssignmentComputed`.
    """

    generation_id: int
    outcome: RebalanceOutcome
    assignments: Mapping[str, bytes]
    followup_rebalance: bool = False
    probing_rebalance_at_ms: int | None = None
    error: str | None = None
    error_code: int = 0
    warm_ups: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    fingerprint: str = ""
    topics: Mapping[str, int] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RebalanceLedElsewhere:
    """Stable: a round that another leader ran, reported at `reported_at_ms`; `MemberReported` of each member follows.

    `led_by`: who leads the group. `input_json`: what that leader knew, in place of a definition.
    """

    led_by: str
    generation_id: int
    reported_at_ms: int
    input_json: str
    outcome: RebalanceOutcome
    followup_rebalance: bool
    probing_rebalance_at_ms: int | None
    error: str | None
    error_code: int


@dataclass(frozen=True, slots=True)
class MemberReported:
    """A member of a round that was led elsewhere, in the order its leader received them."""

    member_id: str
    group_instance_id: str | None
    client_id: str | None
    subscription: bytes
    assignment: bytes | None
    warm_ups: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """Dead."""


@dataclass(frozen=True, slots=True)
class GroupRestored:
    """Where the group stands, in a snapshot. `definition_revision`: the one that the current round was started from."""

    state: GroupState
    generation_id: int
    initial: bool
    reason: RebalanceReason | None
    definition_revision: int
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class LastRebalanceRestored:
    """How the last completed round ended, in a snapshot."""

    generation_id: int
    reason: RebalanceReason | None
    outcome: RebalanceOutcome
    followup_rebalance: bool
    probing_rebalance_at_ms: int | None
    error: str | None
    error_code: int
    fingerprint: str
    definition_revision: int
    detail: str | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberRestored:
    """One member with all that is remembered of it, in a snapshot; in the order in which they joined."""

    member_id: str
    group_instance_id: str | None
    incarnation: int | None
    client_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    joined_generation: int
    assigned_generation: int
    assignment: bytes | None
    warm_ups: tuple[TaskId, ...]
    fenced_member_ids: tuple[str, ...]


CoordinatorRecord = (
    DefinitionChanged
    | DrainChanged
    | MemberSubscribed
    | MemberReplaced
    | MemberRemoved
    | RebalanceStarted
    | GenerationStarted
    | GroupEmptied
    | RebalanceCompleted
    | RebalanceLedElsewhere
    | MemberReported
    | GroupDeleted
    | GroupRestored
    | LastRebalanceRestored
    | MemberRestored
)
