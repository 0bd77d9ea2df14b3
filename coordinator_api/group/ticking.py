"""Time going by: sessions end, waits are over, a probing rebalance is due.

One timer for the whole group: whatever is due at `now_ms` is done, in a fixed order, and `next_timer_ms` says when to
come back. Coming too early finds nothing due. Source: `expireClassicGroupMemberHeartbeat`, `expirePendingSync`,
`tryCompleteInitialRebalanceElseSchedule`, `completeClassicGroupJoin`. The probing deadline, which one of the members
keeps in Kafka, is kept here because the leader is out of process.
"""

from __future__ import annotations

from coordinator_api.group.liveness import InitialDelay, extended
from coordinator_api.group.rebalancing import close_joins, follow_up_when_acknowledged, prepare
from coordinator_api.group.records import MemberRemoved
from coordinator_api.group.states import GroupState, RebalanceReason, RemovalReason
from coordinator_api.group.transition import GroupTransition


def tick(step: GroupTransition) -> None:
    if step.image.led_by is not None:
        return  # its time is kept where it is led
    _end_sessions(step)
    _remove_members_that_never_fetched(step)
    _end_join_wait(step)
    _start_probing_rebalance(step)
    follow_up_when_acknowledged(step)


def _end_sessions(step: GroupTransition) -> None:
    expired = step.liveness.expired_members(step.now_ms)
    for member_id in expired:
        session = step.liveness.sessions[member_id]
        silent = RemovalReason.NEVER_HEARD_FROM if session.never_heard_from else RemovalReason.SESSION_EXPIRED
        step.emit(MemberRemoved(member_id, silent))
    if expired:
        prepare(step, RebalanceReason.MEMBER_REMOVED)


def _remove_members_that_never_fetched(step: GroupTransition) -> None:
    """A member that heartbeats but never takes its assignment would leave its tasks without an owner for ever."""
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
    prepare(step, RebalanceReason.MEMBER_REMOVED)


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
    last_rebalance = step.image.last_rebalance
    if (
        step.image.state is not GroupState.STABLE
        or last_rebalance is None
        or last_rebalance.probing_rebalance_at_ms is None
    ):
        return
    if last_rebalance.probing_rebalance_at_ms <= step.now_ms:
        prepare(step, RebalanceReason.PROBING_REBALANCE)
