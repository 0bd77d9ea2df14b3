"""What a group knows only while it is in memory: when each member was last heard from, which of them have their
assignment, and what is due when.

None of it is recorded. After a replay all sessions and timeouts start again, and the next heartbeats bring back the
acknowledgements and the offsets. `applied` updates all this for each record. Handlers note the rest: signs of life,
acknowledgements, a longer delay. A lost note does no harm, so notes need no commit.
Source: the timers in `GroupMetadataManager` (session, join, pending sync, initial delay).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assignor.types import TaskId
from coordinator_api.group.connections import MemberConnections
from coordinator_api.group.image import GroupImage
from coordinator_api.group.limits import GroupLimits
from coordinator_api.group.members import ClassicGroupMember
from coordinator_api.group.persistent_map import PersistentMap
from coordinator_api.group.records import (
    CoordinatorRecord,
    MemberAway,
    MemberRemoved,
    MemberReplaced,
    MemberRestored,
    MemberSubscribed,
    RebalanceCompleted,
    RebalanceStarted,
)
from coordinator_api.group.states import GroupState


@dataclass(frozen=True, slots=True)
class Session:
    """`last_heard_ms`: when the member's last request arrived. `timeout_ms`: how long it may stay silent after that.

    `never_heard_from`: it has sent nothing since its first join. `acknowledged_generation`: the last generation whose
    assignment it fetched or named in a heartbeat.
    `task_offset_sums`: as its last heartbeat reported them. `connection_id`: that it belongs to, None for none that is
    watched.
    """

    last_heard_ms: int
    timeout_ms: int
    never_heard_from: bool = False
    acknowledged_generation: int = -1
    task_offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    connection_id: int | None = None

    @property
    def expires_at_ms(self) -> int:
        return self.last_heard_ms + self.timeout_ms


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """An empty group waits for more members. `remaining_ms`: by how much the wait may still be extended."""

    due_ms: int
    delay_ms: int
    remaining_ms: int
    member_added: bool = False


@dataclass(frozen=True, slots=True)
class RejoinTimeout:
    """Members have until `due_ms` to rejoin."""

    due_ms: int


@dataclass(slots=True)
class Liveness:
    """Mutable; the values in it are not, so a copy costs nothing.

    `next_expiry_ms`: no session expires before it; it may be too early, but never too late. `join_timer`: when the
    coordinator stops waiting for joins. `fetch_due_ms`: until when the members of a stable group have to fetch their
    assignment; `unfetched`: those that take part and have not yet.
    """

    limits: GroupLimits
    sessions: PersistentMap[str, Session] = field(default_factory=PersistentMap)
    next_expiry_ms: int | None = None
    join_timer: InitialDelay | RejoinTimeout | None = None
    fetch_due_ms: int | None = None
    unfetched: PersistentMap[str, int] = field(default_factory=PersistentMap)
    connections: MemberConnections = field(default_factory=MemberConnections)

    def copy(self) -> Liveness:
        return replace(self)

    def heard_from(
        self,
        member: ClassicGroupMember,
        now_ms: int,
        connection_id: int | None = None,
        task_offset_sums: Mapping[TaskId, int] | None = None,
    ) -> None:
        """A request of this member arrived. `connection_id`: that of a process heartbeat.

        Any other request leaves the member where it belongs, unless that connection is broken.
        """
        member_id, timeout_ms = member.member_id, member.last_join.session_timeout_ms
        known = self.sessions[member_id]
        belongs = known.connection_id
        if connection_id is not None or belongs in self.connections.lost:
            belongs = connection_id
        if belongs != known.connection_id:
            self.connections = self.connections.moved(member_id, known.connection_id, belongs, now_ms)
        session = Session(
            last_heard_ms=now_ms,
            timeout_ms=timeout_ms,
            acknowledged_generation=known.acknowledged_generation,
            task_offset_sums=known.task_offset_sums if task_offset_sums is None else task_offset_sums,
            connection_id=belongs,
        )
        self.sessions = self.sessions.with_value(member_id, session)
        self._expires(now_ms + timeout_ms)

    def acknowledged(self, member_id: str, generation_id: int) -> None:
        """The member has the assignment of this generation."""
        known = self.sessions[member_id]
        if generation_id > known.acknowledged_generation:
            self.sessions = self.sessions.with_value(member_id, replace(known, acknowledged_generation=generation_id))
        if generation_id >= self.unfetched.get(member_id, generation_id + 1):
            self.unfetched = self.unfetched.without(member_id)

    def connection_lost(self, connection_id: int, held_elsewhere: Mapping[str, int], now_ms: int) -> None:
        """The connection broke. `held_elsewhere`: the whole connections on which members have a heartbeat held."""
        for member_id, elsewhere in held_elsewhere.items():
            known = self.sessions.get(member_id)
            if known is not None and known.connection_id == connection_id:
                self._belongs(member_id, elsewhere, now_ms)
        self.connections = self.connections.broken(connection_id, now_ms)

    def forget_connection(self, member_id: str, now_ms: int) -> None:
        """The member no longer belongs to a connection."""
        self._belongs(member_id, None, now_ms)

    def expired_members(self, now_ms: int) -> tuple[str, ...]:
        """The members whose sessions have expired. Also makes `next_expiry_ms` exact."""
        self._make_next_expiry_exact()
        if self.next_expiry_ms is None or self.next_expiry_ms > now_ms:
            return ()
        return tuple(key for key, session in self.sessions.items() if session.expires_at_ms <= now_ms)

    def disconnected_members(self, now_ms: int) -> tuple[str, ...]:
        """The members of broken connections that have not come back in time, in the order of their ids."""
        due = self.connections.due(self.limits.disconnect_grace_ms, now_ms)
        return tuple(sorted(member_id for key in due for member_id in self.connections.members[key]))

    def next_timer_ms(self, image: GroupImage) -> int | None:
        """The earliest time at which `ticking.tick` may find something to do; None for never."""
        if image.led_by is not None:
            return None
        due: list[int | None] = []
        if image.members:
            due.append(self.next_expiry_ms)
            due.append(self.connections.next_due_ms(self.limits.disconnect_grace_ms))
        if image.state is GroupState.PREPARING_REBALANCE and self.join_timer is not None:
            due.append(self.join_timer.due_ms)
        if image.state is GroupState.STABLE:
            due.append(self.fetch_due_ms)
            due.append(image.last_rebalance.end.probing_rebalance_at_ms if image.last_rebalance else None)
        due.append(image.held_until_ms())
        return min((one for one in due if one is not None), default=None)

    def belongs_to(self, member_id: str, connection_id: int, now_ms: int) -> None:
        """A process heartbeat that named the member came on this connection. It is no sign of life."""
        if self.sessions[member_id].connection_id != connection_id:
            self._belongs(member_id, connection_id, now_ms)

    def applied(self, record: CoordinatorRecord, before: GroupImage, after: GroupImage, now_ms: int) -> None:
        """Update sessions and timers for `record`, which led from `before` to `after`."""
        match record:
            case MemberSubscribed(member_id):
                self._joined(after.members[member_id], before, now_ms)
                self._await_fetch(after.members[member_id], after)
            case MemberRestored(member):
                self._start_session(member, now_ms)
            case MemberReplaced(_, old_member_id, new_member_id):
                old = self.sessions[old_member_id]
                self._end_session(old_member_id, now_ms)
                session = Session(now_ms, old.timeout_ms)
                self.sessions = self.sessions.with_value(new_member_id, session)
                self._await_fetches(after, now_ms)
            case MemberAway(member_id):
                self._end_session(member_id, now_ms)
                self._start_session(after.members[member_id], now_ms)
            case MemberRemoved(member_id):
                self._end_session(member_id, now_ms)
            case RebalanceStarted():
                self._await_joins(after, now_ms)
                self.fetch_due_ms, self.unfetched = None, PersistentMap()
            case RebalanceCompleted():
                self._await_fetches(after, now_ms)
            case _:
                pass
        if after.state is not GroupState.PREPARING_REBALANCE:
            self.join_timer = None

    def rearm(self, image: GroupImage, now_ms: int) -> None:
        """After a replay: treat all members as heard from just now, and start every timeout again."""
        self.sessions = PersistentMap()
        if image.led_by is None:
            self.sessions = PersistentMap(
                {member_id: _first_session(member, now_ms) for member_id, member in image.members.items()}
            )
        self._make_next_expiry_exact()
        self.join_timer = None
        if image.state is GroupState.PREPARING_REBALANCE:
            self._await_joins(image, now_ms)
        self._await_fetches(image, now_ms)

    def _belongs(self, member_id: str, connection_id: int | None, now_ms: int) -> None:
        known = self.sessions[member_id]
        self.connections = self.connections.moved(member_id, known.connection_id, connection_id, now_ms)
        self.sessions = self.sessions.with_value(member_id, replace(known, connection_id=connection_id))

    def _expires(self, at_ms: int) -> None:
        if self.next_expiry_ms is None or at_ms < self.next_expiry_ms:
            self.next_expiry_ms = at_ms

    def _make_next_expiry_exact(self) -> None:
        self.next_expiry_ms = min((session.expires_at_ms for session in self.sessions.values()), default=None)

    def _start_session(self, member: ClassicGroupMember, now_ms: int) -> None:
        session = _first_session(member, now_ms)
        self.sessions = self.sessions.with_value(member.member_id, session)
        self._expires(session.expires_at_ms)

    def _end_session(self, member_id: str, now_ms: int) -> None:
        self.connections = self.connections.moved(member_id, self.sessions[member_id].connection_id, None, now_ms)
        self.sessions = self.sessions.without(member_id)
        self.unfetched = self.unfetched.without(member_id)

    def _joined(self, member: ClassicGroupMember, before: GroupImage, now_ms: int) -> None:
        if member.member_id in self.sessions:
            self.heard_from(member, now_ms)
            return
        timeout_ms = min(member.last_join.session_timeout_ms, self.limits.new_member_join_timeout_ms)
        session = Session(now_ms, timeout_ms, never_heard_from=True)
        self.sessions = self.sessions.with_value(member.member_id, session)
        self._expires(now_ms + timeout_ms)
        if isinstance(self.join_timer, InitialDelay) and before.initial:
            self.join_timer = replace(self.join_timer, member_added=True)

    def _await_joins(self, image: GroupImage, now_ms: int) -> None:
        if image.initial:
            self.join_timer = _initial_delay(image, self.limits.initial_rebalance_delay_ms, now_ms)
        else:
            self.join_timer = rejoin_timeout(image, now_ms)

    def _await_fetches(self, image: GroupImage, now_ms: int) -> None:
        """Differs from Kafka: the longer of session and rebalance timeout, so that a restart evicts nobody early."""
        if image.state is not GroupState.STABLE or image.led_by is not None:
            self.fetch_due_ms, self.unfetched = None, PersistentMap()
            return
        self.fetch_due_ms = now_ms + max(image.rebalance_timeout_ms(), image.session_timeout_ms())
        self.unfetched = PersistentMap(
            {key: image.generation_id for key, member in image.members.items() if self._has_to_fetch(member, image)}
        )

    def _await_fetch(self, member: ClassicGroupMember, image: GroupImage) -> None:
        """A static member may come back while the group is stable."""
        if image.state is GroupState.STABLE and self._has_to_fetch(member, image):
            self.unfetched = self.unfetched.with_value(member.member_id, image.generation_id)

    def _has_to_fetch(self, member: ClassicGroupMember, image: GroupImage) -> bool:
        known = self.sessions[member.member_id].acknowledged_generation
        return image.takes_part(member) and not member.is_away and known < image.generation_id


def _first_session(member: ClassicGroupMember, now_ms: int) -> Session:
    """From now on. That of a member that is away ends with its grace, which a restart does not make longer."""
    if member.away_until_ms is not None:
        return Session(now_ms, member.away_until_ms - now_ms)
    return Session(now_ms, member.last_join.session_timeout_ms)


def rejoin_timeout(image: GroupImage, now_ms: int) -> RejoinTimeout:
    """Starts now, and lasts as long as the slowest member asked for."""
    return RejoinTimeout(now_ms + image.rebalance_timeout_ms())


def _initial_delay(image: GroupImage, delay_ms: int, now_ms: int) -> InitialDelay:
    # with a delay of 0 the first member is not kept waiting at all, so later joins do not extend the wait either
    remaining_ms = max(image.rebalance_timeout_ms() - delay_ms, 0) if delay_ms else 0
    return InitialDelay(now_ms + delay_ms, delay_ms, remaining_ms)


def extended(timer: InitialDelay, limits: GroupLimits, now_ms: int) -> InitialDelay | None:
    """The initial delay once more, because members joined while it ran; None when it is over.

    Source: `GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule`.
    """
    if not timer.member_added or timer.remaining_ms == 0:
        return None
    delay_ms = min(limits.initial_rebalance_delay_ms, timer.remaining_ms)
    return InitialDelay(now_ms + delay_ms, delay_ms, max(timer.remaining_ms - timer.delay_ms, 0))
