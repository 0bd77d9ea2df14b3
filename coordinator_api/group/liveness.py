"""The part of a group's state that exists only in memory: sessions, connections, acknowledgements of assignments, and
timers.

No record contains the state of `Liveness`. After a replay, all sessions and timeouts start again. The next heartbeats
report the acknowledgements and offsets again. Records update sessions and timers (`CoordinatorRecord.update_liveness`).
The rules of the group also change this state, for example when a request arrives. The state in memory needs no commit,
because its loss does no harm.
Source: the timers in `GroupMetadataManager` (session, join, pending sync, initial delay).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.reported_flow import FlowHistory, ReportedFlow
from coordinator_api.group.reported_offsets import ReportedOffsets
from coordinator_api.group.states import GroupState


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The limits of a group. Most of these settings have the same names in Kafka's broker. All times are in
    milliseconds.

    `initial_rebalance_delay_ms` (`group.initial.rebalance.delay.ms`): the time for which an empty group waits for more
    members after its first member joins. `min_session_timeout_ms`, `max_session_timeout_ms`: the limits of a member's
    session timeout. Differs from Kafka: the default minimum is 500 ms, not 6,000 ms, to allow failover within a second.
    `max_size` (`group.max.size`): the largest number of members. `new_member_join_timeout_ms`: the time after which a
    member is removed if it sends no request after its first join. `new_member_join_timeout_ms` may be shorter than the
    session timeout. If a new member is silent, the answer to its join was probably lost, so no process uses the member
    id. `disconnect_grace_ms` (`group.disconnect.grace.ms`): the time within which a member must come back after its
    connection breaks (see `ConnectionLost`).

    Source: `GroupCoordinatorConfig`.
    """

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 500
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    disconnect_grace_ms: int = 100


@dataclass(frozen=True, slots=True)
class Session:
    """The session of one member. `last_heard_ms`: the arrival time of the member's last request. `timeout_ms`: the
    session timeout, which starts at `last_heard_ms`.

    `silent_since_join`: True if the member has sent no request since its first join. `acknowledged_generation`: the
    last generation that the member has acknowledged, by fetching its assignment or by naming it in a heartbeat.
    `offsets`, `flow`: the offset sums and the flows that the member has reported with its heartbeats.
    `connection_id`: the connection that the member belongs to; None if the service does not watch the member's
    connection.
    """

    last_heard_ms: int
    timeout_ms: int
    silent_since_join: bool = False
    acknowledged_generation: int = -1
    offsets: ReportedOffsets = field(default_factory=ReportedOffsets)
    flow: ReportedFlow = field(default_factory=ReportedFlow)
    connection_id: int | None = None

    @property
    def expires_at_ms(self) -> int:
        return self.last_heard_ms + self.timeout_ms


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """After its first join, an empty group waits for more members until `due_ms`. `remaining_ms`: the longest time by
    which the wait may still be extended.
    """

    due_ms: int
    delay_ms: int
    remaining_ms: int
    member_added: bool = False


@dataclass(frozen=True, slots=True)
class RejoinTimeout:
    """The wait for members to rejoin, which ends at `due_ms`."""

    due_ms: int


