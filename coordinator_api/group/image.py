"""The recorded state of one group, as immutable values. Only the method `apply` of a record makes a new state (see
`records`).

The state of a member consists of its last join and its last assignment. Records and snapshots contain the classes of
this file, so each field is declared only once. Source: `ClassicGroup`, `ClassicGroupMember`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from assignor.names.short_names import client_of_instance
from assignor.protocol.assignment_packing import pack, unpack
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.types import TaskId
from coordinator_api.group.compression import compress, decompress
from coordinator_api.group.events import LastJoin
from coordinator_api.group.events import MemberFailure as MemberFailure
from coordinator_api.group.group_levers import NO_LEVERS, Levers
from coordinator_api.group.states import GroupState, KeptBecause, RebalanceOutcome, RebalanceReason, RemovalReason
from coordinator_api.group.subscriptions import process_of

MAX_FENCED_MEMBER_IDS = 8
"""The number of a member's earlier member ids that stay fenced. The group forgets older member ids, so requests with
these ids are refused as unknown.
"""

KEPT_ENDS = 100
"""The number of ended instances that a group remembers. The group forgets the ends of earlier instances."""

MAX_UNPACKED_BYTES = 2**31 - 1
"""The largest size of unpacked assignments in bytes: lengths in assignments are 32-bit numbers."""


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """The last assignment of a member. Before the first assignment, `generation_id` is 0 and `assignment` is None.

    `assignment`: ConsumerProtocolAssignment. `warm_ups`: the warm-ups among the member's standby tasks.
    """

    generation_id: int = 0
    assignment: AssignmentParts | None = None
    warm_ups: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassicGroupMember:
    """A member. `fenced_member_ids`: the member's earlier ids, oldest first. A static member gets a new id after a
    restart. Any member gets a new id if its process left and came back. `away_until_ms`: the end of the rejoin grace of
    a member that left; None for a member that has not left.
    """

    member_id: str
    last_join: LastJoin
    last_assignment: LastAssignment = LastAssignment()
    fenced_member_ids: tuple[str, ...] = ()
    away_until_ms: int | None = None

    @property
    def is_away(self) -> bool:
        """True if the member has left and may come back. An absent member sends no requests."""
        return self.away_until_ms is not None

    @property
    def is_static(self) -> bool:
        """True if the member has a `group.instance.id` (KIP-345)."""
        return self.last_join.group_instance_id is not None


class ClassicGroupMembers(dict[str, ClassicGroupMember]):
    """The members of a group by member id, in the order of joining. The methods also find a member by its instance id,
    by its join id, or by a fenced member id.

    Images share this mapping, so it must not be changed: each method below returns a changed copy. A copy of 5,000
    members takes about 30 microseconds.
    """

    __slots__ = ("_away", "_joined", "_names")

    _names: dict[tuple[str, str], str]
    """Maps each pair of a kind and a name to a member id. A name is a `group.instance.id`, a `join_id` or a fenced
    member id.
    """
    _joined: dict[int, int]
    """Maps each generation to the number of members whose last join was for this generation. With these numbers, a join
    does not have to iterate over all members.
    """
    _away: frozenset[str]

    def __init__(self, members: ClassicGroupMembers | None = None) -> None:
        """`members`: the mapping to copy; None to make an empty mapping."""
        super().__init__(members or {})
        self._names = {} if members is None else members._names
        self._joined = {} if members is None else members._joined.copy()
        self._away = frozenset() if members is None else members._away

    def with_member(self, member: ClassicGroupMember) -> ClassicGroupMembers:
        """Returns a copy with this member. A member with the same id is replaced. A new member is added at the end."""
        made = ClassicGroupMembers(self)
        made._index(self.get(member.member_id), member)
        made[member.member_id] = member
        return made

    def without(self, member_id: str) -> ClassicGroupMembers:
        """Returns a copy without the member. Raises KeyError for an unknown member."""
        made = ClassicGroupMembers(self)
        made._index(made.pop(member_id), None)
        return made

    def assigned(self, assignment: Callable[[ClassicGroupMember], ClassicGroupMember]) -> ClassicGroupMembers:
        """Returns a copy in which each member is replaced by the result of the function `assignment`. The function may
        change only a member's last assignment.
        """
        made = ClassicGroupMembers(self)
        for member_id, member in self.items():
            made[member_id] = assignment(member)
        return made

    def with_instance(self, group_instance_id: str) -> ClassicGroupMember | None:
        """Returns the static member of this `group.instance.id`."""
        return self._named("instance", group_instance_id)

    def with_join_id(self, join_id: str) -> ClassicGroupMember | None:
        """Returns the member whose first join carried this `join_id`."""
        return self._named("join", join_id)

    def has_fenced(self, member_id: str) -> bool:
        """Returns True if `member_id` is the id of an earlier incarnation of a member."""
        return ("fenced", member_id) in self._names

    def away(self) -> tuple[ClassicGroupMember, ...]:
        """Returns the members that left and may come back, in the order of their ids."""
        return tuple(self[member_id] for member_id in sorted(self._away))

    def count_joined_after(self, generation_id: int) -> int:
        """Returns the number of members that joined for a higher generation than `generation_id`."""
        return sum(count for joined, count in self._joined.items() if joined > generation_id)

    def _named(self, kind: str, name: str) -> ClassicGroupMember | None:
        member_id = self._names.get((kind, name))
        return None if member_id is None else self[member_id]

    def _index(self, before: ClassicGroupMember | None, after: ClassicGroupMember | None) -> None:
        """Update the indexes after a change of one member. `before` is None if the member was added. `after` is None if
        the member was removed.
        """
        known, new = _other_names(before), _other_names(after)
        if known != new:  # a rejoin does not change names, so most copies of this mapping share the same `_names`
            self._names = self._names | new
            for name in known.keys() - new.keys():
                if self._names.get(name) == known[name]:  # remove the name if no other member has it now
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
    """The assignments of a rebalance. `packed`: the stored form of the assignments, which contains the shared part only
    once.

    The stored form is made in the process that computes the rebalance. The stored form is never made a second time,
    because a later release may produce other bytes.
    """

    def __init__(self, parts: Mapping[str, AssignmentParts], packed: bytes) -> None:
        super().__init__(parts)
        self.packed = packed


def packed_assignments(assignments: SharedAssignments) -> PackedAssignments:
    """Packs the assignments. The call takes time in proportion to the bytes that are not shared."""
    return PackedAssignments(assignments.parts, compress(pack(assignments)))


def unpacked_assignments(packed: bytes) -> PackedAssignments:
    """Decodes the assignments from the stored form `packed`. Raises InputError."""
    return PackedAssignments(unpack(decompress(packed, MAX_UNPACKED_BYTES)).parts, packed)


@dataclass(frozen=True, slots=True)
class RebalanceCause:
    """The cause of a rebalance. `detail`: the cause in words, if the name of the reason is not enough."""

    reason: RebalanceReason
    detail: str | None = None

    def as_text(self) -> str:
        return self.detail or str(self.reason)


@dataclass(frozen=True, slots=True)
class RebalanceEnd:
    """The outcome of a rebalance, and its error.

    `followup_rebalance`: True if the leader asked for an immediate follow-up. The follow-up is due if `outcome` is
    `FOLLOW_UP`. `error`: the error in the form `"SimpleName: message"`; None if there was no error. `error_code`: the
    code in the error assignments; 0 if there was no error.
    """

    outcome: RebalanceOutcome
    followup_rebalance: bool = False
    probing_rebalance_at_ms: int | None = None
    error: str | None = None
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class RebalanceBasis:
    """The input and the topics of a rebalance.

    `fingerprint`: a digest. Two rebalances have an equal digest if their inputs are equal and their decisions are
    equal. `topics`, `missing_topics`: as in `AssignmentComputed`.
    """

    fingerprint: str = ""
    topics: Mapping[str, int] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()

    @property
    def polled_cluster(self) -> bool:
        return bool(self.topics or self.missing_topics)


@dataclass(frozen=True, slots=True)
class LastRebalance:
    """The last rebalance that was completed. `definition_revision`: the revision of the definition that the rebalance
    was computed from.
    """

    generation_id: int
    cause: RebalanceCause | None
    definition_revision: int
    end: RebalanceEnd
    basis: RebalanceBasis = field(default_factory=RebalanceBasis)

    def awaits_topics(self) -> bool:
        """Returns whether the next rebalance starts by itself as soon as the missing source topics exist."""
        return self.end.outcome is RebalanceOutcome.ERROR and bool(self.basis.missing_topics)


@dataclass(frozen=True, slots=True)
class HeldRebalance:
    """A rebalance that was computed and waits for approval. `since_ms`: the time at which the wait began. When the
    rebalance is carried out, all fields except `since_ms` become the fields of a `RebalanceCompleted` record.
    """

    since_ms: int
    end: RebalanceEnd
    assignments: PackedAssignments
    warm_ups: Mapping[str, tuple[TaskId, ...]] = field(default_factory=dict)
    basis: RebalanceBasis = field(default_factory=RebalanceBasis)


@dataclass(frozen=True, slots=True)
class InstanceEnd:
    """The end of an instance: the time and the reason of the last departure of one of its members.

    `process_id`: the process of the instance, from the last subscription of the member; the member id if the process is
    not known. `client_id`: the client id of the member without the number of its thread; None if the member sent none.
    `failure`: the error that a member of the instance reported; None if no member reported an error. A process that was
    killed reports no error. `replaced_by`: the process that joined in its place; the same process if it came back. None
    if no process took its place.
    """

    process_id: str
    client_id: str | None
    at_ms: int
    reason: RemovalReason
    failure: MemberFailure | None = None
    replaced_by: str | None = None

    @property
    def is_good(self) -> bool:
        """True if the instance was stopped, so that nobody has to take its place."""
        return self.failure is None and self.reason is RemovalReason.LEFT


@dataclass(frozen=True, slots=True)
class DefinitionOrigin:
    """The caller that sent a definition by PUT, and the time of this PUT. `declared_by`: the caller, as the service
    knew it.
    """

    declared_by: str | None = None
    declared_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GroupImage:
    """The state of a group. If the group has not been declared, `revision` is 0 and `input_json` is None. `origin`: the
    caller and the time of the last PUT of the definition. `members`: the members in the order of joining.

    `initial`: True if the group was empty before the rebalance that is being prepared. The initial delay applies while
    `initial` is True. `cause`, `rebalance_revision`: the cause of the current rebalance, and the definition revision
    that it uses. `led_by`: the leader, if the leader is outside this service; else None. `reported_at_ms`: the arrival
    time of the last report of the outside leader. The last report is the state of the group.

    `held`: the rebalance of this generation if it waits for approval; else None. `kept_because`: the reason why this
    generation may not take tasks from live owners; None if it may take tasks. After an operator discarded a rebalance,
    `kept_because` also applies to the follow-up rebalance. `approved_generation`: the generation of the last held
    rebalance that was carried out; None if its approval has ended. While `approved_generation` is set, follow-up and
    probing rebalances do not wait for approval. `promoted`: for each member, the sorted warm-ups that have triggered an
    early probing rebalance. `promoted` becomes empty when a rebalance begins that is neither a follow-up nor a probing
    rebalance. `ends`: the last `KEPT_ENDS` instances that ended, oldest first.
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
    ends: tuple[InstanceEnd, ...] = ()

    @property
    def present_end(self) -> RebalanceEnd | None:
        """The outcome and the error of the last rebalance if the group is Stable; None in all other states."""
        return self.last_rebalance.end if self.last_rebalance and self.state is GroupState.STABLE else None

    def with_member(self, member: ClassicGroupMember) -> GroupImage:
        """Returns a copy with this member. A member with the same id is replaced. A new member is added at the end."""
        return replace(self, members=self.members.with_member(member))

    def ends_after(
        self, member: ClassicGroupMember, at_ms: int, reason: RemovalReason, failure: MemberFailure | None
    ) -> tuple[InstanceEnd, ...]:
        """Returns `ends` after the departure of a member.

        Each process has one entry, that of its last departed member. The entry keeps the failure that an earlier member
        of the process reported: after one thread of an instance has failed, its other threads leave in good order. If
        the process came back in between, its failure of that time is forgotten.
        """
        join = member.last_join
        process_id = str(process_of(join.subscription) or member.member_id)
        client_id = None if join.client_id is None else client_of_instance(join.client_id)
        # a list comprehension, because thousands of members may be removed in one step
        others = [end for end in self.ends if end.process_id != process_id]
        if failure is None and len(others) < len(self.ends):
            known = next(end for end in self.ends if end.process_id == process_id)
            failure = None if known.replaced_by == process_id else known.failure
        return (*others[1 - KEPT_ENDS :], InstanceEnd(process_id, client_id, at_ms, reason, failure))

    def ends_with_successor(self, subscription: bytes) -> tuple[InstanceEnd, ...]:
        """Returns `ends` after a new member joined, or after an absent member came back. Its process takes the place of
        one ended instance: its own, or else the one that failed or was lost first. Further members of the process take
        no further place.
        """
        process_id = str(process_of(subscription))
        place = next((end for end in self.ends if end.process_id == process_id), None)
        if place is None and not any(end.replaced_by == process_id for end in self.ends):
            place = next((end for end in self.ends if end.replaced_by is None and not end.is_good), None)
        if place is None:
            return self.ends
        return tuple(replace(end, replaced_by=process_id) if end is place else end for end in self.ends)

    def with_nothing_approved(self) -> GroupImage:
        """Returns a copy without the approvals, discards and promoted warm-ups of earlier rebalances."""
        return replace(self, approved_generation=None, kept_because=None, promoted={})

    def prepares_generation(self, generation_id: int) -> bool:
        """Returns True if a rebalance is being prepared, and this rebalance will start this generation."""
        return self.state is GroupState.PREPARING_REBALANCE and generation_id == self.generation_id + 1

    def completes_generation(self, generation_id: int) -> bool:
        """Returns whether the assignment of this generation is being computed, or waits for approval."""
        return self.state is GroupState.COMPLETING_REBALANCE and generation_id == self.generation_id

    def has_joined(self, member: ClassicGroupMember) -> bool:
        """Returns whether the member has sent its subscription for the rebalance that is being prepared. The value is
        only valid during PreparingRebalance.
        """
        return member.last_join.generation_id > self.generation_id

    def takes_part(self, member: ClassicGroupMember) -> bool:
        """Returns whether the member sent its subscription for the current generation. The value is not valid during
        PreparingRebalance.

        A static member does not take part if it did not rejoin within the rebalance timeout. A member also does not
        take part if it was away during the rebalance.
        """
        return member.last_join.generation_id >= self.generation_id

    def all_joined(self) -> bool:
        """Returns whether all members have joined for the next generation. Absent members count as joined, with their
        last subscriptions.
        """
        absent = sum(not self.has_joined(member) for member in self.members.away())
        return self.members.count_joined_after(self.generation_id) + absent == len(self.members)

    def held_until_ms(self) -> int | None:
        """Returns the time at which the held rebalance is carried out without approval. Returns None if no rebalance is
        held.
        """
        if self.held is None or self.levers.hold is None:
            return None
        return self.held.since_ms + self.levers.hold.value_ms

    def rebalance_timeout_ms(self) -> int:
        """Returns the longest rebalance timeout of all members; 0 if the group has no members."""
        return max((member.last_join.rebalance_timeout_ms for member in self.members.values()), default=0)

    def session_timeout_ms(self) -> int:
        """Returns the longest session timeout of all members; 0 if the group has no members."""
        return max((member.last_join.session_timeout_ms for member in self.members.values()), default=0)
