"""What operators do with a group: declare, drain, delete.

Source: `GroupMetadataManager.validateDeleteGroup` for the last one; Kafka has no counterpart of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_api.group.events import DeclareGroup
from coordinator_api.group.image import DefinitionOrigin
from coordinator_api.group.outcome import Accepted, Declared, Rejected, Response
from coordinator_api.group.rebalancing import start_rebalance
from coordinator_api.group.records import DefinitionChanged, DrainChanged, GroupDeleted
from coordinator_api.group.rejoin_grace import end_grace
from coordinator_api.group.running_definition import differences, shortened
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RejectionCode
from coordinator_api.group.transition import GroupTransition

MOST_DIFFERENCES_NAMED = 4


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
