"""The durable state of one group, as immutable values. Nothing here changes state: `replay` does, record by record.

A member is what its last join said and what the last rebalance gave it. Records and snapshots carry these same values,
so each field of a member and of a rebalance is declared once. Source: `ClassicGroup`, `ClassicGroupMember`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import TaskId
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason

MAX_FENCED_MEMBER_IDS = 8
"""How many earlier member ids of a static member stay fenced. The group forgets older ones: they become unknown."""


@dataclass(frozen=True, slots=True)
class LastJoin:
    """What a member's last JoinGroup request said. `generation_id`: the generation that it joined for.

    `group_instance_id`: None for a dynamic member. `incarnation`: how often a static member has been started, None when
    it does not say. `subscription`: bytes of ConsumerProtocolSubscription. `join_id`: chosen by the sender of the first
    join. `leave_on_disconnect`: whether its session ends soon after the connection of its process breaks.
    """

    group_instance_id: str | None
    incarnation: int | None
    client_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    generation_id: int
    join_id: str | None = None
    leave_on_disconnect: bool = False


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """What the last rebalance gave a member. Before the first one `generation_id` is 0 and `assignment` None.

    `assignment`: ConsumerProtocolAssignment. `warm_ups`: which of its standby tasks are warm-ups.
    """

    generation_id: int = 0
    assignment: AssignmentParts | None = None
    warm_ups: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassicGroupMember:
    """`fenced_member_ids`: the ids of the static member's earlier incarnations, oldest first."""

    member_id: str
    last_join: LastJoin
    last_assignment: LastAssignment = LastAssignment()
    fenced_member_ids: tuple[str, ...] = ()

    @property
    def is_static(self) -> bool:
        """Whether it has a `group.instance.id` (KIP-345)."""
        return self.last_join.group_instance_id is not None


@dataclass(frozen=True, slots=True)
class RebalanceCause:
    """Why a rebalance was started. `detail`: the reason in words, where there is more to say than its name."""

    reason: RebalanceReason
    detail: str | None = None

    def in_words(self) -> str:
        return self.detail or str(self.reason)


@dataclass(frozen=True, slots=True)
class RebalanceEnd:
    """How a rebalance ended.

    `followup_rebalance`: whether the leader asked for an immediate follow-up; `outcome` says whether one is due.
    `error`: `"SimpleName: message"`, None when nothing failed. `error_code`: the code inside error assignments, else 0.
    """

    outcome: RebalanceOutcome
    followup_rebalance: bool = False
    probing_rebalance_at_ms: int | None = None
    error: str | None = None
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class RebalanceBasis:
    """What a rebalance decided on.

    `fingerprint`: equal for two rebalances that decided the same from the same input. `topics`, `missing_topics`: as
    in `AssignmentComputed`.
    """

    fingerprint: str = ""
    topics: Mapping[str, int] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LastRebalance:
    """The last rebalance that was completed. `definition_revision`: of the definition that it was computed from."""

    generation_id: int
    cause: RebalanceCause | None
    definition_revision: int
    end: RebalanceEnd
    basis: RebalanceBasis = field(default_factory=RebalanceBasis)

    def awaits_topics(self) -> bool:
        """Whether the next rebalance starts by itself as soon as the source topics that were missing exist."""
        return self.end.outcome is RebalanceOutcome.ERROR and bool(self.basis.missing_topics)


@dataclass(frozen=True, slots=True)
class GroupImage:
    """`revision` 0 and `input_json` None: the group has not been declared. `members`: in the order of joining.

    `initial`: the rebalance that is being prepared found the group empty, so the initial delay applies. `cause` and
    `rebalance_revision` (the revision of the definition): of the current rebalance. `led_by`: who leads the group, None
    when this coordinator does. The state of a group that is led elsewhere is its last report, of `reported_at_ms`.
    """

    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    revision: int = 0
    input_json: str | None = None
    draining: bool = False
    initial: bool = False
    cause: RebalanceCause | None = None
    rebalance_revision: int = 0
    members: Mapping[str, ClassicGroupMember] = field(default_factory=dict)
    last_rebalance: LastRebalance | None = None
    led_by: str | None = None
    reported_at_ms: int | None = None

    def has_joined(self, member: ClassicGroupMember) -> bool:
        """While a rebalance is being prepared: whether the member has sent its subscription for it."""
        return member.last_join.generation_id > self.generation_id

    def takes_part(self, member: ClassicGroupMember) -> bool:
        """In all other states: whether the member sent its subscription for the current generation.

        Only a static member that did not rejoin within the rebalance timeout does not take part.
        """
        return member.last_join.generation_id >= self.generation_id

    def all_joined(self) -> bool:
        return all(self.has_joined(member) for member in self.members.values())

    def static_member(self, group_instance_id: str) -> ClassicGroupMember | None:
        for member in self.members.values():
            if member.last_join.group_instance_id == group_instance_id:
                return member
        return None

    def member_that_joined_by(self, join_id: str) -> ClassicGroupMember | None:
        for member in self.members.values():
            if member.last_join.join_id == join_id:
                return member
        return None

    def is_fenced(self, member_id: str) -> bool:
        """Whether a newer incarnation of a static member has replaced this member id."""
        return any(member_id in member.fenced_member_ids for member in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member; 0 without members."""
        return max((member.last_join.rebalance_timeout_ms for member in self.members.values()), default=0)

    def session_timeout_ms(self) -> int:
        """The longest session timeout of any member; 0 without members."""
        return max((member.last_join.session_timeout_ms for member in self.members.values()), default=0)