@dataclass(slots=True)
class MemberConnections:
    """A mutable table of the connections on which the members sent their last process heartbeats. The table also
    contains the broken connections, each with the time of its break.

    A killed process sends no message, but its kernel closes its connections within milliseconds. Rules:

    - A member belongs to the connection on which its last process heartbeat arrived.
    - The connection of a member may break while an earlier heartbeat of its process is held on another connection. The
      process is then alive, and the member again belongs to the connection with the held heartbeat. For example, the
      coordinator may read a heartbeat after the process gave up this heartbeat's connection.
    - A broken connection becomes due `disconnect_grace_ms` after its break. When a broken connection is due, the
      sessions of its members end if the members asked for `leave_on_disconnect`. A member is alive if it sends a
      request before its broken connection is due. The request removes the member from the broken connection.
    - While more than half of the group's connections are broken, no broken connection is due. If most connections are
      broken, the cause is probably the network, and the members are alive. When half of the connections work again, the
      broken connections become due after a further wait. The further wait is as long as the time since the break, and
      at least `disconnect_grace_ms`.

    Differs from Kafka, which always waits for the session timeout. In this coordinator, only members with
    `leave_on_disconnect` are removed when their connection breaks.

    `members`: the members of each connection. A connection without members has no entry. `lost`: for each broken
    connection, the time at which it broke. `came_back_ms`: the last time at which the share of broken connections fell
    to one half or less; None if this share never fell.
    """

    members: dict[int, frozenset[str]] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)
    came_back_ms: int | None = None

    def copy(self) -> MemberConnections:
        return MemberConnections(self.members.copy(), self.lost.copy(), self.came_back_ms)

    @property
    def most_are_lost(self) -> bool:
        """True if more than half of the connections are broken."""
        return 2 * len(self.lost) > len(self.members)

    def move(self, member_id: str, before: int | None, now: int | None, now_ms: int) -> None:
        """Move the member from the connection `before` to the connection `now`. None stands for a connection that is
        not watched.
        """
        most_were_lost = self.most_are_lost
        if before is not None and before in self.members:
            left = self.members[before] - {member_id}
            if left:
                self.members[before] = left
            else:
                del self.members[before]
                self.lost.pop(before, None)
        if now is not None:
            self.members[now] = self.members.get(now, frozenset()) | {member_id}
        if most_were_lost and not self.most_are_lost:
            self.came_back_ms = now_ms

    def broken(self) -> tuple[frozenset[str], int] | None:
        """Returns the members whose connections are broken and who have not come back, and the time of the first break;
        None if there are none.
        """
        if not self.lost:
            return None
        members = (self.members.get(key, frozenset()) for key in self.lost)
        return frozenset().union(*members), min(self.lost.values())

    def due(self, grace_ms: int, now_ms: int) -> tuple[int, ...]:
        """Returns the broken connections whose members have not come back in time."""
        if self.most_are_lost:
            return ()
        return tuple(key for key, lost_ms in self.lost.items() if self._due_ms(lost_ms, grace_ms) <= now_ms)

    def next_due_ms(self, grace_ms: int) -> int | None:
        """Returns the time at which the next broken connection is due. Returns None if no connection is broken, or if
        more than half of the connections are broken.
        """
        if not self.lost or self.most_are_lost:
            return None
        return min(self._due_ms(lost_ms, grace_ms) for lost_ms in self.lost.values())

    def _due_ms(self, lost_ms: int, grace_ms: int) -> int:
        if self.came_back_ms is None or lost_ms > self.came_back_ms:
            return lost_ms + grace_ms
        # The connection broke before `came_back_ms`, so it gets a further wait. The further wait is as long as the time
        # from the break to `came_back_ms`.
        return self.came_back_ms + max(grace_ms, self.came_back_ms - lost_ms)


