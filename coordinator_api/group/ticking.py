"""What time alone does: sessions expire, waits end, a probing rebalance starts.

A group has one timer. A tick does whatever is due at `now_ms`, in a fixed order, and `Liveness.next_timer_ms` says when
to come back. A tick that comes too early finds nothing to do. Source: `expireClassicGroupMemberHeartbeat`,
`expirePendingSync`, `tryCompleteInitialRebalanceElseSchedule`, `completeClassicGroupJoin`. In Kafka one of the members
keeps the probing deadline. Here the coordinator keeps it, because the leader runs outside of the members' processes.
"""

from __future__ import annotations

from coordinator_api.group.holding import end_waiting
from coordinator_api.group.liveness import InitialDelay, extended
from coordinator_api.group.outcome import GroupTransition
from coordinator_api.group.rebalancing import close_joins, follow_up_when_acknowledged, start_rebalance
from coordinator_api.group.records import MemberRemoved
from coordinator_api.group.states import GroupState, RebalanceReason, RemovalReason


def tick(step: GroupTransition) -> None:
    if step.image.led_by is not None:
        return  # the coordinator that leads the group keeps its timers
    _expire_sessions(step)
    _remove_members_that_never_fetched(step)
    _end_join_wait(step)
    _start_probing_rebalance(step)
    follow_up_when_acknowledged(step)
    end_waiting(step)  # last: nobody has fetched yet what it completes, so no follow-up of it may be due


def _expire_sessions(step: GroupTransition) -> None:
    """Remove each member that stayed silent for its session timeout, or whose process has lost its connection and not
    come back, and start a rebalance without them.
    """
    expired = {member_id: _expiry(step, member_id) for member_id in step.liveness.expired_members(step.now_ms)}
    gone = {**dict.fromkeys(_disconnected(step), RemovalReason.DISCONNECTED), **expired}
    for member_id, reason in gone.items():
        step.emit(MemberRemoved(member_id, reason))
    if gone:
        left = all(reason is RemovalReason.GRACE_ENDED for reason in gone.values())
        detail = f"{', '.join(gone)} did not come back within the rejoin grace" if left else None
        start_rebalance(step, RebalanceReason.MEMBER_LEFT if left else RebalanceReason.MEMBER_REMOVED, detail)


def _expiry(step: GroupTransition, member_id: str) -> RemovalReason:
    if step.image.members[member_id].is_away:
        return RemovalReason.GRACE_ENDED
    silent = step.liveness.sessions[member_id].never_heard_from
    return RemovalReason.NEVER_HEARD_FROM if silent else RemovalReason.SESSION_EXPIRED


def _disconnected(step: GroupTransition) -> list[str]:
    """Those of them that asked for it. For the others the session timeout counts, as in Kafka."""
    found: list[str] = []
    for member_id in step.liveness.disconnected_members(step.now_ms):
        if step.image.members[member_id].last_join.leave_on_disconnect:
            found.append(member_id)
        else:
            step.liveness.belongs_to(member_id, None, step.now_ms)
    return found


def _remove_members_that_never_fetched(step: GroupTransition) -> None:
    """A member that sends heartbeats, but never fetches its assignment, would keep its tasks from running anywhere."""
    image, liveness = step.image, step.liveness
    if image.state is not GroupState.STABLE or liveness.fetch_due_ms is None or liveness.fetch_due_ms > step.now_ms:
        return
    if not liveness.unfetched:
        liveness.fetch_due_ms = None
        return
    for member_id in liveness.unfetched:
        step.emit(MemberRemoved(member_id, RemovalReason.ASSIGNMENT_NOT_FETCHED))
    start_rebalance(step, RebalanceReason.MEMBER_REMOVED)


def _end_join_wait(step: GroupTransition) -> None:
    timer = step.liveness.join_timer
    if step.image.state is not GroupState.PREPARING_REBALANCE or timer is None or timer.due_ms > step.now_ms:
        return
    if isinstance(timer, InitialDelay):
        longer = extended(timer, step.limits, step.now_ms)
        if longer is not None:
            step.wait(longer)
            return
    close_joins(step)


def _start_probing_rebalance(step: GroupTransition) -> None:
    last = step.image.last_rebalance
    if step.image.state is not GroupState.STABLE or last is None or last.end.probing_rebalance_at_ms is None:
        return
    if last.end.probing_rebalance_at_ms <= step.now_ms:
        start_rebalance(step, RebalanceReason.PROBING_REBALANCE)
