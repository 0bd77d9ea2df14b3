"""The durable state of one group, as immutable values. Only `apply` of a record (`records`) makes another state.

Records and snapshots carry these same values, so each field of a rebalance is declared once; those of a member stand in
`members`. Source: `ClassicGroup`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assignor.types import TaskId
from coordinator_api.group.levers import NO_LEVERS, Levers
from coordinator_api.group.members import ClassicGroupMember, ClassicGroupMembers
from coordinator_api.group.packed_assignments import PackedAssignments
from coordinator_api.group.states import GroupState, KeptBecause, RebalanceOutcome, RebalanceReason

MAX_FENCED_MEMBER_IDS = 8
"""How many earlier member ids of a static member stay fenced. The group forgets older ones: they become unknown."""


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
class HeldRebalance:
    """A rebalance that was computed and waits for approval. `since_ms`: since when. The rest: as in
    `RebalanceCompleted`, which it becomes when it is carried out.
    """

    since_ms: int
    end: RebalanceEnd
    assignments: PackedAssignments
    warm_ups: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    basis: RebalanceBasis = field(default_factory=RebalanceBasis)


@dataclass(frozen=True, slots=True)
class DefinitionOrigin:
    """Where a definition came from. `declared_by`: the caller, as the service knew it."""

    declared_by: str | None = None
    declared_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GroupImage:
    """`revision` 0 and `input_json` None: the group has not been declared. `origin`: of the definition. `members`: in
    the order of joining.

    `initial`: the rebalance that is being prepared found the group empty, so the initial delay applies. `cause` and
    `rebalance_revision` (the revision of the definition): of the current rebalance. `led_by`: who leads the group, None
    when this coordinator does. The state of a group that is led elsewhere is its last report, of `reported_at_ms`.

    `held`: the rebalance of this generation, while it waits for approval. `kept_because`: why this generation is
    computed with every task kept where it is; None when it is not. After a discard, so is a follow-up.
    `approved_generation`: the held rebalance that was carried out last, as long as what follows from it needs no
    approval of its own. `promoted`: by member, the warm-ups that have begun a rebalance by catching up since the last
    rebalance that had another cause; sorted.
    """

    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    revision: int = 0
    input_json: str | None = None
    draining: bool = False
    initial: bool = False
    cause: RebalanceCause | None = None
    rebalance_revision: int = 0
    members: ClassicGroupMembers = field(default_factory=ClassicGroupMembers)
    last_rebalance: LastRebalance | None = None
    led_by: str | None = None
    reported_at_ms: int | None = None
    origin: DefinitionOrigin = field(default_factory=DefinitionOrigin)
    levers: Levers = NO_LEVERS
    held: HeldRebalance | None = None
    kept_because: KeptBecause | None = None
    approved_generation: int | None = None
    promoted: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)

    def with_member(self, member: ClassicGroupMember) -> GroupImage:
        """With this member in the place of the one of its id, or behind all others."""
        return replace(self, members=self.members.with_member(member))

    def with_nothing_approved(self) -> GroupImage:
        """Approvals, discards and promoted warm-ups of earlier rebalances no longer count."""
        return replace(self, approved_generation=None, kept_because=None, promoted={})

    def prepares_generation(self, generation_id: int) -> bool:
        """Whether the rebalance that is being prepared may begin this generation."""
        return self.state is GroupState.PREPARING_REBALANCE and generation_id == self.generation_id + 1

    def completes_generation(self, generation_id: int) -> bool:
        """Whether the assignment of this generation is being computed, or waits for approval."""
        return self.state is GroupState.COMPLETING_REBALANCE and generation_id == self.generation_id

    def has_joined(self, member: ClassicGroupMember) -> bool:
        """While a rebalance is being prepared: whether the member has sent its subscription for it."""
        return member.last_join.generation_id > self.generation_id

    def takes_part(self, member: ClassicGroupMember) -> bool:
        """In all other states: whether the member sent its subscription for the current generation.

        Only two do not: a static member that did not rejoin within the rebalance timeout, and a member that was away.
        """
        return member.last_join.generation_id >= self.generation_id

    def all_joined(self) -> bool:
        """Nobody waits for those who are away: their last subscriptions count."""
        absent = sum(not self.has_joined(member) for member in self.members.away())
        return self.members.count_joined_after(self.generation_id) + absent == len(self.members)

    def held_until_ms(self) -> int | None:
        """When the rebalance that is held will be carried out by itself; None when none is held."""
        if self.held is None or self.levers.hold is None:
            return None
        return self.held.since_ms + self.levers.hold.value_ms

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member; 0 without members."""
        return max((member.last_join.rebalance_timeout_ms for member in self.members.values()), default=0)

    def session_timeout_ms(self) -> int:
        """The longest session timeout of any member; 0 without members."""
        return max((member.last_join.session_timeout_ms for member in self.members.values()), default=0)