@dataclass(slots=True)
class Liveness:
    """The sessions, connections and timers of a group. A Liveness is mutable: a heartbeat changes the deadline of its
    member in place.

    Only the event loop changes a Liveness. Other threads may read a session. `sessions`: the session of each member.
    `next_expiry_ms`: a time before which no session expires. The first session may expire later than `next_expiry_ms`.
    `join_timer`: the end of the wait for joins. `fetch_due_ms`: the time by which the members of a stable group have to
    fetch their assignment. `unfetched`: the members that still have to fetch their assignment, each with the generation
    to fetch. `flow_history`: the flow of the group in the last hour. `opened_at_ms`: the time at which the group was
    read from the store; None if it is new. `silent_members`: the members that have sent no request since then.
    """

    limits: GroupLimits
    sessions: dict[str, Session] = field(default_factory=dict)
    next_expiry_ms: int | None = None
    join_timer: InitialDelay | RejoinTimeout | None = None
    fetch_due_ms: int | None = None
    unfetched: dict[str, int] = field(default_factory=dict)
    connections: MemberConnections = field(default_factory=MemberConnections)
    flow_history: FlowHistory = field(default_factory=FlowHistory)
    opened_at_ms: int | None = None
    silent_members: set[str] = field(default_factory=set)

    def copy(self) -> Liveness:
        sessions, unfetched = self.sessions.copy(), self.unfetched.copy()
        connections, silent = self.connections.copy(), self.silent_members.copy()
        return replace(self, sessions=sessions, unfetched=unfetched, connections=connections, silent_members=silent)

    def request_arrived(
        self,
        member: ClassicGroupMember,
        now_ms: int,
        connection_id: int | None = None,
        offsets: ReportedOffsets | None = None,
        flow: ReportedFlow | None = None,
    ) -> None:
        """Restart the session timeout of a member that has sent a request. `connection_id`: the connection of the
        request, if the request is a process heartbeat. `offsets`, `flow`: the offsets and the flow after the request,
        if the request is a heartbeat.

        A process heartbeat moves the member to this connection. Any other request removes the member from a broken
        connection.
        """
        member_id, timeout_ms = member.member_id, member.last_join.session_timeout_ms
        self.silent_members.discard(member_id)
        known = self.sessions[member_id]
        belongs = known.connection_id
        if connection_id is not None or belongs in self.connections.lost:
            belongs = connection_id
        if belongs != known.connection_id:
            self.connections.move(member_id, known.connection_id, belongs, now_ms)
        self.sessions[member_id] = Session(
            last_heard_ms=now_ms,
            timeout_ms=timeout_ms,
            acknowledged_generation=known.acknowledged_generation,
            offsets=known.offsets if offsets is None else offsets,
            flow=known.flow if flow is None else flow,
            connection_id=belongs,
        )
        self._expires(now_ms + timeout_ms)
        if flow is not None and flow.flows and self.flow_history.is_due(now_ms):
            reported = (session.flow for session in self.sessions.values())
            self.flow_history = self.flow_history.with_point(reported, now_ms)

    def acknowledged(self, member_id: str, generation_id: int) -> None:
        """Record that the member has fetched the assignment of this generation."""
        known = self.sessions[member_id]
        if generation_id > known.acknowledged_generation:
            self.sessions[member_id] = replace(known, acknowledged_generation=generation_id)
        if generation_id >= self.unfetched.get(member_id, generation_id + 1):
            del self.unfetched[member_id]

    def connection_lost(self, connection_id: int, held_elsewhere: Mapping[str, int], now_ms: int) -> None:
        """Record that the connection broke. `held_elsewhere`: as in `events.ConnectionLost`."""
        for member_id, elsewhere in held_elsewhere.items():
            known = self.sessions.get(member_id)
            if known is not None and known.connection_id == connection_id:
                self.belongs_to(member_id, elsewhere, now_ms)
        if connection_id in self.connections.members:
            self.connections.lost.setdefault(connection_id, now_ms)

    def belongs_to(self, member_id: str, connection_id: int | None, now_ms: int) -> None:
        """Move the member to this connection; None stands for a connection that is not watched. The move does not
        extend the member's session.
        """
        known = self.sessions[member_id]
        if known.connection_id != connection_id:
            self.connections.move(member_id, known.connection_id, connection_id, now_ms)
            self.sessions[member_id] = replace(known, connection_id=connection_id)

    def expired_members(self, now_ms: int) -> tuple[str, ...]:
        """Returns the members whose sessions have expired. The call also sets `next_expiry_ms` to its exact value."""
        self._make_next_expiry_exact()
        if self.next_expiry_ms is None or self.next_expiry_ms > now_ms:
            return ()
        return tuple(key for key, session in self.sessions.items() if session.expires_at_ms <= now_ms)

    def disconnected_members(self, now_ms: int) -> tuple[str, ...]:
        """Returns the members that have not come back in time after their connection broke. The members are ordered by
        their ids.
        """
        due = self.connections.due(self.limits.disconnect_grace_ms, now_ms)
        return tuple(sorted(member_id for key in due for member_id in self.connections.members[key]))

    def next_timer_ms(self, image: GroupImage) -> int | None:
        """Returns the earliest time at which a timer may be due and a `Tick` is needed; None if no timer is set."""
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
        if image.held is not None:
            due.append(image.held_until_ms())
        return min((each for each in due if each is not None), default=None)

    def rearm(self, image: GroupImage, now_ms: int) -> None:
        """Restart every session and timeout after a replay. For each member, the present time counts as the time of its
        last request.
        """
        members = image.members.values() if image.led_by is None else ()
        self.sessions = {member.member_id: _first_session(member, now_ms) for member in members}
        self.opened_at_ms = now_ms
        self.silent_members = {member.member_id for member in members if not member.is_away}
        self._make_next_expiry_exact()
        self.join_timer = None
        if image.state is GroupState.PREPARING_REBALANCE:
            self.await_joins(image, now_ms)
        self.await_fetches(image, now_ms)

    def member_subscribed(self, member: ClassicGroupMember, before: GroupImage, after: GroupImage, now_ms: int) -> None:
        """Update the member's session after it joined or rejoined. The group may be stable, because a static member may
        come back without a rebalance.
        """
        if member.member_id in self.sessions:
            self.request_arrived(member, now_ms)
        else:
            timeout_ms = min(member.last_join.session_timeout_ms, self.limits.new_member_join_timeout_ms)
            self.sessions[member.member_id] = Session(now_ms, timeout_ms, silent_since_join=True)
            self._expires(now_ms + timeout_ms)
            if isinstance(self.join_timer, InitialDelay) and before.initial:
                self.join_timer = replace(self.join_timer, member_added=True)
        if after.state is GroupState.STABLE and self._has_to_fetch(member, after):
            self.unfetched[member.member_id] = after.generation_id

    def start_session(self, member: ClassicGroupMember, now_ms: int) -> None:
        session = _first_session(member, now_ms)
        self.sessions[member.member_id] = session
        self._expires(session.expires_at_ms)

    def end_session(self, member_id: str, now_ms: int) -> Session:
        """End the session of the member, and return the session."""
        ended = self.sessions.pop(member_id)
        self.silent_members.discard(member_id)
        self.connections.move(member_id, ended.connection_id, None, now_ms)
        self.unfetched.pop(member_id, None)
        return ended

    def replace_session(self, old_member_id: str, new_member_id: str, now_ms: int) -> None:
        """Move the session to the new member id of the same member."""
        timeout_ms = self.end_session(old_member_id, now_ms).timeout_ms
        self.sessions[new_member_id] = Session(now_ms, timeout_ms)

    def await_joins(self, image: GroupImage, now_ms: int) -> None:
        """Start the wait for joins. During the wait for joins, no member has to fetch the result of the previous
        rebalance.
        """
        self.fetch_due_ms, self.unfetched = None, {}
        if image.initial:
            self.join_timer = _initial_delay(image, self.limits.initial_rebalance_delay_ms, now_ms)
        else:
            self.join_timer = rejoin_timeout(image, now_ms)

    def await_fetches(self, image: GroupImage, now_ms: int) -> None:
        """Start the time limit for fetches. Differs from Kafka: the time limit is the session timeout or the rebalance
        timeout, whichever is longer. With the longer limit, a restart of the coordinator does not remove a member
        early.
        """
        if image.state is not GroupState.STABLE or image.led_by is not None:
            self.fetch_due_ms, self.unfetched = None, {}
            return
        self.fetch_due_ms = now_ms + max(image.rebalance_timeout_ms(), image.session_timeout_ms())
        self.unfetched = {
            key: image.generation_id for key, member in image.members.items() if self._has_to_fetch(member, image)
        }

    def _expires(self, at_ms: int) -> None:
        if self.next_expiry_ms is None or at_ms < self.next_expiry_ms:
            self.next_expiry_ms = at_ms

    def _make_next_expiry_exact(self) -> None:
        self.next_expiry_ms = min((session.expires_at_ms for session in self.sessions.values()), default=None)

    def _has_to_fetch(self, member: ClassicGroupMember, image: GroupImage) -> bool:
        known = self.sessions[member.member_id].acknowledged_generation
        return image.takes_part(member) and not member.is_away and known < image.generation_id


