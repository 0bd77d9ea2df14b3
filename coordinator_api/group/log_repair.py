"""The repair of a log that cannot be read: the group as it was before the damage, without its members.

    records -> the longest run of whole commits that replays -> its state without members, at a new generation

Rules:

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

from collections.abc import Sequence
from dataclasses import dataclass

from assignor.errors import AssignorFault, InputError
from assignor.types import JAVA_INT_MAX
from coordinator_api.group.group import Group
from coordinator_api.group.image import GroupImage
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import CoordinatorRecord, DefinitionChanged, GroupRestored, IllegalTransition
from coordinator_api.group.snapshot import LOST_GENERATIONS, snapshot_records, without_members

PASSED_OVER_BEFORE = 100 * LOST_GENERATIONS
"""More than a group has passed over in earlier restores and repairs, when nobody knows how many there were."""


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
    """`lines`: the new log. `kept_records`: how many of the old one count, from its first on; `last_kept`: the number
    of the last of these. `kept_generation`, `revision`: of the state that they lead to. `generation_id`: the new one.

    `dropped_records`: how many numbers of the log do not count, whether they could be read or not. `dropped_members`:
    members that have to join again, as far as is known. `dropped_generations`: those that are known to have begun
    since.
    """

    lines: tuple[str, ...]
    kept_records: int
    last_kept: int
    kept_generation: int
    revision: int
    generation_id: int
    dropped_records: int
    dropped_members: tuple[str, ...]
    dropped_generations: tuple[int, ...]


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
        lines=lines,
        kept_records=kept,
        last_kept=last_kept,
        kept_generation=image.generation_id,
        revision=image.revision,
        generation_id=generation_id,
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
