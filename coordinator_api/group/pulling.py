"""What pulling a lever does at once. The rules that a pulled lever switches on stand in files of their own.

None of this has a counterpart in Kafka, and none of it happens unless an operator asks for it.
"""

from __future__ import annotations

from coordinator_api.group.draining import drain_instance, end_instance_drain
from coordinator_api.group.events import (
    DrainInstance,
    EndInstanceDrain,
    RequestRebalance,
    SetPause,
    SetPromotion,
    SetRejoinGrace,
    WarmUpsCaughtUp,
)
from coordinator_api.group.levers import Decision, Lever, LeverName
from coordinator_api.group.outcome import Accepted, Rejected, Response
from coordinator_api.group.promotion import promote, set_promotion
from coordinator_api.group.rebalancing import start_rebalance
from coordinator_api.group.records import LeverChanged
from coordinator_api.group.rejoin_grace import LONGEST_GRACE_MS, SHORTEST_GRACE_MS, end_grace
from coordinator_api.group.states import GroupState, RebalanceReason, RejectionCode
from coordinator_api.group.transition import GroupTransition

LeverEvent = (
    RequestRebalance | SetPause | SetRejoinGrace | DrainInstance | EndInstanceDrain | SetPromotion | WarmUpsCaughtUp
)


def pull(step: GroupTransition, event: LeverEvent) -> Response:
    if step.image.state is GroupState.DEAD or step.image.input_json is None:
        return Rejected(
            RejectionCode.GROUP_ID_NOT_FOUND, "the group has not been declared, or has been deleted; declare it by PUT"
        )
    match event:
        case RequestRebalance():
            return _request_rebalance(step, event)
        case SetPause():
            return _set_pause(step, event)
        case SetRejoinGrace():
            return _set_rejoin_grace(step, event)
        case DrainInstance():
            return drain_instance(step, event)
        case EndInstanceDrain():
            return end_instance_drain(step, event)
        case SetPromotion():
            return set_promotion(step, event)
        case WarmUpsCaughtUp():
            return promote(step, event)


def _request_rebalance(step: GroupTransition, event: RequestRebalance) -> Response:
    """One that is being prepared already is the one that was asked for; one that is being computed is given up."""
    if not step.image.members:
        return Rejected(
            RejectionCode.UNKNOWN_MEMBER_ID,
            "the group has no members, so there is nothing to rebalance; the first instance that joins starts one",
        )
    start_rebalance(step, RebalanceReason.OPERATOR_REQUESTED, event.reason)
    return Accepted()


def _set_pause(step: GroupTransition, event: SetPause) -> Response:
    """Members hear of it by their heartbeats. Asked twice, it stays as who asked first said."""
    if event.paused is not (step.image.levers.pause is not None):
        decision = Decision(event.by, step.now_ms, event.reason)
        step.emit(LeverChanged(Lever(LeverName.PAUSE, decision), event.paused))
    return Accepted()


def _set_rejoin_grace(step: GroupTransition, event: SetRejoinGrace) -> Response:
    """Those who are away keep the deadline that they have, unless the grace is switched off."""
    grace_ms, decision = event.grace_ms, Decision(event.by, step.now_ms, event.reason)
    if grace_ms is None:
        if step.image.levers.rejoin_grace is not None:
            step.emit(LeverChanged(Lever(LeverName.REJOIN_GRACE, decision), is_on=False))
        end_grace(step)
        return Accepted()
    if not SHORTEST_GRACE_MS <= grace_ms <= LONGEST_GRACE_MS:
        return Rejected(
            RejectionCode.INVALID_REQUEST,
            f"grace_ms must be from {SHORTEST_GRACE_MS} to {LONGEST_GRACE_MS}, not {grace_ms}",
        )
    step.emit(LeverChanged(Lever(LeverName.REJOIN_GRACE, decision, value_ms=grace_ms), is_on=True))
    return Accepted()
