"""Ownership logs: what is written is read again, and what it says about owners, gaps, overlaps and rebalances."""

import os
from pathlib import Path

import pytest

from assignor.errors import InputError
from assignor.types import TaskId
from spark_jobs.demo.takeovers import WitnessedRebalance, witnessed_rebalances
from spark_jobs.ownership.executor_identity import ExecutorIdentity
from spark_jobs.ownership.ownership_history import (
    Gap,
    Interval,
    Overlap,
    executors_of_members,
    gaps,
    members_behind,
    overlaps,
    ownership_intervals,
)
from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine, OwnershipListener, read_ownership
from streams_runtime.common.states import RestoreOrigin
from streams_runtime.instance.thread_listener import TaskRestored
from streams_runtime.membership.member_events import HeldTasks

EXECUTOR = ExecutorIdentity("7", 2)
A, B = TaskId(0, 0), TaskId(0, 1)


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


def held(active: list[TaskId], standby: list[TaskId], generation_id: int = 1) -> HeldTasks:
    return HeldTasks("m", generation_id, dict.fromkeys(active, frozenset()), dict.fromkeys(standby, frozenset()))


def test_should_write_down_every_change_of_what_the_thread_holds(tmp_path: Path) -> None:
    listener = OwnershipListener(tmp_path, "p0", "t0", EXECUTOR)
    listener.joining(HeldTasks("", 0))
    listener.assigned(held([B, A], []))
    OwnershipListener(tmp_path, "p0", "t1", EXECUTOR)
    listener.joining(held([A, B], []))
    listener.revoked(held([A], []))
    listener.assigned(held([A], [B], 2))
    listener.dropped("UNKNOWN_MEMBER_ID", clean=False)
    listener.assigned(held([B], [], 3))
    listener.dropped("closed", clean=True)
    lines = read_ownership(tmp_path)
    assert [one.at_ms for one in lines] == sorted(one.at_ms for one in lines)
    assert (lines.pop(3).thread, {one.thread for one in lines}) == ("t1", {"t0"}), "in order of time"
    assert [(one.event, one.active, one.standby, one.generation_id, one.reason) for one in lines] == [
        ("started", (), (), None, None),
        ("joining", (), (), None, None),
        ("assigned", ("0_0", "0_1"), (), 1, None),
        ("joining", ("0_0", "0_1"), (), 1, None),
        ("revoked", ("0_0",), (), 1, None),
        ("assigned", ("0_0",), ("0_1",), 2, None),
        ("lost", (), (), None, "UNKNOWN_MEMBER_ID"),
        ("assigned", ("0_1",), (), 3, None),
        ("closed", (), (), None, "closed"),
    ]
    assert {(one.instance, one.executor, one.pid, one.jvm_pid) for one in lines} == {("p0", "7", os.getpid(), 2)}


def test_should_write_down_what_a_task_started_from_and_its_first_record(tmp_path: Path) -> None:
    listener = OwnershipListener(tmp_path, "p0", "t0", EXECUTOR)
    listener.assigned(held([A], [B]))
    listener.restored(TaskRestored(A, RestoreOrigin.STANDBY, 17, 5))
    listener.processed_first(A, 1_000)
    lines = read_ownership(tmp_path)[-2:]
    assert [(one.event, one.task, one.origin, one.records) for one in lines] == [
        ("restored", "0_0", "standby", 17),
        ("processed", "0_0", None, None),
    ]
    assert {(one.active, one.standby) for one in lines} == {(("0_0",), ("0_1",))}, "nothing changed hands"


def test_should_leave_out_a_line_that_is_being_written(tmp_path: Path) -> None:
    OwnershipListener(tmp_path, "p0", "t", EXECUTOR)
    with (tmp_path / f"t-{os.getpid()}.jsonl").open("a") as file:
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


def test_should_find_a_task_that_two_had_at_once() -> None:
    lines = [line(10, "a", "0_0"), line(20, "b", "0_0"), line(24, "a"), line(24, "c", "0_1")]
    (found,) = overlaps(ownership_intervals(lines))
    assert found == Overlap(Interval("0_0", "a", 1, 10, 24), Interval("0_0", "b", 1, 20, None))


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
    assert witnessed_rebalances(lines) == [WitnessedRebalance(1, 10, 23, 0), WitnessedRebalance(2, 30, 45, 1)]
    assert witnessed_rebalances(lines)[1].duration_ms == 15
