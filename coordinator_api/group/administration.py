"""What operators do with a group: declare, drain, delete.

Source: `GroupMetadataManager.validateDeleteGroup` for the last; the others have no like in Kafka.
"""

from __future__ import annotations

from coordinator_api.group.events import DeclareGroup
from coordinator_api.group.outcome import Accepted, Declared, Rejected, Response
from coordinator_api.group.rebalancing import prepare
from coordinator_api.group.records import DefinitionChanged, DrainChanged, GroupDeleted
from coordinator_api.group.states import GroupState, RebalanceOutcome, RebalanceReason, RejectionCode
from coordinator_api.group.transition import GroupTransition


def declare(step: GroupTransition, event: DeclareGroup) -> Response:
    """Take in the definition. With members, a changed one starts a round, and so does any one after an error."""
    image = step.image
    if image.state is GroupState.DEAD:
        return _deleted()
    created = image.input_json is None
    changed = event.input_json != image.input_json
    if changed:
        step.emit(DefinitionChanged(image.revision + 1, event.input_json))
    if image.draining:
        step.emit(DrainChanged(False))
    failed = image.last_rebalance is not None and image.last_rebalance.outcome is RebalanceOutcome.ERROR
    retried = failed and image.state is GroupState.STABLE
    if image.members and (changed or retried):
        prepare(step, RebalanceReason.DEFINITION_CHANGED)
    return Declared(step.image.revision, created)


def drain(step: GroupTransition) -> Response:
    if step.image.state is GroupState.DEAD:
        return _deleted()
    if not step.image.draining:
        step.emit(DrainChanged(True))
    return Accepted()


def delete(step: GroupTransition) -> Response:
    image = step.image
    if image.state is GroupState.DEAD:
        return _deleted()
    if image.state is not GroupState.EMPTY and image.led_by is None:
        return Rejected(
            RejectionCode.NON_EMPTY_GROUP, f"the group has {len(image.members)} members and is {image.state}"
        )
    step.emit(GroupDeleted())
    return Accepted()


def _deleted() -> Rejected:
    return Rejected(RejectionCode.GROUP_ID_NOT_FOUND, "the group has been deleted")
