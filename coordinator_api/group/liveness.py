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
from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.limits import GroupLimits
from coordinator_api.group.records import (
    CoordinatorRecord,
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
    assignment it fetched or named in a heartbeat. `task_offset_sums`: as its last heartbeat reported them.
    """

    last_heard_ms: int
    timeout_ms: int
    never_heard_from: bool = False
    acknowledged_generation: int = -1
    task_offset_sums: Mapping[TaskId, int] = field(default_factory=dict)

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
    """Mutable; the values in it are not.

    `next_expiry_ms`: no session expires before it; it may be too early, but never too late. `join_timer`: when the
    coordinator stops waiting for joins. `fetch_due_ms`: until when the members of a stable group have to fetch their
    assignment.
    """

    limits: GroupLimits
    sessions: dict[str, Session] = field(default_factory=dict)
    next_expiry_ms: int | None = None
    join_timer: InitialDelay | RejoinTimeout | None = None
    fetch_due_ms: int | None = None

    def copy(self) -> Liveness:
        return Liveness(self.limits, dict(self.sessions), self.next_expiry_ms, self.join_timer, self.fetch_due_ms)

    def heard_from(self, member: ClassicGroupMember, now_ms: int) -> None:
        """A request of this member arrived."""
        timeout_ms = member.last_join.session_timeout_ms
        self.sessions[member.member_id] = replace(
            self.sessions[member.member_id], last_heard_ms=now_ms, timeout_ms=timeout_ms, never_heard_from=False
        )
        self._expires(now_ms + timeout_ms)

    def acknowledged(self, member_id: str, generation_id: int) -> None:
        """The member has the assignment of this generation."""
        known = self.sessions[member_id]
        if generation_id > known.acknowledged_generation:
            self.sessions[member_id] = replace(known, acknowledged_generation=generation_id)

    def reported(self, member_id: str, task_offset_sums: Mapping[TaskId, int]) -> None:
        """The member reported how far each of its tasks is."""
        self.sessions[member_id] = replace(self.sessions[member_id], task_offset_sums=dict(task_offset_sums))

    def expired_members(self, now_ms: int) -> tuple[str, ...]:
        """The members whose sessions have expired. Also makes `next_expiry_ms` exact."""
        self.next_expiry_ms = min((session.expires_at_ms for session in self.sessions.values()), default=None)
        if self.next_expiry_ms is None or self.next_expiry_ms > now_ms:
            return ()
        return tuple(key for key, session in self.sessions.items() if session.expires_at_ms <= now_ms)

    def next_timer_ms(self, image: GroupImage) -> int | None:
        """The earliest time at which `ticking.tick` may find something to do; None for never."""
        if image.led_by is not None:
            return None
        due: list[int | None] = []
        if image.members:
            due.append(self.next_expiry_ms)
        if image.state is GroupState.PREPARING_REBALANCE and self.join_timer is not None:
            due.append(self.join_timer.due_ms)
        if image.state is GroupState.STABLE:
            due.append(self.fetch_due_ms)
            due.append(image.last_rebalance.end.probing_rebalance_at_ms if image.last_rebalance else None)
        return min((one for one in due if one is not None), default=None)

    def applied(self, record: CoordinatorRecord, before: GroupImage, after: GroupImage, now_ms: int) -> None:
        """Update sessions and timers for `record`, which led from `before` to `after`."""
        match record:
            case MemberSubscribed(member_id):
                self._joined(after.members[member_id], before, now_ms)
            case MemberRestored(member):
                self._start_session(member, now_ms)
            case MemberReplaced(_, old_member_id, new_member_id):
                old = self.sessions.pop(old_member_id)
                self.sessions[new_member_id] = Session(now_ms, old.timeout_ms)
                self._await_fetches(after, now_ms)
            case MemberRemoved(member_id):
                del self.sessions[member_id]
            case RebalanceStarted():
                self._await_joins(after, now_ms)
                self.fetch_due_ms = None
            case RebalanceCompleted():
                self._await_fetches(after, now_ms)
            case _:
                pass
        if after.state is not GroupState.PREPARING_REBALANCE:
            self.join_timer = None

    def rearm(self, image: GroupImage, now_ms: int) -> None:
        """After a replay: treat all members as heard from just now, and start every timeout again."""
        self.sessions = {}
        if image.led_by is None:
            for member in image.members.values():
                self._start_session(member, now_ms)
        self.expired_members(now_ms)
        self.join_timer = None
        if image.state is GroupState.PREPARING_REBALANCE:
            self._await_joins(image, now_ms)
        self._await_fetches(image, now_ms)

    def _expires(self, at_ms: int) -> None:
        if self.next_expiry_ms is None or at_ms < self.next_expiry_ms:
            self.next_expiry_ms = at_ms

    def _start_session(self, member: ClassicGroupMember, now_ms: int) -> None:
        self.sessions[member.member_id] = Session(now_ms, member.last_join.session_timeout_ms)
        self._expires(now_ms + member.last_join.session_timeout_ms)

    def _joined(self, member: ClassicGroupMember, before: GroupImage, now_ms: int) -> None:
        if member.member_id in self.sessions:
            self.heard_from(member, now_ms)
            return
        timeout_ms = min(member.last_join.session_timeout_ms, self.limits.new_member_join_timeout_ms)
        self.sessions[member.member_id] = Session(now_ms, timeout_ms, never_heard_from=True)
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
        if image.state is GroupState.STABLE and image.led_by is None:
            self.fetch_due_ms = now_ms + max(image.rebalance_timeout_ms(), image.session_timeout_ms())
        else:
            self.fetch_due_ms = None


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