def _first_session(member: ClassicGroupMember, now_ms: int) -> Session:
    """Returns a session that starts now. For an absent member, the session ends at the end of the member's grace, even
    after a restart of the coordinator.
    """
    if member.away_until_ms is not None:
        return Session(now_ms, member.away_until_ms - now_ms)
    return Session(now_ms, member.last_join.session_timeout_ms)


def rejoin_timeout(image: GroupImage, now_ms: int) -> RejoinTimeout:
    """Returns a join timer that starts now and lasts for the longest rebalance timeout of the members."""
    return RejoinTimeout(now_ms + image.rebalance_timeout_ms())


def _initial_delay(image: GroupImage, delay_ms: int, now_ms: int) -> InitialDelay:
    # if the delay is 0, the first member does not wait, and later joins cannot extend a wait
    remaining_ms = max(image.rebalance_timeout_ms() - delay_ms, 0) if delay_ms else 0
    return InitialDelay(now_ms + delay_ms, delay_ms, remaining_ms)


def extended(timer: InitialDelay, limits: GroupLimits, now_ms: int) -> InitialDelay | None:
    """If members joined during the present interval of the initial delay, returns the next interval. Otherwise, or if
    the delay may not be extended further, returns None.

    Source: `GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule`.
    """
    if not timer.member_added or timer.remaining_ms == 0:
        return None
    delay_ms = min(limits.initial_rebalance_delay_ms, timer.remaining_ms)
    return InitialDelay(now_ms + delay_ms, delay_ms, max(timer.remaining_ms - timer.delay_ms, 0))
