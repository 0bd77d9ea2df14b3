"""A snapshot is the shortest list of records from which a replay rebuilds a given state. After a snapshot, the store
can delete all older records.

When a backup is restored, the newest records of a group may be lost. After the backup was made, the group may have had
members and generations that the backup does not contain. For this reason, a group is restored without members and in a
new generation (`log_after_a_loss`). The new generation is higher than any generation that the lost records may have:

- Each member is unknown to the restored group. An unknown member drops its tasks and joins again, so no task is given
  to two members.
- Some callers, such as clients of the instances' stores, compare the generations of answers and use the newest answer.
  Answers after the restore have a higher generation, so these callers prefer the restored group's answers to earlier
  answers.

A group with an outside leader stays unchanged, because its leader counts the generations and reports again.

The repair of a group's damaged log (`plan_repair`) keeps the records before the damage. The state of the new log is the
state after the kept records, with two changes: the group has no members, and the generation is new.

- The repair keeps only whole commits before the first damaged or missing record. If no commit is whole, the repair
  keeps only the declaration, which is the first record of every log.
- A repaired group has no members. The records after the damage may have given a member's tasks to other members.
  Requests of the dropped members get `UNKNOWN_MEMBER_ID`, so the members drop their tasks and join again.
- The new generation is higher than any generation that may have been used. The new generation is computed from the
  highest generation in any readable record or recorded rebalance. For each unreadable record, 1 is added, because the
  record may have begun a generation. The log may come from a backup, and the group may have begun more generations
  after this backup. For this reason, `LOST_GENERATIONS` is added. If the snapshot record with the generation is lost,
  `PASSED_OVER_BEFORE` is also added.
- A group with an outside leader keeps the state of its last whole report, including the members. The members of a group
  with an outside leader do not join at this coordinator.
"""

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
    EndsRestored,
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
"""The number of generations that a repair or restore skips. Between a backup and a loss, a group begins fewer
generations than this number. With one new generation each second, a group needs eleven days for this number of
generations.
"""

PASSED_OVER_BEFORE = 100 * LOST_GENERATIONS
"""The number of generations that are also skipped if nobody knows how often the group was restored or repaired before.
This is enough for 100 earlier restores or repairs.
"""


class LogDoesNotReplay(AssignorFault):
    """Some records of a group's log cannot be read or do not fit together. A coordinator does not lead a group if it
    cannot replay the group's log.
    """


def snapshot_records(image: GroupImage) -> tuple[CoordinatorRecord, ...]:
    """Returns the records of the snapshot of a state, in the order of replay."""
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
    if image.ends:
        found.append(EndsRestored(image.ends))
    found.extend(MemberRestored(_without_shared(member)) for member in image.members.values())
    found.extend(_packed(image))
    if image.held is not None:
        found.append(RebalanceHeld(image.generation_id, image.held))
    return tuple(found)


def without_members(image: GroupImage, generation_id: int) -> GroupImage:
    """Returns the group without members, in the state Empty and in this generation. The definition, the drain of the
    group, the last rebalance, the ends of instances and the levers are unchanged. Drains of instances and members end,
    because the members are gone.
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
    """Returns a new log for a group whose newest records may be lost. `records`: the records of the log that are not
    lost, oldest first.

    Raises LogDoesNotReplay. Raises InputError if the raised generation would be larger than a 32-bit number.
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
    """Returns whether the assignment shares bytes with other assignments. If an assignment shares no bytes with other
    assignments, it is stored in the record of its member. After a failed rebalance, for example, the assignments share
    no bytes.
    """
    return assignment is not None and bool(assignment.shared)


def _packed(image: GroupImage) -> Iterator[AssignmentsPacked]:
    given = ((member_id, member.last_assignment.assignment) for member_id, member in image.members.items())
    shared = {member_id: parts for member_id, parts in given if parts is not None and parts.shared}
    if shared:
        yield AssignmentsPacked(packed_assignments(SharedAssignments(shared)))


def _report_records(image: GroupImage, led_by: str) -> tuple[CoordinatorRecord, ...]:
    """Returns the records of the group's last report."""
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
    """A damaged log has no readable declaration of the group before the damage."""


@dataclass(frozen=True, slots=True)
class LoggedRecord:
    """One record of a group's log. `number`: the record number in the log. `body`: the record as JSON; None if the
    record is damaged. `ends_commit`: True for the last record of a commit.
    """

    number: int
    body: str | None
    ends_commit: bool = False


@dataclass(frozen=True, slots=True)
class LogRepair:
    """The plan of a repair. `kept_records`: the number of kept records. The kept records are the first records of the
    old log. `last_kept`: the record number of the last kept record. `kept_generation`, `revision`: the generation and
    the definition revision of the state that results from the kept records. `generation_id`: the new generation.
    `lines`: the records of the new log as JSON.

    `dropped_records`: the number of dropped records, including missing and unreadable records. `dropped_members`: the
    known members that have to join again. `dropped_generations`: the known generations after `kept_generation`.
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
    """Plans the repair of a group's log. `records`: all stored records, in the order of their numbers. `last_number`:
    the record number of the last record that was written. `recorded_generations`: the generations of the recorded
    rebalances.

    If the log has no damage, all its records are kept, but the group's members are still dropped. Raises NothingToKeep.
    """
    decoded = [_decoded(record) for record in records]
    kept, image = _longest(group_id, limits, records, _whole(records, decoded), now_ms)
    behind = [record for record in decoded[kept:] if record is not None]
    last_kept = records[kept - 1].number
    unreadable = max(0, last_number - last_kept - len(behind))
    known = [each for record in decoded if record is not None and (each := record.begun_generation()) is not None]
    given_out = max((image.generation_id, *known, *recorded_generations))
    if not any(isinstance(record, GroupRestored) for record in decoded) and records[0].number > 1:
        # The record that contained the snapshot's generation is lost. Each earlier generation either was skipped or had
        # a record. So the number of generations with a record is at most the number of deleted records.
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
    """Returns the record. Returns None if the record is damaged, or if this release cannot read it."""
    try:
        return None if record.body is None else decode_record(record.body)
    except InputError:
        return None


def _whole(records: Sequence[LoggedRecord], decoded: Sequence[CoordinatorRecord | None]) -> Sequence[CoordinatorRecord]:
    """Returns the records before the first record that is missing or cannot be read."""
    found: list[CoordinatorRecord] = []
    for place, record in enumerate(decoded):
        if record is None or records[place].number != records[0].number + place:
            break
        found.append(record)
    return found


def _longest(
    group_id: str, limits: GroupLimits, records: Sequence[LoggedRecord], whole: Sequence[CoordinatorRecord], now_ms: int
) -> tuple[int, GroupImage]:
    """Returns the number of records to keep, and the state after a replay of these records."""
    image = GroupImage()
    ends: list[tuple[int, GroupImage]] = []
    for count, record in enumerate(whole, start=1):
        try:
            image = record.apply(image)
        except IllegalTransition:
            break
        if image.input_json is None:  # the declaration is missing, so the following records cannot be used
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
