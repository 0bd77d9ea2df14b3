"""The steps of a rebalance, from its cause to its assignments.

1. `start_rebalance` asks the members to rejoin. Every rebalance starts in `start_rebalance`.
2. When all members have rejoined or the time is over, `close_joins` ends the wait for joins.
3. The caller gets `RunRebalance`, and computes the rebalance.
4. `store_rebalance` stores the result.

The file `joining` starts rebalances after joins, leaves and removals. The file `administration` starts rebalances after
new definitions and operator commands. This file starts follow-ups, probing rebalances, and rebalances after topics have
changed.

Source: `GroupMetadataManager.prepareRebalance`, `maybeCompleteJoinPhase`, `completeClassicGroupJoin`,
`tryCompleteInitialRebalanceElseSchedule`, `classicGroupSyncToClassicGroup`. Differs from Kafka: the coordinator stores
the probing deadline. In Kafka, the leader stores the probing deadline, and the leader is a member.

Differs from Kafka: no member leads. If an outcome contains `RunRebalance`, the caller computes the assignment. No
leader has to be elected, and no member waits for a SyncGroup.
"""

from collections.abc import Collection
from dataclasses import replace

from assignor.pipeline.snapshot import Member
from assignor.types import ProcessId
from coordinator_api.group.events import AssignmentComputed, TopicsSeen, WarmUpsCaughtUp
from coordinator_api.group.heartbeats import followup_is_due
from coordinator_api.group.holding import give_up_held, take_computed
from coordinator_api.group.image import ClassicGroupMember, GroupImage, RebalanceCause
from coordinator_api.group.liveness import InitialDelay, extended, rejoin_timeout
from coordinator_api.group.outcome import Accepted, AssignmentDiscarded, GroupTransition, Response, RunRebalance
from coordinator_api.group.records import (
    GenerationStarted,
    GroupEmptied,
    MemberRemoved,
    RebalanceStarted,
    WarmUpsPromoted,
)
from coordinator_api.group.states import GroupState, RebalanceReason, RemovalReason
from coordinator_api.group.subscriptions import process_of, subscription_now

MAX_CHANGES_NAMED = 5
"""The cause of a rebalance names at most this number of changed topics."""


def start_rebalance(step: GroupTransition, reason: RebalanceReason, detail: str | None = None) -> None:
    """Ask all members to rejoin. If a rebalance is already being prepared and all members have joined, the call starts
    its generation.

    If a rebalance is being computed, the new rebalance replaces it. In a group that was empty, the new rebalance waits
    for more members during the initial delay.
    """
    state = step.image.state
    if state is not GroupState.PREPARING_REBALANCE:
        cause = RebalanceCause(reason, detail)
        if step.image.held is not None:
            give_up_held(step, cause.as_text())
        step.emit(RebalanceStarted(cause, initial=state is GroupState.EMPTY))
    go_on_when_all_joined(step)


def go_on_when_all_joined(step: GroupTransition) -> None:
    """Start the generation if all members have rejoined. The function has no effect before the end of the initial
    delay, or if no rebalance is being prepared.
    """
    if step.image.state is not GroupState.PREPARING_REBALANCE:
        return
    if not step.image.initial and step.image.all_joined():
        _start_generation(step)


def close_joins(step: GroupTransition) -> None:
    """End the wait for joins, and start the generation with the members that rejoined.

    Dynamic members are removed if they did not rejoin. A static member stays, with its last subscription, until its
    session expires. An absent member stays until its grace ends. If no member has rejoined, but static or absent
    members stay, the wait for joins starts again.
    """
    members = step.image.members.values()
    late = [member for member in members if not step.image.has_joined(member)]
    late_dynamic = [member for member in late if not member.is_static and not member.is_away]
    nobody_joined = len(late) == len(members)
    nobody_left = len(late_dynamic) == len(members)
    if nobody_joined and not nobody_left:
        step.wait(rejoin_timeout(step.image, step.now_ms))
    for member in late_dynamic:
        step.emit(MemberRemoved(member.member_id, RemovalReason.REBALANCE_TIMEOUT, step.now_ms))
    if nobody_left or not nobody_joined:
        _start_generation(step)


def _start_generation(step: GroupTransition) -> None:
    generation_id = step.image.generation_id + 1
    if step.image.members:
        step.emit(GenerationStarted(generation_id, step.image.revision))
    else:
        step.emit(GroupEmptied(generation_id))


def rebalance_to_run(image: GroupImage) -> RunRebalance | None:
    """Returns the rebalance that has to be computed in this state; None if no rebalance has to be computed."""
    if image.state is not GroupState.COMPLETING_REBALANCE or image.input_json is None or image.cause is None:
        return None
    if image.held is not None:
        return None
    return RunRebalance(
        generation_id=image.generation_id,
        definition_revision=image.rebalance_revision,
        input_json=image.input_json,
        members={member_id: _as_it_takes_part(member) for member_id, member in image.members.items()},
        reason=image.cause.as_text(),
        steering=replace(
            image.levers.steering, keeps_owned=image.kept_because is not None, away_processes=_away_processes(image)
        ),
    )


def _away_processes(image: GroupImage) -> frozenset[ProcessId]:
    """Returns the instances whose members are all absent: no member of the instance has rejoined. If a member leaves
    during the computation, it counts as present, because the input of a computation does not change.
    """
    return processes_of_all(image, {each.member_id for each in image.members.away() if not image.takes_part(each)})


