"""What members do between joining and leaving: heartbeat, fetch the assignment, leave.

Source: `classicGroupHeartbeatToClassicGroup`, `classicGroupSyncToClassicGroup`, `classicGroupLeaveToClassicGroup`.
"""

from __future__ import annotations

from coordinator_api.group.events import FetchAssignment, Heartbeat, Leave, RecheckAssignment
from coordinator_api.group.fencing import refuse_after_missed_rebalance, refuse_stranger
from coordinator_api.group.image import ClassicGroupMember, GroupImage
from coordinator_api.group.outcome import (
    AssignmentPending,
    AssignmentReady,
    HeartbeatAnswered,
    Left,
    Rejected,
    Response,
)
from coordinator_api.group.rebalancing import follow_up_when_acknowledged, start_rebalance
from coordinator_api.group.records import MemberRemoved
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RejectionCode, RemovalReason
from coordinator_api.group.transition import GroupTransition


def heartbeat(step: GroupTransition, event: Heartbeat) -> Response:
    """A sign of life. The answer tells the member whether it has to rejoin, fetch or stop.

    Differs from Kafka: an older generation than the group's is accepted as long as the member takes part in the current
    one (it just has not fetched yet), and a member that has rejoined is not asked to rejoin again. In Kafka it would be
    blocked in JoinGroup.
    """
    refused = refuse_stranger(step.image, event.member_id, event.group_instance_id)
    if refused is not None:
        return refused
    image = step.image
    member = image.members[event.member_id]
    refused = refuse_after_missed_rebalance(image, member)
    if refused is not None:
        return refused
    if event.generation_id > max(member.last_join.generation_id, image.generation_id):
        return _ahead(event.generation_id, image)
    step.liveness.heard_from(member, step.now_ms)
    if event.task_offset_sums is not None:
        step.liveness.reported(member.member_id, event.task_offset_sums)
    if image.state is GroupState.STABLE and event.generation_id == image.generation_id:
        _acknowledge(step, member)
    image = step.image
    return HeartbeatAnswered(
        state=image.state,
        rejoin=image.state is GroupState.PREPARING_REBALANCE and not image.has_joined(member),
        stop=image.draining,
        generation_id=image.generation_id,
    )


def fetch_assignment(step: GroupTransition, event: FetchAssignment | RecheckAssignment) -> Response:
    """The member's assignment, as soon as there is one.

    A member that has rejoined gets only the result of the rebalance that it rejoined for. An older assignment could
    hand it a task that its new subscription does not claim and that the rebalance may give to another member. Until it
    rejoins, it may fetch its last assignment again.
    """
    refused = refuse_stranger(step.image, event.member_id, event.group_instance_id)
    if refused is not None:
        return refused
    image = step.image
    member = image.members[event.member_id]
    refused = refuse_after_missed_rebalance(image, member)
    if refused is not None:
        return refused
    if event.min_generation > image.generation_id + 1:
        return _ahead(event.min_generation, image)
    if isinstance(event, FetchAssignment):
        step.liveness.heard_from(member, step.now_ms)
    if image.state is GroupState.COMPLETING_REBALANCE or image.has_joined(member):
        return AssignmentPending()
    last = member.last_assignment
    if last.assignment is not None and last.generation_id >= event.min_generation:
        response = AssignmentReady(last.generation_id, last.assignment, _followup_comes(image))
        if image.state is GroupState.STABLE:
            _acknowledge(step, member)
        return response
    if image.state is GroupState.PREPARING_REBALANCE:
        return Rejected(
            RejectionCode.REBALANCE_IN_PROGRESS,
            f"generation {event.min_generation} was abandoned or is still being prepared; rejoin, then fetch",
        )
    return AssignmentPending()


def leave(step: GroupTransition, event: Leave) -> Response:
    """Differs from Kafka: static members leave just like dynamic ones, because a DELETE is always deliberate."""
    refused = refuse_stranger(step.image, event.member_id, event.group_instance_id)
    if refused is not None:
        return refused
    step.emit(MemberRemoved(event.member_id, RemovalReason.LEFT))
    start_rebalance(step, RebalanceReason.MEMBER_LEFT)
    return Left(event.member_id)


def _acknowledge(step: GroupTransition, member: ClassicGroupMember) -> None:
    step.liveness.acknowledged(member.member_id, step.image.generation_id)
    follow_up_when_acknowledged(step)


def _followup_comes(image: GroupImage) -> bool:
    last = image.last_rebalance
    return last is not None and (last.end.outcome is RebalanceOutcome.FOLLOW_UP or last.awaits_topics())


def _ahead(generation_id: int, image: GroupImage) -> Rejected:
    return Rejected(
        RejectionCode.ILLEGAL_GENERATION,
        f"generation {generation_id} is ahead of the group's, which is {image.generation_id}; "
        "drop all tasks and rejoin",
    )
