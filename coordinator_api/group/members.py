"""The members of a group: immutable values, and a mapping of them that finds one by more than its id.

A member is what its last join said and what the last rebalance gave it. Records and snapshots carry these same values.
Source: `ClassicGroupMember`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import TaskId
from coordinator_api.group.persistent_map import PersistentMap


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
        """Whether it left and may come back: it is heard of no more, and asked for nothing."""
        return self.away_until_ms is not None

    @property
    def is_static(self) -> bool:
        """Whether it has a `group.instance.id` (KIP-345)."""
        return self.last_join.group_instance_id is not None


class ClassicGroupMembers(Mapping[str, ClassicGroupMember]):
    """Member id to member, in the order of joining. Immutable; a change makes another one and costs little."""

    __slots__ = ("_away", "_by_id", "_by_instance", "_by_join_id", "_fenced", "_joined")

    _away: frozenset[str]
    _by_id: PersistentMap[str, ClassicGroupMember]
    _by_instance: PersistentMap[str, str]
    _by_join_id: PersistentMap[str, str]
    _fenced: PersistentMap[str, str]
    _joined: Mapping[int, int]

    def __init__(self) -> None:
        """No members."""
        self._by_id = PersistentMap()
        self._by_instance = self._by_join_id = self._fenced = PersistentMap()
        self._joined = {}
        self._away = frozenset()

    def with_member(self, member: ClassicGroupMember) -> ClassicGroupMembers:
        """With this member in the place of the one of its id, or behind all others."""
        made = self._copy()
        known = self._by_id.get(member.member_id)
        if known is not None:
            made._remove_names(known, member)
        made._by_id = self._by_id.with_value(member.member_id, member)
        made._add_names(member)
        return made

    def without(self, member_id: str) -> ClassicGroupMembers:
        """Raises KeyError for a stranger."""
        made = self._copy()
        made._remove_names(self._by_id[member_id], None)
        made._by_id = self._by_id.without(member_id)
        return made

    def assigned(self, assignment: Callable[[ClassicGroupMember], ClassicGroupMember]) -> ClassicGroupMembers:
        """With each member changed by a function that changes nothing but its last assignment."""
        made = self._copy()
        made._by_id = self._by_id.mapped(lambda _, member: assignment(member))
        return made

    def with_instance(self, group_instance_id: str) -> ClassicGroupMember | None:
        """The static member of this `group.instance.id`."""
        return self._named(self._by_instance, group_instance_id)

    def with_join_id(self, join_id: str) -> ClassicGroupMember | None:
        """The member whose first join carried this `join_id`."""
        return self._named(self._by_join_id, join_id)

    def has_fenced(self, member_id: str) -> bool:
        """Whether it is the id of an earlier incarnation of a member."""
        return member_id in self._fenced

    def away(self) -> tuple[ClassicGroupMember, ...]:
        """Those that left and may come back, in the order of their ids."""
        return tuple(self._by_id[member_id] for member_id in sorted(self._away))

    def count_joined_after(self, generation_id: int) -> int:
        """How many joined for a later generation than this one."""
        return sum(count for joined, count in self._joined.items() if joined > generation_id)

    def __getitem__(self, member_id: str) -> ClassicGroupMember:
        return self._by_id[member_id]

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._by_id

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def __repr__(self) -> str:
        return f"ClassicGroupMembers({list(self.values())!r})"

    def _named(self, index: PersistentMap[str, str], name: str) -> ClassicGroupMember | None:
        member_id = index.get(name)
        return None if member_id is None else self._by_id[member_id]

    def _copy(self) -> ClassicGroupMembers:
        made = ClassicGroupMembers.__new__(ClassicGroupMembers)
        made._by_id, made._by_instance, made._by_join_id = self._by_id, self._by_instance, self._by_join_id
        made._fenced, made._joined, made._away = self._fenced, self._joined, self._away
        return made

    def _add_names(self, member: ClassicGroupMember) -> None:
        join, member_id = member.last_join, member.member_id
        if join.group_instance_id is not None and self._by_instance.get(join.group_instance_id) != member_id:
            self._by_instance = self._by_instance.with_value(join.group_instance_id, member_id)
        if join.join_id is not None and self._by_join_id.get(join.join_id) != member_id:
            self._by_join_id = self._by_join_id.with_value(join.join_id, member_id)
        for fenced in member.fenced_member_ids:
            if self._fenced.get(fenced) != member_id:
                self._fenced = self._fenced.with_value(fenced, member_id)
        self._joined = {**self._joined, join.generation_id: self._joined.get(join.generation_id, 0) + 1}
        if member.is_away:
            self._away |= {member_id}

    def _remove_names(self, member: ClassicGroupMember, after: ClassicGroupMember | None) -> None:
        """Those of `member` that `after`, which takes its place, has not."""
        join = member.last_join
        if join.group_instance_id is not None and (
            after is None or after.last_join.group_instance_id != join.group_instance_id
        ):
            self._by_instance = self._by_instance.without(join.group_instance_id)
        if join.join_id is not None and (after is None or after.last_join.join_id != join.join_id):
            self._by_join_id = self._by_join_id.without(join.join_id)
        for fenced in member.fenced_member_ids:
            if after is None or fenced not in after.fenced_member_ids:
                self._fenced = self._fenced.without(fenced)
        joined = {**self._joined, join.generation_id: self._joined[join.generation_id] - 1}
        self._joined = {generation_id: count for generation_id, count in joined.items() if count}
        self._away -= {member.member_id}
