"""The shortest list of records that replays to a state, so that a store may forget all older records.

When a backup is restored, the newest records of a group may be lost. In the lost time it may have had members and
generations of which nothing is known here. So it comes back as if its members had never joined, in a generation above
any that may have been given out since (`log_after_a_loss`):

- Each member is unknown, whatever it holds. It drops its tasks and joins again, so no task is given to two members.
- A caller that compares generations (a client of the instances' stores takes the newest answer) does not prefer an
  answer of the lost time.

A group that is led elsewhere stays as it is: its leader counts the generations, and reports again.

A log that cannot be read is repaired (`plan_repair`) up to the damage:

    records -> the longest run of whole commits that replays -> its state without members, at a new generation

- Only whole commits before the first damaged or missing record count. When no commit is whole, the declaration alone is
  kept, as every log begins with it.
- No member survives: a task that it had may have been given to another one behind the damage. Members are answered
  `UNKNOWN_MEMBER_ID`, drop their tasks and join again.
- The new generation is above each that may have been given out: above every generation that any readable record or
  recorded rebalance names, plus one for each record that cannot be read, because each may have begun one, plus
  `LOST_GENERATIONS`: the damaged log may have come out of a backup, after which the group went on.
  When the record of a snapshot that has the generation is lost, plus `PASSED_OVER_BEFORE`.
- Nobody is led here in a group that is led elsewhere: it keeps its last whole report as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from assignor.errors import AssignorFault, InputError
from assignor.pipeline.snapshot import Member
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.types import JAVA_INT_MAX
from coordinator_api.group.group import Group
from coordinator_api.group.image import ClassicGroupMember, ClassicGroupMembers, GroupImage, packed_assignments
from coordinator_api.group.liveness import GroupLimits
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

PASSED_OVER_BEFORE = 100 * LOST_GENERATIONS
"""More than a group has passed over in earlier restores and repairs, when nobody knows how many there were."""


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


class NothingToKeep(AssignorFault):
    """No declaration of the group can be read before the damage."""


@dataclass(frozen=True, slots=True)
class LoggedRecord:
    """One record of the log. `number`: in the log. `body`: None when it is damaged. `ends_commit`: the last of one."""

    number: int
    body: str | None
    ends_commit: bool = False


@dataclass(frozen=True, slots=True)
class LogRepair:
    """`kept_records`: how many of the old log count, from its first on; `last_kept`: the number of the last of these.
    `kept_generation`, `revision`: of the state that they lead to. `generation_id`: the new one. `lines`: the new log.

    `dropped_records`: how many numbers of the log do not count, whether they could be read or not. `dropped_members`:
    members that have to join again, as far as is known. `dropped_generations`: those that are known to have begun
    since.
    """

    kept_records: int
    last_kept: int
    kept_generation: int
    revision: int
    generation_id: int
    lines: tuple[str, ...] = ()
    dropped_records: int = 0
    dropped_members: tuple[str, ...] = ()
    dropped_generations: tuple[int, ...] = ()


def plan_repair(
    group_id: str,
    limits: GroupLimits,
    records: Sequence[LoggedRecord],
    last_number: int,
    recorded_generations: Sequence[int],
    now_ms: int,
) -> LogRepair:
    """`records`: all that the store has, in order of their numbers; `last_number`: that of the last one written.
    `recorded_generations`: of the recorded rebalances.

    A log without damage keeps all its records, and its members are dropped all the same. Raises NothingToKeep.
    """
    decoded = [_decoded(record) for record in records]
    kept, image = _longest(group_id, limits, records, _whole(records, decoded), now_ms)
    behind = [record for record in decoded[kept:] if record is not None]
    last_kept = records[kept - 1].number
    unreadable = max(0, last_number - last_kept - len(behind))
    known = [each for record in decoded if record is not None and (each := record.begun_generation()) is not None]
    given_out = max((image.generation_id, *known, *recorded_generations))
    if not any(isinstance(record, GroupRestored) for record in decoded) and records[0].number > 1:
        # a snapshot that lost its generation: each one before it had a record of its own, but for those passed over
        by_number = records[0].number - 1 if records[0].number < JAVA_INT_MAX else 0
        given_out = max(given_out, by_number) + PASSED_OVER_BEFORE
    if image.led_by is None:
        generation_id = min(given_out + unreadable + LOST_GENERATIONS, JAVA_INT_MAX - 1)
        repaired = without_members(image, generation_id)
        members = [*image.members, *filter(None, (record.known_member() for record in behind))]
    else:
        generation_id, repaired, members = image.generation_id, image, []
    lines = tuple(encode_record(record) for record in snapshot_records(repaired))
    replayed = Group.replay(group_id, limits, (decode_record(line) for line in lines), now_ms)
    replayed.validate_state()
    assert replayed.image == repaired, "a snapshot replays to its state"
    later = {each for each in (*known, *recorded_generations) if each > image.generation_id}
    return LogRepair(
        kept_records=kept,
        last_kept=last_kept,
        kept_generation=image.generation_id,
        revision=image.revision,
        generation_id=generation_id,
        lines=lines,
        dropped_records=max(last_number, records[-1].number) - last_kept,
        dropped_members=tuple(dict.fromkeys(members)),
        dropped_generations=tuple(sorted(later)),
    )


def _decoded(record: LoggedRecord) -> CoordinatorRecord | None:
    """None for one that cannot be read, or that another release wrote."""
    try:
        return None if record.body is None else decode_record(record.body)
    except InputError:
        return None


def _whole(records: Sequence[LoggedRecord], decoded: Sequence[CoordinatorRecord | None]) -> Sequence[CoordinatorRecord]:
    """The records before the first one that is missing or cannot be read."""
    found: list[CoordinatorRecord] = []
    for place, record in enumerate(decoded):
        if record is None or records[place].number != records[0].number + place:
            break
        found.append(record)
    return found


def _longest(
    group_id: str,
    limits: GroupLimits,
    records: Sequence[LoggedRecord],
    whole: Sequence[CoordinatorRecord],
    now_ms: int,
) -> tuple[int, GroupImage]:
    """How many of the records to keep, and the state that they lead to."""
    image = GroupImage()
    ends: list[tuple[int, GroupImage]] = []
    for count, record in enumerate(whole, start=1):
        try:
            image = record.apply(image)
        except IllegalTransition:
            break
        if image.input_json is None:  # its declaration is missing: nothing that follows can be right
            break
        alone = count == 1 and isinstance(record, DefinitionChanged)
        if alone or records[count - 1].ends_commit:
            ends.append((count, image))
    for count, image in reversed(ends):
        try:
            Group.replay(group_id, limits, whole[:count], now_ms).validate_state()
        except IllegalTransition:
            continue
        return count, image
    raise NothingToKeep(
        f"the log of group {group_id} has no declaration that can be read before the damage, so there is nothing to "
        "repair it from: restore a backup, or delete the group (DELETE with force=true) and let its members declare it "
        "anew"
    )
