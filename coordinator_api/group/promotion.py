"""Promotion: the probing rebalance comes when all warm-ups have caught up, not at its deadline.

    Stable, warm-ups, a probing deadline; somebody looks at their lags -> WarmUpsCaughtUp -> a probing rebalance

A warm-up begins one such rebalance. When it is a warm-up still after that (its changelog grows faster than it is
handed over, or a user's own assignor gives warm-ups for ever), it waits for the deadline, so the rebalances end. It may
begin one again after something else: a join, a leave, a drain, a rebalance of another cause than a follow-up or a
probing, or promotion switched on anew.

It is on while an operator has set it, and while an instance is drained, whose tasks wait for their warm-ups. The
deadline stays as it is, for warm-ups whose lag is not known. Kafka waits for `probing.rebalance.interval.ms`, ten
minutes.
"""

from __future__ import annotations

from coordinator_api.group.events import SetPromotion, WarmUpsCaughtUp
from coordinator_api.group.image import GroupImage
from coordinator_api.group.levers import Lever, LeverName, OperatorDecision
from coordinator_api.group.outcome import Accepted, GroupTransition, Response
from coordinator_api.group.rebalancing import start_rebalance
from coordinator_api.group.records import LeverChanged, WarmUpsPromoted
from coordinator_api.group.states import GroupState, RebalanceReason


def set_promotion(step: GroupTransition, event: SetPromotion) -> Response:
    """A second request changes nothing: the decision of the first one stays."""
    if event.on is not (step.image.levers.promotion is not None):
        decision = OperatorDecision(event.by, step.now_ms, event.reason)
        step.emit(LeverChanged(Lever(LeverName.PROMOTION, decision), event.on))
    return Accepted()


def awaits_warm_ups(image: GroupImage) -> bool:
    """Whether the next rebalance comes as soon as the warm-ups have caught up."""
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
    """Nothing happens when the group has moved on since somebody looked."""
    if event.generation_id == step.image.generation_id and awaits_warm_ups(step.image):
        warm_ups = {
            member_id: member.last_assignment.warm_ups
            for member_id, member in sorted(step.image.members.items())
            if member.last_assignment.warm_ups
        }
        step.emit(WarmUpsPromoted(warm_ups))
        start_rebalance(step, RebalanceReason.PROBING_REBALANCE, "the warm-ups have caught up")
    return Accepted()
