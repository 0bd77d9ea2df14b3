"""Ownership logs: what is written is read again, and what it says about owners, gaps, overlaps and rebalances."""

from __future__ import annotations

from pathlib import Path

import pytest

from assignor.errors import InputError
from spark_jobs.demo.witnessed_rebalances import WitnessedRebalance, witnessed_rebalances
from spark_jobs.workers.ownership_history import (
    Gap,
    Interval,
    Overlap,
    executors_of_members,
    gaps,
    members_behind,
    overlaps,
    ownership_intervals,
)
from spark_jobs.workers.ownership_log import (
    Holder,
    OwnershipChange,
    OwnershipEvent,
    OwnershipLine,
    OwnershipLog,
    read_ownership,
)


def line(
    at_ms: float,
    thread: str,
    active: str = "",
    *,
    event: OwnershipEvent = OwnershipEvent.ASSIGNED,
    generation_id: int | None = 1,
    pid: int = 1,
    member_id: str | None = None,
) -> OwnershipLine:
    return OwnershipLine(
        at_ms, event, "p0", thread, "0", pid, None, generation_id, member_id or f"m-{thread}", tuple(active.split())
    )


def test_should_read_what_was_written_in_order_of_time(tmp_path: Path) -> None:
    first = OwnershipLog(tmp_path / "log", Holder("p0", "app-p0-t0", "3", 41, 40))
    second = OwnershipLog(tmp_path / "log", Holder("p1", "app-p1-t0", "4", 43, None))
    first.write(OwnershipChange(OwnershipEvent.STARTED))
    second.write(OwnershipChange(OwnershipEvent.ASSIGNED, 2, "m", active=("0_1", "0_0"), standby=("1_0",)))
    first.write(OwnershipChange(OwnershipEvent.LOST, reason="UNKNOWN_MEMBER_ID"))
    read = read_ownership(tmp_path / "log")
    assert [one.at_ms for one in read] == sorted(one.at_ms for one in read)
    assert [(one.event, one.thread, one.executor, one.pid, one.jvm_pid) for one in read] == [
        (OwnershipEvent.STARTED, "app-p0-t0", "3", 41, 40),
        (OwnershipEvent.ASSIGNED, "app-p1-t0", "4", 43, None),
        (OwnershipEvent.LOST, "app-p0-t0", "3", 41, 40),
    ]
    assert (read[1].generation_id, read[1].member_id, read[1].active, read[1].standby) == (
        2,
        "m",
        ("0_0", "0_1"),
        ("1_0",),
    )
    assert read[2].reason == "UNKNOWN_MEMBER_ID"


def test_should_leave_out_a_line_that_is_being_written(tmp_path: Path) -> None:
    OwnershipLog(tmp_path, Holder("p0", "t", "0", 1)).write(OwnershipChange(OwnershipEvent.STARTED))
    with (tmp_path / "t-1.jsonl").open("a") as file:
        file.write('{"at_ms": 1')
    assert [one.event for one in read_ownership(tmp_path)] == [OwnershipEvent.STARTED]


def test_should_name_file_and_line_when_a_log_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "t-1.jsonl").write_text('{"event": "assigned"}\n')
    with pytest.raises(InputError, match=r"t-1\.jsonl:1"):
        read_ownership(tmp_path)


def test_should_end_an_interval_with_the_first_line_without_the_task() -> None:
    lines = [
        line(10, "a", "0_0 0_1"),
        line(20, "a", "0_0"),
        line(30, "a", event=OwnershipEvent.CLOSED),
        line(25, "b", "0_1"),
    ]
    assert ownership_intervals(lines) == {
        "0_0": [Interval("0_0", "a", 1, 10, 30)],
        "0_1": [Interval("0_1", "a", 1, 10, 20), Interval("0_1", "b", 1, 25, None)],
    }


def test_should_end_every_interval_of_a_process_with_its_death() -> None:
    lines = [line(10, "a", "0_0"), line(30, "a", "0_0 0_1"), line(40, "a"), line(12, "a", "0_2", pid=2)]
    assert ownership_intervals(lines, {1: 20.0}) == {
        "0_0": [Interval("0_0", "a", 1, 10, 20)],
        "0_2": [Interval("0_2", "a", 2, 12, None)],
    }


def test_should_find_a_task_that_two_had_at_once_and_for_how_long() -> None:
    lines = [line(10, "a", "0_0"), line(20, "b", "0_0"), line(24, "a"), line(24, "c", "0_1")]
    (found,) = overlaps(ownership_intervals(lines))
    assert found == Overlap(Interval("0_0", "a", 1, 10, 24), Interval("0_0", "b", 1, 20, None), 4)


def test_should_find_no_overlap_when_one_ends_as_the_other_begins() -> None:
    assert overlaps(ownership_intervals([line(10, "a", "0_0"), line(20, "a"), line(20, "b", "0_0")])) == []


def test_should_find_the_times_without_owner() -> None:
    lines = [line(10, "a", "0_0 0_1"), line(20, "a", "0_1"), line(35, "b", "0_0"), line(40, "a"), line(50, "b")]
    intervals = ownership_intervals(lines)
    assert gaps(intervals) == [Gap("0_0", 20, 35), Gap("0_0", 50, None), Gap("0_1", 40, None)]
    assert gaps(intervals, after_ms=36) == [Gap("0_0", 50, None), Gap("0_1", 40, None)]
    assert [gap.length_ms for gap in gaps(intervals)] == [15, None, None]


def test_should_see_no_gap_while_an_older_owner_still_holds_on() -> None:
    lines = [line(10, "a", "0_0"), line(20, "b", "0_0"), line(30, "b"), line(60, "a"), line(70, "c", "0_0")]
    assert gaps(ownership_intervals(lines)) == [Gap("0_0", 60, 70)]


def test_should_tell_who_is_behind() -> None:
    lines = [line(1, "a", generation_id=1), line(2, "b", generation_id=1), line(3, "a", generation_id=2)]
    assert members_behind(lines, ["m-a", "m-b", "m-c"], 2) == {"m-b", "m-c"}
    assert executors_of_members(lines) == {"m-a": "0", "m-b": "0"}


def test_should_see_rebalances_as_the_members_did() -> None:
    joining = OwnershipEvent.JOINING
    lines = [
        line(10, "a", event=joining, generation_id=None),
        line(12, "b", event=joining, generation_id=None),
        line(20, "a", "0_0 0_1"),
        line(23, "b", "0_2"),
        line(30, "b", "0_2", event=joining),
        line(31, "a", "0_0 0_1", event=joining),
        line(33, "b", "0_2", event=joining),
        line(40, "a", "0_0", event=OwnershipEvent.REVOKED),
        line(41, "a", "0_0", generation_id=2),
        line(45, "b", "0_1 0_2", generation_id=2),
    ]
    assert witnessed_rebalances(lines) == [WitnessedRebalance(1, 2, 10, 23, 0), WitnessedRebalance(2, 2, 30, 45, 1)]
    assert witnessed_rebalances(lines)[1].duration_ms == 15
