"""The shortest list of records that replays to a state, so that a store may forget all older records.

When a backup is restored, the newest records of a group may be lost. In the lost time it may have had members and
generations of which nothing is known here. So it comes back as if its members had never joined, in a generation above
any that may have been given out since (`log_after_a_loss`):

- Each member is unknown, whatever it holds. It drops its tasks and joins again, so no task is given to two members.
- A caller that compares generations (a client of the instances' stores takes the newest answer) does not prefer an
  answer of the lost time.

A group that is led elsewhere stays as it is: its leader counts the generations, and reports again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from assignor.errors import AssignorFault, InputError
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.snapshot import Member
from assignor.types import JAVA_INT_MAX
from coordinator_api.group.image import ClassicGroupMember, ClassicGroupMembers, GroupImage, packed_assignments
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import (
    ApprovalRestored,
    AssignmentsPacked,
    CoordinatorRecord,
    DefinitionChanged,
    DrainChanged,
    GroupDeleted,
    GroupRestored,
    IllegalTransition,
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

LOST_GENERATIONS = 1_000_000
"""More than a group has in the time between a backup and a loss: one rebalance each second for eleven days."""


class LogDoesNotReplay(AssignorFault):
    """Records that cannot be read, or do not fit together. A coordinator does not lead such a group."""


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


def without_members(image: GroupImage, generation_id: int) -> GroupImage:
    """The group as Empty, in this generation. All else stays: definition, draining, how the last rebalance ended, and
    levers, but for the drains of instances, which end with their members.
    """
    return replace(
        image,
        state=GroupState.EMPTY,
        generation_id=generation_id,
        initial=False,
        cause=None,
        members=ClassicGroupMembers(),
        held=None,
        kept_because=None,
        approved_generation=None,
        promoted={},
        levers=replace(image.levers, drained={}),
    )


def log_after_a_loss(records: Sequence[str]) -> tuple[str, ...]:
    """The log of a group whose later records may be lost, made of the records that are left, oldest first.

    Raises LogDoesNotReplay, and InputError when no generation is left.
    """
    image = GroupImage()
    try:
        for record in records:
            image = decode_record(record).apply(image)
    except (InputError, IllegalTransition) as fault:
        raise LogDoesNotReplay(str(fault)) from fault
    if image.led_by is not None or image.state is GroupState.DEAD:
        return tuple(records)
    generation_id = image.generation_id + LOST_GENERATIONS
    if generation_id > JAVA_INT_MAX:
        raise InputError(f"generation {image.generation_id} cannot be raised by {LOST_GENERATIONS:,}: declare it anew")
    return tuple(map(encode_record, snapshot_records(without_members(image, generation_id))))


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
