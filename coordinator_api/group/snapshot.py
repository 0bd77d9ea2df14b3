"""The shortest list of records that replays to the present state, so that a store may forget all older records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.snapshot import Member
from coordinator_api.group.image import ClassicGroupMember, GroupImage, packed_assignments
from coordinator_api.group.records import (
    ApprovalRestored,
    AssignmentsPacked,
    CoordinatorRecord,
    DefinitionChanged,
    DrainChanged,
    GroupDeleted,
    GroupRestored,
    LastRebalanceRestored,
    LeverChanged,
    MemberReported,
    MemberRestored,
    RebalanceHeld,
    RebalanceKept,
    RebalanceLedElsewhere,
    WarmUpsPromoted,
)
from coordinator_api.group.states import GroupState


def snapshot_records(image: GroupImage) -> tuple[CoordinatorRecord, ...]:
    """In the order of replay."""
    if image.led_by is not None:
        return _report_records(image, image.led_by)
    found: list[CoordinatorRecord] = []
    if image.input_json is not None:
        found.append(DefinitionChanged(image.revision, image.input_json, image.origin))
    if image.draining:
        found.append(DrainChanged(True))
    found.extend(LeverChanged(lever, is_on=True) for lever in image.levers.all_set())
    found.append(GroupRestored(image.state, image.generation_id, image.initial, image.cause, image.rebalance_revision))
    if image.kept_because is not None:
        found.append(RebalanceKept(image.generation_id, image.kept_because))
    if image.approved_generation is not None:
        found.append(ApprovalRestored(image.approved_generation))
    if image.promoted:
        found.append(WarmUpsPromoted(image.promoted))
    if image.last_rebalance is not None:
        found.append(LastRebalanceRestored(image.last_rebalance))
    found.extend(MemberRestored(_without_shared(member)) for member in image.members.values())
    found.extend(_packed(image))
    if image.held is not None:
        found.append(RebalanceHeld(image.generation_id, image.held))
    return tuple(found)


def _without_shared(member: ClassicGroupMember) -> ClassicGroupMember:
    last = member.last_assignment
    return replace(member, last_assignment=replace(last, assignment=None)) if _is_shared(last.assignment) else member


def _is_shared(assignment: AssignmentParts | None) -> bool:
    """Whole assignments stay with the member: those of a rebalance that failed share nothing."""
    return assignment is not None and bool(assignment.shared)


def _packed(image: GroupImage) -> Iterator[AssignmentsPacked]:
    given = ((member_id, member.last_assignment.assignment) for member_id, member in image.members.items())
    shared = {member_id: parts for member_id, parts in given if parts is not None and parts.shared}
    if shared:
        yield AssignmentsPacked(packed_assignments(SharedAssignments(shared)))


def _report_records(image: GroupImage, led_by: str) -> tuple[CoordinatorRecord, ...]:
    """The last report of a group that is led elsewhere, once more."""
    assert image.reported_at_ms is not None
    assert image.input_json is not None
    assert image.last_rebalance is not None, "a group that is led elsewhere begins with a rebalance"
    found: list[CoordinatorRecord] = [
        RebalanceLedElsewhere(
            led_by, image.generation_id, image.reported_at_ms, image.input_json, image.last_rebalance.end
        )
    ]
    found.extend(_reported(member) for member in image.members.values())
    found.extend(_packed(image))
    if image.state is GroupState.DEAD:
        found.append(GroupDeleted())
    return tuple(found)


def _reported(member: ClassicGroupMember) -> MemberReported:
    join, assigned = member.last_join, member.last_assignment
    return MemberReported(
        member.member_id,
        Member(join.subscription, join.client_id, join.group_instance_id),
        None if _is_shared(assigned.assignment) else assigned.assignment,
        assigned.warm_ups,
    )
