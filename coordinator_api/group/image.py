"""The recorded state of one group, as immutable values. Only `apply` of a record (`records`) makes another state.

A member is what its last join said and what the last rebalance gave it. Records and snapshots carry these same values,
so each field is declared once. Source: `ClassicGroup`, `ClassicGroupMember`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from assignor.protocol.assignment_packing import pack, unpack
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.types import TaskId
from coordinator_api.group.compression import compress, decompress
from coordinator_api.group.events import LastJoin
from coordinator_api.group.group_levers import NO_LEVERS, Levers
from coordinator_api.group.states import GroupState, KeptBecause, RebalanceOutcome, RebalanceReason

MAX_FENCED_MEMBER_IDS = 8
"""How many earlier member ids of a static member stay fenced. The group forgets older ones: they become unknown."""

MAX_UNPACKED_BYTES = 2**31 - 1
"""The lengths inside are 32-bit numbers."""


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """The last assignment of a member. Before the first one `generation_id` is 0 and `assignment` None.

    `assignment`: ConsumerProtocolAssignment. `warm_ups`: which of its standby tasks are warm-ups.
    """

    generation_id: int = 0
    assignment: AssignmentParts | None = None
    warm_ups: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassicGroupMember:
    """`fenced_member_ids`: the ids that it had before, oldest first: those of the static member's earlier incarnations,
    and of the process that left. `away_until_ms`: until when its place waits for its process, which has left to come
    back; None for a member that is there.
    """

    member_id: str
    last_join: LastJoin
    last_assignment: LastAssignment = LastAssignment()
    fenced_member_ids: tuple[str, ...] = ()
    away_until_ms: int | None = None

    @property
    def is_away(self) -> bool:
        """Whether it left and may come back: it sends no requests, and nothing is asked of it."""
        return self.away_until_ms is not None

    @property
    def is_static(self) -> bool:
        """Whether it has a `group.instance.id` (KIP-345)."""
        return self.last_join.group_instance_id is not None


class ClassicGroupMembers(dict[str, ClassicGroupMember]):
    """Member id to member, in the order of joining. Also finds a member by its other names.

    An image shares it, so nobody changes it: each method below returns a changed copy. A copy of 5,000 members takes
    some 30 microseconds.
    """

    __slots__ = ("_away", "_joined", "_names")

    _names: dict[tuple[str, str], str]
    """By kind and name, the id of the member: its `group.instance.id`, its `join_id`, and its fenced member ids."""
    _joined: dict[int, int]
    """By generation, how many members joined for it last: so a join does not have to look at all members."""
    _away: frozenset[str]

    def __init__(self, members: ClassicGroupMembers | None = None) -> None:
        """A copy of `members`; without it, no members."""
        super().__init__(members or {})
        self._names = {} if members is None else members._names
        self._joined = {} if members is None else members._joined.copy()
        self._away = frozenset() if members is None else members._away

    def with_member(self, member: ClassicGroupMember) -> ClassicGroupMembers:
        """With this member in the place of the one of its id, or behind all others."""
        made = ClassicGroupMembers(self)
        made._index(self.get(member.member_id), member)
        made[member.member_id] = member
        return made

    def without(self, member_id: str) -> ClassicGroupMembers:
        """Raises KeyError for a stranger."""
        made = ClassicGroupMembers(self)
        made._index(made.pop(member_id), None)
        return made

    def assigned(self, assignment: Callable[[ClassicGroupMember], ClassicGroupMember]) -> ClassicGroupMembers:
        """With each member changed by a function that changes nothing but its last assignment."""
        made = ClassicGroupMembers(self)
        for member_id, member in self.items():
            made[member_id] = assignment(member)
        return made

    def with_instance(self, group_instance_id: str) -> ClassicGroupMember | None:
        """The static member of this `group.instance.id`."""
        return self._named("instance", group_instance_id)

    def with_join_id(self, join_id: str) -> ClassicGroupMember | None:
        """The member whose first join carried this `join_id`."""
        return self._named("join", join_id)

    def has_fenced(self, member_id: str) -> bool:
        """Whether it is the id of an earlier incarnation of a member."""
        return ("fenced", member_id) in self._names

    def away(self) -> tuple[ClassicGroupMember, ...]:
        """Those that left and may come back, in the order of their ids."""
        return tuple(self[member_id] for member_id in sorted(self._away))

    def count_joined_after(self, generation_id: int) -> int:
        """How many joined for a later generation than this one."""
        return sum(count for joined, count in self._joined.items() if joined > generation_id)

    def _named(self, kind: str, name: str) -> ClassicGroupMember | None:
        member_id = self._names.get((kind, name))
        return None if member_id is None else self[member_id]

    def _index(self, before: ClassicGroupMember | None, after: ClassicGroupMember | None) -> None:
        """`after` takes the place of `before`; None for no member."""
        known, new = _other_names(before), _other_names(after)
        if known != new:  # a rejoin changes no names, so most copies share them
            self._names = self._names | new
            for name in known.keys() - new.keys():
                if self._names.get(name) == known[name]:  # else another member has taken the name since
                    del self._names[name]
        if before is not None:
            self._away -= {before.member_id}
            self._joined[before.last_join.generation_id] -= 1
            if not self._joined[before.last_join.generation_id]:
                del self._joined[before.last_join.generation_id]
        if after is not None:
            if after.is_away:
                self._away |= {after.member_id}
            self._joined[after.last_join.generation_id] = self._joined.get(after.last_join.generation_id, 0) + 1


def _other_names(member: ClassicGroupMember | None) -> dict[tuple[str, str], str]:
    if member is None:
        return {}
    join, member_id = member.last_join, member.member_id
    names = {("fenced", fenced): member_id for fenced in member.fenced_member_ids}
    if join.group_instance_id is not None:
        names["instance", join.group_instance_id] = member_id
    if join.join_id is not None:
        names["join", join.join_id] = member_id
    return names


class PackedAssignments(SharedAssignments):
    """The assignments of a rebalance. `packed`: their stored form, in which the part that they share stands once.

    The stored form is made where the rebalance is computed, and kept as it is: what members were given is never
    computed again, because a later release may decide or compress differently.
    """

    def __init__(self, parts: Mapping[str, AssignmentParts], packed: bytes) -> None:
        super().__init__(parts)
        self.packed = packed


def packed_assignments(assignments: SharedAssignments) -> PackedAssignments:
    """Takes time in proportion to the bytes that are not shared."""
    return PackedAssignments(assignments.parts, compress(pack(assignments)))


def unpacked_assignments(packed: bytes) -> PackedAssignments:
    """Raises InputError."""
    return PackedAssignments(unpack(decompress(packed, MAX_UNPACKED_BYTES)).parts, packed)


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
    """The input and the topics of a rebalance.

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
        """Members that are away are not waited for: their last subscriptions count."""
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
