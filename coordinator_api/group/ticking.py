"""What time alone does: sessions expire, waits end, a probing rebalance starts.

A group has one timer. A tick does whatever is due at `now_ms`, in a fixed order, and `Liveness.next_timer_ms` says when
to come back. A tick that comes too early finds nothing to do. Source: `expireClassicGroupMemberHeartbeat`,
`expirePendingSync`, `tryCompleteInitialRebalanceElseSchedule`, `completeClassicGroupJoin`. In Kafka one of the members
keeps the probing deadline. Here the coordinator keeps it, because the leader runs outside of the members' processes.
"""

from __future__ import annotations

from coordinator_api.group.liveness import InitialDelay, extended
from coordinator_api.group.rebalancing import close_joins, follow_up_when_acknowledged, start_rebalance
from coordinator_api.group.records import MemberRemoved
from coordinator_api.group.states import GroupState, RebalanceReason, RemovalReason
from coordinator_api.group.transition import GroupTransition


def tick(step: GroupTransition) -> None:
    if step.image.led_by is not None:
        return  # the coordinator that leads the group keeps its timers
    _expire_sessions(step)
    _remove_members_that_never_fetched(step)
    _end_join_wait(step)
    _start_probing_rebalance(step)
    follow_up_when_acknowledged(step)


def _expire_sessions(step: GroupTransition) -> None:
    """Remove each member that stayed silent for its session timeout, and start a rebalance without them."""
    expired = step.liveness.expired_members(step.now_ms)
    for member_id in expired:
        session = step.liveness.sessions[member_id]
        reason = RemovalReason.NEVER_HEARD_FROM if session.never_heard_from else RemovalReason.SESSION_EXPIRED
        step.emit(MemberRemoved(member_id, reason))
    if expired:
        start_rebalance(step, RebalanceReason.MEMBER_REMOVED)


def _remove_members_that_never_fetched(step: GroupTransition) -> None:
    """A member that sends heartbeats, but never fetches its assignment, would keep its tasks from running anywhere."""
    image, liveness = step.image, step.liveness
    if image.state is not GroupState.STABLE or liveness.fetch_due_ms is None or liveness.fetch_due_ms > step.now_ms:
        return
    without = [
        member_id
        for member_id, member in image.members.items()
        if image.takes_part(member) and liveness.sessions[member_id].acknowledged_generation < image.generation_id
    ]
    if not without:
        liveness.fetch_due_ms = None
        return
    for member_id in without:
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
