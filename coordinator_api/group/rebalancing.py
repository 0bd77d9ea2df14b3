"""From the reason for a round to its assignments: prepare, wait for everybody, compute, store.

    prepare -> (all rejoined, or the round timer) -> close_joins -> RunRebalance -> store_rebalance | discard

Source: `GroupMetadataManager.prepareRebalance`, `maybeCompleteJoinPhase`, `completeClassicGroupJoin`,
`classicGroupSyncToClassicGroup`. Differs from Kafka: no member leads; the round is computed by whoever carries out the
`RunRebalance` effect, so there is no leader to elect and nobody waits for a SyncGroup.
"""

from __future__ import annotations

from assignor.snapshot import Member
from coordinator_api.group.events import AssignmentComputed, RebalanceFailed
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import rejoin_timeout
from coordinator_api.group.outcome import AssignmentDiscarded, AssignmentStored, Response, RunRebalance
from coordinator_api.group.rebalance_result import completed_rebalance, failed_rebalance
from coordinator_api.group.records import GenerationStarted, GroupEmptied, MemberRemoved, RebalanceStarted
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RemovalReason
from coordinator_api.group.transition import GroupTransition


def prepare(step: GroupTransition, reason: RebalanceReason, detail: str | None = None) -> None:
    """Ask everybody to rejoin; when a round is already being prepared, see whether it can go on now.

    A round that is being computed is given up. An empty group first waits for the initial delay.
    """
    state = step.image.state
    if state is not GroupState.PREPARING_REBALANCE:
        step.emit(RebalanceStarted(reason, initial=state is GroupState.EMPTY, detail=detail))
    if not step.image.initial and step.image.all_joined():
        _start_generation(step)


def close_joins(step: GroupTransition) -> None:
    """The round timer has run out: go on with those who rejoined.

    Dynamic members that did not are removed. Static ones are kept, with the subscription they sent last, until their
    session ends; when nobody else is there, the wait starts again.
    """
    members = step.image.members.values()
    late = [member for member in members if not step.image.has_joined(member)]
    late_dynamic = [member for member in late if member.group_instance_id is None]
    nobody_joined = len(late) == len(members)
    nobody_left = len(late_dynamic) == len(members)
    if nobody_joined and not nobody_left:
        step.wait(rejoin_timeout(step.image, step.now_ms))
    for member in late_dynamic:
        step.emit(MemberRemoved(member.member_id, RemovalReason.REBALANCE_TIMEOUT))
    if nobody_left or not nobody_joined:
        _start_generation(step)


def _start_generation(step: GroupTransition) -> None:
    generation_id = step.image.generation_id + 1
    if step.image.members:
        step.emit(GenerationStarted(generation_id, step.image.revision))
    else:
        step.emit(GroupEmptied(generation_id))


def follow_up_when_acknowledged(step: GroupTransition) -> None:
    """The follow-up round starts once every member that takes part has the assignment that asks for it.

    Before that nobody could rejoin with anything given up. Differs from Kafka: there the members that wait for a task
    ask for the round themselves (here they may, too); here a member that only listens to its heartbeats is served.
    """
    image = step.image
    last_rebalance = image.last_rebalance
    if (
        image.state is not GroupState.STABLE
        or last_rebalance is None
        or last_rebalance.outcome is not RebalanceOutcome.FOLLOW_UP
    ):
        return
    sessions = step.liveness.sessions
    if all(
        sessions[member_id].acknowledged_generation == image.generation_id
        for member_id, member in image.members.items()
        if image.takes_part(member)
    ):
        prepare(step, RebalanceReason.FOLLOWUP_REBALANCE)


def store_rebalance(step: GroupTransition, event: AssignmentComputed | RebalanceFailed) -> Response:
    """The group is Stable with what the round decided, unless it has moved on since."""
    image = step.image
    if image.state is not GroupState.COMPLETING_REBALANCE or event.generation_id != image.generation_id:
        return AssignmentDiscarded(event.generation_id)
    match event:
        case RebalanceFailed(_, error, topics):
            record = failed_rebalance(image, error, topics)
        case AssignmentComputed():
            record = completed_rebalance(image, event)
    step.emit(record)
    return AssignmentStored(record.generation_id, record.outcome)


def rebalance_to_run(image: GroupImage) -> tuple[RunRebalance, ...]:
    """What there is to compute in this state: one round, or nothing."""
    if image.state is not GroupState.COMPLETING_REBALANCE or image.input_json is None or image.reason is None:
        return ()
    members = {
        member_id: Member(member.subscription, member.client_id, member.group_instance_id)
        for member_id, member in image.members.items()
    }
    reason = image.detail or str(image.reason)
    return (RunRebalance(image.generation_id, image.rebalance_revision, image.input_json, members, reason),)
