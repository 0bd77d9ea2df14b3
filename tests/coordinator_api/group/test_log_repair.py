"""A log that cannot all be read: what is saved of it replays, holds its invariants, and goes on above all that was."""

from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_api.group.group import Group
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.snapshot import (
    LOST_GENERATIONS,
    LoggedRecord,
    LogRepair,
    NothingToKeep,
    plan_repair,
    snapshot_records,
)
from coordinator_api.group.states import GroupState
from tests.checkout import ROOT
from tests.coordinator_api.group.scenario import commits
from tests.simulation.schedule import is_simulated

SCENARIOS = sorted(
    path for path in (ROOT / "tests" / "scenarios").glob("*.txt") if not is_simulated(path.read_text(encoding="utf-8"))
)
NOW_MS = 10**7


def group_of(lines: list[str]) -> Group:
    return Group.replay("shop", GroupLimits(), map(decode_record, lines), NOW_MS)


def before_its_deletion(stored: list[list[str]]) -> list[list[str]]:
    """A deleted group has no log."""
    ends = (place for place, records in enumerate(stored) if any("GroupDeleted" in record for record in records))
    return stored[: next(ends, len(stored))]


@cache
def scenario_logs() -> list[list[list[str]]]:
    return [before_its_deletion(commits(path.read_text(encoding="utf-8"))) for path in SCENARIOS]


class Log(NamedTuple):
    """`commits`: as they were written. `first`: the number of the first record."""

    commits: list[list[str]]
    first: int = 1

    def records(self) -> list[LoggedRecord]:
        lines = [(line, place == len(records) - 1) for records in self.commits for place, line in enumerate(records)]
        return [LoggedRecord(self.first + place, line, ends) for place, (line, ends) in enumerate(lines)]

    @property
    def last(self) -> int:
        return self.first - 1 + sum(map(len, self.commits))


def repaired(log: Log, records: list[LoggedRecord], recorded: tuple[int, ...] = ()) -> LogRepair:
    return plan_repair("shop", GroupLimits(), records, log.last, recorded, NOW_MS)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """One of a scenario, up to some moment, perhaps rewritten as a snapshot at an earlier one."""
    stored = draw(st.sampled_from([each for each in scenario_logs() if each]))
    taken = stored[: draw(st.integers(1, len(stored)))]
    compacted = draw(st.integers(0, len(taken)))
    if not compacted:
        return Log(taken)
    before = [line for records in taken[:compacted] for line in records]
    snapshot = [encode_record(record) for record in snapshot_records(group_of(before).image)]
    return Log([snapshot, *taken[compacted:]], len(before) + 1)


@given(logs(), st.data())
def test_should_save_a_valid_group_whatever_is_damaged(log: Log, data: st.DataObject) -> None:
    records = log.records()
    hit = data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1))
    missing = data.draw(st.booleans())
    damaged = [
        LoggedRecord(record.number, None if place in hit else record.body, record.ends_commit)
        for place, record in enumerate(records)
        if not (missing and place in hit)
    ]
    whole = group_of([line for stored in log.commits for line in stored]).image
    if 0 in hit and not damaged[:1]:
        with pytest.raises(NothingToKeep):
            repaired(log, damaged)
        return
    try:
        plan = repaired(log, damaged)
    except NothingToKeep:
        assert 0 in hit or whole.led_by is not None, "the declaration is the first record"
        return

    group = group_of(list(plan.lines))
    group.validate_state()
    assert group.image.generation_id == plan.generation_id
    if whole.led_by is None:
        assert group.image.state is GroupState.EMPTY
        assert not group.image.members
        assert group.image.generation_id > whole.generation_id, "above each that was given out"
        lost = " ".join(records[place].body or "" for place in hit)
        assert {each for each in whole.members if f'"{each}"' not in lost} <= set(plan.dropped_members)
    assert group.image.revision == plan.revision <= whole.revision
    kept = [record.body for record in records[: plan.kept_records] if record.body is not None]
    assert plan.kept_records <= min(hit) or 0 in hit
    if 0 not in hit:
        assert group.image.input_json == group_of(kept).image.input_json


def some_log() -> Log:
    """A group of its own with members, two definitions and several rebalances."""
    path = ROOT / "tests" / "scenarios" / "definition_changes.txt"
    return Log(before_its_deletion(commits(path.read_text(encoding="utf-8"))))


def test_should_keep_every_whole_commit_before_the_damage_and_none_in_part() -> None:
    log = some_log()
    records = log.records()
    ends = [record.number for record in records if record.ends_commit]
    for place in range(1, len(records)):
        damaged = [*records[:place], LoggedRecord(records[place].number, None), *records[place + 1 :]]
        plan = repaired(log, damaged)
        assert plan.last_kept == max(end for end in ends if end <= place)
        assert plan.dropped_records == log.last - plan.last_kept


def test_should_go_on_above_a_generation_that_only_a_recorded_rebalance_names() -> None:
    log = some_log()
    assert repaired(log, log.records()[:3], (70,)).generation_id > 70
    assert 70 in repaired(log, log.records()[:3], (70,)).dropped_generations


def test_should_count_a_generation_for_each_record_that_is_lost() -> None:
    log = some_log()
    few = plan_repair("shop", GroupLimits(), log.records()[:3], 3, (), NOW_MS)
    many = plan_repair("shop", GroupLimits(), log.records()[:3], 1_003, (), NOW_MS)
    assert many.generation_id == few.generation_id + 1_000


@pytest.mark.parametrize("first", [5_000, 2**32 + 1])
def test_should_not_begin_below_a_snapshot_that_lost_its_generation(first: int) -> None:
    """The group may have been restored or repaired before, so that its generation is far above its numbers."""
    log = some_log()
    group = group_of([line for stored in log.commits for line in stored])
    snapshot = [encode_record(record) for record in snapshot_records(group.image)]
    records = [LoggedRecord(first + place, line, False) for place, line in enumerate(snapshot)]
    only_declared = [records[0], *(LoggedRecord(record.number, None) for record in records[1:])]

    plan = plan_repair("shop", GroupLimits(), only_declared, records[-1].number, (), NOW_MS)

    assert (plan.kept_records, plan.revision) == (1, group.image.revision)
    assert plan.generation_id > 4_999 + 10 * LOST_GENERATIONS


def test_should_go_back_to_a_commit_that_replays() -> None:
    log = some_log()
    records = log.records()
    stranger = LoggedRecord(len(records) + 1, '{"type":"GroupEmptied","generation_id":900}', True)
    plan = plan_repair("shop", GroupLimits(), [*records, stranger], stranger.number, (), NOW_MS)

    assert plan.last_kept == len(records)
    assert plan.generation_id > 900


@pytest.mark.parametrize("body", [None, '{"type":"GroupEmptied","generation_id":1}'])
def test_should_say_what_to_do_when_nothing_can_be_kept(body: str | None) -> None:
    for records in ([], [LoggedRecord(1, body)]):
        with pytest.raises(NothingToKeep, match=r"restore a backup, or delete the group \(DELETE with force=true\)"):
            plan_repair("shop", GroupLimits(), records, 1, (), NOW_MS)
