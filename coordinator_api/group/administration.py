"""What operators do with a group: declare, drain, delete, and set its levers.

Here is what a command does at once; the rules that a lever switches on stand in files of their own. Source:
`GroupMetadataManager.validateDeleteGroup` for the deletion; Kafka has no counterpart of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_api.group.draining import drain_instance, end_instance_drain
from coordinator_api.group.events import (
    ApproveRebalance,
    DeclareGroup,
    DiscardRebalance,
    DrainInstance,
    EndHold,
    EndInstanceDrain,
    RequestRebalance,
    SetHold,
    SetPause,
    SetPromotion,
    SetRejoinGrace,
    WarmUpsCaughtUp,
)
from coordinator_api.group.holding import approve, discard, end_hold, set_hold
from coordinator_api.group.image import DefinitionOrigin
from coordinator_api.group.levers import Lever, LeverName, OperatorDecision
from coordinator_api.group.outcome import Accepted, Declared, GroupTransition, Rejected, Response
from coordinator_api.group.promotion import promote, set_promotion
from coordinator_api.group.rebalancing import start_rebalance
from coordinator_api.group.records import DefinitionChanged, DrainChanged, GroupDeleted, LeverChanged
from coordinator_api.group.rejoin_grace import LONGEST_GRACE_MS, SHORTEST_GRACE_MS, end_grace
from coordinator_api.group.running_definition import differences, shortened
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RejectionCode

MOST_DIFFERENCES_NAMED = 4

LeverCommand = (
    RequestRebalance
    | SetHold
    | EndHold
    | ApproveRebalance
    | DiscardRebalance
    | SetPause
    | SetRejoinGrace
    | SetPromotion
    | WarmUpsCaughtUp
    | DrainInstance
    | EndInstanceDrain
)
"""What operators set or start beside Kafka's behaviour, in a group that is declared."""


def declare(step: GroupTransition, event: DeclareGroup) -> Response:
    """Take in the definition. When there are members, a changed definition starts a rebalance. After an error, so does
    an unchanged one. While there are members, another topology or another cluster is refused, unless the caller
    insists.
    """
    image = step.image
    if image.state is GroupState.DEAD:
        return _deleted()
    created = image.input_json is None
    changed = event.input_json != image.input_json
    replaced_topology = False
    if image.members and changed and image.input_json is not None:
        differing = differences(image.input_json, event.input_json)
        if differing and not event.replaces_topology:
            return _refuse_another_application(len(image.members), differing)
        replaced_topology = bool(differing)
    if changed and event.no_room is not None:
        return Rejected(RejectionCode.POLICY_VIOLATION, event.no_room)
    if changed:
        origin = DefinitionOrigin(event.declared_by, step.now_ms)
        step.emit(DefinitionChanged(image.revision + 1, event.input_json, origin))
    if image.draining:
        step.emit(DrainChanged(False))
    failed = image.last_rebalance is not None and image.last_rebalance.end.outcome is RebalanceOutcome.ERROR
    retried = failed and image.state is GroupState.STABLE
    if image.members and (changed or retried):
        start_rebalance(step, RebalanceReason.DEFINITION_CHANGED)
    return Declared(step.image.revision, created, replaced_topology)


def drain(step: GroupTransition) -> Response:
    """From now on heartbeats ask members to stop."""
    if step.image.state is GroupState.DEAD:
        return _deleted()
    if not step.image.draining:
        step.emit(DrainChanged(True))
        end_grace(step)  # those who left are not expected back
    return Accepted()


def delete(step: GroupTransition) -> Response:
    """Refused while the group has members, unless it is led elsewhere."""
    image = step.image
    if image.state is GroupState.DEAD:
        return _deleted()
    if image.state is not GroupState.EMPTY and image.led_by is None:
        return Rejected(
            RejectionCode.NON_EMPTY_GROUP,
            f"the group has {len(image.members)} members and is {image.state}; drain it first",
        )
    step.emit(GroupDeleted())
    return Accepted()


def apply_lever_command(step: GroupTransition, event: LeverCommand) -> Response:
    if step.image.state is GroupState.DEAD or step.image.input_json is None:
        return Rejected(
            RejectionCode.GROUP_ID_NOT_FOUND, "the group has not been declared, or has been deleted; declare it by PUT"
        )
    match event:
        case RequestRebalance():
            return _request_rebalance(step, event)
        case SetHold():
            return set_hold(step, event)
        case EndHold():
            return end_hold(step, event)
        case ApproveRebalance():
            return approve(step, event)
        case DiscardRebalance():
            return discard(step, event)
        case SetPause():
            return _set_pause(step, event)
        case SetRejoinGrace():
            return _set_rejoin_grace(step, event)
        case SetPromotion():
            return set_promotion(step, event)
        case WarmUpsCaughtUp():
            return promote(step, event)
        case DrainInstance():
            return drain_instance(step, event)
        case EndInstanceDrain():
            return end_instance_drain(step, event)


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
    """Answers to heartbeats tell the members. A second request changes nothing: the decision of the first one stays."""
    if event.paused is not (step.image.levers.pause is not None):
        decision = OperatorDecision(event.by, step.now_ms, event.reason)
        step.emit(LeverChanged(Lever(LeverName.PAUSE, decision), event.paused))
    return Accepted()


def _set_rejoin_grace(step: GroupTransition, event: SetRejoinGrace) -> Response:
    """Those who are away keep the deadline that they have, unless the grace is switched off."""
    grace_ms, decision = event.grace_ms, OperatorDecision(event.by, step.now_ms, event.reason)
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


def _refuse_another_application(members: int, differing: Sequence[str]) -> Rejected:
    """Members that run one topology and are placed by another could not start their tasks."""
    whose = "1 member, which runs" if members == 1 else f"{members} members, which run"
    return Rejected(
        RejectionCode.INCONSISTENT_GROUP_PROTOCOL,
        f"it has {whose} another topology: {shortened(differing, MOST_DIFFERENCES_NAMED, '; ')}. "
        "If this is another application, give it another application.id. If it is the next version, drain the group "
        "first, or replace the topology under living members (PUT with ?replace=true, `assignor workers run "
        "--replace`), which ends those that cannot run it",
    )


def _deleted() -> Rejected:
    return Rejected(RejectionCode.GROUP_ID_NOT_FOUND, "the group has been deleted; declare it again by PUT")