def processes_of_all(image: GroupImage, member_ids: Collection[str]) -> frozenset[ProcessId]:
    """Returns the instances whose members are all in `member_ids`."""
    if not member_ids:
        return frozenset()
    named, others = set[ProcessId | None](), set[ProcessId | None]()
    for member in image.members.values():
        (named if member.member_id in member_ids else others).add(process_of(member.last_join.subscription))
    return frozenset(process for process in named - others if process is not None)


def _as_it_takes_part(member: ClassicGroupMember) -> Member:
    join, subscription = member.last_join, member.last_join.subscription
    if member.is_away:
        subscription = subscription_now(subscription, member.last_assignment.assignment, reported={})
    return Member(subscription, join.client_id, join.group_instance_id)


def store_rebalance(step: GroupTransition, event: AssignmentComputed) -> Response:
    """Store the computed assignments and make the group Stable. A stale result is discarded. A result is held if it
    needs an approval.
    """
    if not _is_awaited(step.image, event):
        return AssignmentDiscarded(event.generation_id)
    return take_computed(step, event)


def _is_awaited(image: GroupImage, event: AssignmentComputed) -> bool:
    """Returns whether the group still waits for this result. Returns False if the group already has a result of this
    generation. Returns False for the result of the first computation if the generation is being computed again.
    """
    is_newest = image.completes_generation(event.generation_id) and image.held is None
    return is_newest and event.kept_owned == (image.kept_because is not None)


def follow_up_when_acknowledged(step: GroupTransition) -> None:
    if followup_is_due(step.image, step.liveness):
        start_rebalance(step, RebalanceReason.FOLLOWUP_REBALANCE)


def end_join_wait(step: GroupTransition) -> None:
    timer = step.liveness.join_timer
    if step.image.state is not GroupState.PREPARING_REBALANCE or timer is None or timer.due_ms > step.now_ms:
        return
    if isinstance(timer, InitialDelay):
        longer = extended(timer, step.limits, step.now_ms)
        if longer is not None:
            step.wait(longer)
            return
    close_joins(step)


def start_probing_rebalance(step: GroupTransition) -> None:
    end = step.image.present_end
    if end is not None and end.probing_rebalance_at_ms is not None and end.probing_rebalance_at_ms <= step.now_ms:
        start_rebalance(step, RebalanceReason.PROBING_REBALANCE)


def awaits_warm_ups(image: GroupImage) -> bool:
    """Returns whether the next probing rebalance starts before its deadline, as soon as all warm-ups have caught up.

    The group waits for warm-ups while the operator setting `promotion` is on, or while an instance or member is
    drained. The deadline still applies, because the lag of a warm-up may be unknown. Kafka always waits for
    `probing.rebalance.interval.ms`, by default ten minutes.

    A warm-up triggers at most one early rebalance. If the task is still a warm-up after the early rebalance, the group
    waits for the deadline. Without this limit, early rebalances could repeat for ever. For example, a task stays a
    warm-up if its changelog grows faster than it is restored. Any rebalance except a follow-up or a probing rebalance
    allows another early rebalance for the same warm-ups. If an operator switches `promotion` on again, this also allows
    another early rebalance.
    """
    end = image.present_end
    if image.led_by is not None or end is None or end.probing_rebalance_at_ms is None:
        return False
    if not (image.levers.promotion or image.levers.drained):
        return False
    return any(
        task not in image.promoted.get(member.member_id, ())
        for member in image.members.values()
        for task in member.last_assignment.warm_ups
    )


def promote(step: GroupTransition, event: WarmUpsCaughtUp) -> Response:
    """Start the probing rebalance. The function has no effect if a newer generation or rebalance has begun since the
    lags were read.
    """
    if event.generation_id == step.image.generation_id and awaits_warm_ups(step.image):
        warm_ups = {
            member_id: member.last_assignment.warm_ups
            for member_id, member in sorted(step.image.members.items())
            if member.last_assignment.warm_ups
        }
        step.emit(WarmUpsPromoted(warm_ups))
        start_rebalance(step, RebalanceReason.PROBING_REBALANCE, "the warm-ups have caught up")
    return Accepted()


def rebalance_when_topics_changed(step: GroupTransition, event: TopicsSeen) -> None:
    """Start a rebalance if the topics differ from the topics of the last rebalance.

    For example, a rebalance starts when a missing source topic appears, when a new topic matches a source pattern, or
    when a topic gets more partitions. If the last rebalance had another definition, only common topics count. The last
    rebalance may have failed, for example because an internal topic has the wrong number of partitions. A failed
    rebalance would fail again, so it is not repeated before a topic has changed. The function has no effect during a
    rebalance, because the next poll after the rebalance compares the topics again.

    Source: `ConsumerCoordinator.rejoinNeededOrPending` with its metadata snapshots. Differs from Kafka: a change of a
    changelog topic also starts a rebalance, although no Kafka consumer subscribes to changelogs.
    """
    image = step.image
    last = image.last_rebalance
    if image.state is not GroupState.STABLE or last is None:
        return
    before = last.basis.topics
    if last.definition_revision == image.revision:
        before = {**dict.fromkeys(event.topics, 0), **before}
    changes = [
        _change(topic, before[topic], event.topics[topic])
        for topic in sorted(before.keys() & event.topics.keys())
        if before[topic] != event.topics[topic]
    ]
    if changes:
        unnamed = len(changes) - MAX_CHANGES_NAMED
        more = f", and {unnamed} more" if unnamed > 0 else ""
        start_rebalance(step, RebalanceReason.TOPICS_CHANGED, "; ".join(changes[:MAX_CHANGES_NAMED]) + more)


def _change(topic: str, before: int, now: int) -> str:
    if not before:
        return f"topic {topic} appeared, partitions {now}"
    if not now:
        return f"topic {topic} is gone"
    return f"partitions of {topic}: {before} -> {now}"
