"""A rebalance from its cause to its assignments. Every rebalance starts in `start_rebalance`.

    start_rebalance -> (all have rejoined, or the wait is over: close_joins) -> RunRebalance -> store_rebalance

A rebalance is started by members that come and go (`joining`), a new definition or an operator (`administration`), and
here a follow-up that is due, a probing rebalance, or a change of the topics.

Source: `GroupMetadataManager.prepareRebalance`, `maybeCompleteJoinPhase`, `completeClassicGroupJoin`,
`tryCompleteInitialRebalanceElseSchedule`, `classicGroupSyncToClassicGroup`. In Kafka a member keeps the probing
deadline; here the coordinator does, because the leader runs outside of the members' processes.

Differs from Kafka: no member leads. The caller that gets `RunRebalance` in an outcome computes the assignment, so there
is no leader to elect, and no member waits for a SyncGroup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assignor.pipeline.snapshot import Member
from assignor.types import ProcessId
from coordinator_api.group.events import AssignmentComputed, TopicsSeen, WarmUpsCaughtUp
from coordinator_api.group.heartbeats import followup_is_due
from coordinator_api.group.holding import give_up_held, take_computed
from coordinator_api.group.image import ClassicGroupMember, GroupImage, RebalanceCause
from coordinator_api.group.liveness import InitialDelay, extended, rejoin_timeout
from coordinator_api.group.outcome import (
    Accepted,
    AssignmentDiscarded,
    GroupTransition,
    Response,
    RunRebalance,
)
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
"""How many changed topics the cause of a rebalance names."""


def start_rebalance(step: GroupTransition, reason: RebalanceReason, detail: str | None = None) -> None:
    """Ask all members to rejoin. When a rebalance is already being prepared, go on with it if everybody has joined.

    A rebalance that is being computed is given up. An empty group first waits for the initial delay.
    """
    state = step.image.state
    if state is not GroupState.PREPARING_REBALANCE:
        cause = RebalanceCause(reason, detail)
        if step.image.held is not None:
            give_up_held(step, cause.in_words())
        step.emit(RebalanceStarted(cause, initial=state is GroupState.EMPTY))
    go_on_when_all_joined(step)


def go_on_when_all_joined(step: GroupTransition) -> None:
    """Nothing happens unless a rebalance is being prepared, and the initial delay is over."""
    if step.image.state is not GroupState.PREPARING_REBALANCE:
        return
    if not step.image.initial and step.image.all_joined():
        _start_generation(step)


def close_joins(step: GroupTransition) -> None:
    """The wait for joins is over: go on with the members that rejoined.

    Dynamic members that did not rejoin are removed. Static ones stay, with the subscription they sent last, until their
    session expires; so do those that are away, until their grace is over. When only such members are left and none of
    them has rejoined, the wait starts again.
    """
    members = step.image.members.values()
    late = [member for member in members if not step.image.has_joined(member)]
    late_dynamic = [member for member in late if not member.is_static and not member.is_away]
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


def rebalance_to_run(image: GroupImage) -> RunRebalance | None:
    """The rebalance that has to be computed in this state, if there is one."""
    if image.state is not GroupState.COMPLETING_REBALANCE or image.input_json is None or image.cause is None:
        return None
    if image.held is not None:
        return None
    return RunRebalance(
        generation_id=image.generation_id,
        definition_revision=image.rebalance_revision,
        input_json=image.input_json,
        members={member_id: _as_it_takes_part(member) for member_id, member in image.members.items()},
        reason=image.cause.in_words(),
        steering=replace(
            image.levers.steering, keeps_owned=image.kept_because is not None, away_processes=_away_processes(image)
        ),
    )


def _away_processes(image: GroupImage) -> frozenset[ProcessId]:
    """Instances of which no member has rejoined, because all are away. A member that leaves later, while this is
    computed, counts as present: the input of a computation does not change on the way.
    """
    away, present = set[ProcessId | None](), set[ProcessId | None]()
    if not image.members.away():
        return frozenset()
    for member in image.members.values():
        is_absent = member.is_away and not image.takes_part(member)
        (away if is_absent else present).add(process_of(member.last_join.subscription))
    return frozenset(process for process in away - present if process is not None)


def _as_it_takes_part(member: ClassicGroupMember) -> Member:
    join, subscription = member.last_join, member.last_join.subscription
    if member.is_away:
        subscription = subscription_now(subscription, member.last_assignment.assignment, reported={})
    return Member(subscription, join.client_id, join.group_instance_id)


def store_rebalance(step: GroupTransition, event: AssignmentComputed) -> Response:
    """Make the group Stable with what was computed, unless the group has moved on since, or it has to be approved."""
    if not _is_awaited(step.image, event):
        return AssignmentDiscarded(event.generation_id)
    return take_computed(step, event)


def _is_awaited(image: GroupImage, event: AssignmentComputed) -> bool:
    """Not what was computed twice, and not what was computed before a generation is computed again with all kept."""
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
    last = step.image.last_rebalance
    if step.image.state is not GroupState.STABLE or last is None or last.end.probing_rebalance_at_ms is None:
        return
    if last.end.probing_rebalance_at_ms <= step.now_ms:
        start_rebalance(step, RebalanceReason.PROBING_REBALANCE)


def awaits_warm_ups(image: GroupImage) -> bool:
    """Whether the next probing rebalance comes as soon as all warm-ups have caught up, not at its deadline.

    It does while an operator has set promotion, and while an instance is drained, whose tasks wait for their warm-ups.
    The deadline stays as it is, for warm-ups whose lag is not known. Kafka waits for `probing.rebalance.interval.ms`,
    ten minutes.

    A warm-up begins one such rebalance. When it is a warm-up still after that (its changelog grows faster than it is
    handed over, or a user's own assignor gives warm-ups for ever), it waits for the deadline, so the rebalances end. It
    may begin one again after something else: a join, a leave, a drain, a rebalance of another cause than a follow-up or
    a probing, or promotion switched on anew.
    """
    last = image.last_rebalance
    if image.state is not GroupState.STABLE or image.led_by is not None or last is None:
        return False
    if last.end.probing_rebalance_at_ms is None or not (image.levers.promotion or image.levers.drained):
        return False
    return any(
        task not in image.promoted.get(member.member_id, ())
        for member in image.members.values()
        for task in member.last_assignment.warm_ups
    )


def promote(step: GroupTransition, event: WarmUpsCaughtUp) -> Response:
    """Start the probing rebalance. Nothing happens when the group has moved on since the lags were read."""
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
    """Start a rebalance when the topics are not those that the last rebalance worked with, whether it failed or not.

    So a rebalance starts when a missing source topic appears, or a topic gets more partitions. A rebalance that failed
    (because an internal topic has the wrong number of partitions, say) is not repeated before a topic has changed, so
    there is no storm of rebalances that all fail alike. While a rebalance is under way nothing happens: the next poll
    at the cluster compares with what that rebalance saw.

    Source: `ConsumerCoordinator.rejoinNeededOrPending` with its metadata snapshots. Differs from Kafka: changelog
    topics count too, which no consumer there subscribes to.
    """
    image = step.image
    last = image.last_rebalance
    if image.state is not GroupState.STABLE or last is None:
        return
    changes = topic_changes(last.basis.topics, event.topics)
    if changes:
        unnamed = len(changes) - MAX_CHANGES_NAMED
        more = f", and {unnamed} more" if unnamed > 0 else ""
        start_rebalance(step, RebalanceReason.TOPICS_CHANGED, "; ".join(changes[:MAX_CHANGES_NAMED]) + more)


def topic_changes(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """A sentence for each topic that both name and whose partition counts differ, in order of their names."""
    return [
        _change(topic, before[topic], now[topic])
        for topic in sorted(before.keys() & now.keys())
        if before[topic] != now[topic]
    ]


def _change(topic: str, before: int, now: int) -> str:
    if not before:
        return f"topic {topic} appeared, partitions {now}"
    if not now:
        return f"topic {topic} is gone"
    return f"partitions of {topic}: {before} -> {now}"
