"""One stream thread: active tasks restore one after the other, then standbys are read, all alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId
from rebalance_analysis.simulate.group_members import Members
from rebalance_analysis.simulate.modelled_thread import (
    ChangelogEnds,
    ModelledThread,
    Rates,
    TaskRuns,
    shared_out,
    to_restore_from,
)

T0, T1, T2, T3 = (TaskId(0, number) for number in range(4))
ENDS = {T0: 1000, T1: 3000, T2: 500, T3: 500}


def thread(restore: float = 1000, standby: float = 100) -> ModelledThread:
    return ModelledThread("thread", ProcessId(1, 1), Rates(restore, standby))


def ends(appended: float = 0, runs: TaskRuns | None = None) -> ChangelogEnds:
    return ChangelogEnds(ENDS, appended, runs or TaskRuns({}))


def test_should_restore_one_task_after_the_other_in_their_order() -> None:
    one = thread()

    one.take({T1: 0, T0: 400}, {}, ends(), now_ms=10_000)

    assert one.active == {T0: 10_600, T1: 13_600}
    assert one.offset_sums(ends(), 10_300) == {T0: 700, T1: 0}
    assert one.offset_sums(ends(), 11_600) == {T0: LATEST_OFFSET, T1: 1000}
    assert one.offset_sums(ends(), 20_000) == {T0: LATEST_OFFSET, T1: LATEST_OFFSET}


def test_should_read_standbys_only_when_no_active_task_restores() -> None:
    one = thread()

    one.take({T0: 0}, {T2: 0, T3: 400}, ends(), now_ms=0)

    assert one.offset_sums(ends(), 1000) == {T0: LATEST_OFFSET, T2: 0, T3: 400}
    assert one.offset_sums(ends(), 2000) == {T0: LATEST_OFFSET, T2: 50, T3: 450}
    assert one.offset_sums(ends(), 5000) == {T0: LATEST_OFFSET, T2: 300, T3: 500}
    assert one.offset_sums(ends(), 7000) == {T0: LATEST_OFFSET, T2: 500, T3: 500}
    assert one.caught_up_ms(ends()) == 7000


def test_should_report_nothing_of_a_task_without_state() -> None:
    one = thread()

    one.take({TaskId(1, 0): None}, {}, ends(), now_ms=5)

    assert (one.offset_sums(ends(), 5), one.active) == ({}, {TaskId(1, 0): 5})


def test_should_keep_a_running_task_running() -> None:
    one = thread()
    one.take({T0: 900}, {}, ends(), now_ms=0)

    one.take({T0: None, T1: 2000}, {}, ends(), now_ms=500)

    assert one.active == {T0: 100, T1: 1500}


@pytest.mark.parametrize(
    "standby_rate, appended, caught_up_ms",
    [
        (100, 0, 5000),
        (100, 50, 9000),  # 500 and what came in 4 s, until T2 runs there was nothing new
        (100, 100, None),
        (100, 101, None),
        (1000, 400, 500),
    ],
)
def test_should_catch_up_when_a_changelog_grows(standby_rate: float, appended: float, caught_up_ms: int | None) -> None:
    """T2 starts to run after a second."""
    runs = TaskRuns({})
    runs.starts(T2, 1000)
    one = thread(standby=standby_rate)
    growing = ends(appended, runs)

    one.take({}, {T2: 0}, growing, now_ms=0)

    assert one.caught_up_ms(growing) == caught_up_ms
    if caught_up_ms is not None:
        assert one.offset_sums(growing, caught_up_ms) == {T2: growing.end(T2, caught_up_ms)}
        assert one.offset_sums(growing, caught_up_ms - 20)[T2] < growing.end(T2, caught_up_ms - 20)


def test_should_never_catch_up_when_it_falls_behind_later() -> None:
    runs = TaskRuns({})
    runs.starts(T2, 60_000)
    one = thread(standby=100)

    one.take({}, {T2: 500}, ends(200, runs), now_ms=0)

    assert one.caught_up_ms(ends(200, runs)) is None


@pytest.mark.parametrize("offset_sum, start", [(None, 0), (UNKNOWN_OFFSET_SUM, 0), (7, 7)])
def test_should_begin_where_the_state_on_disk_ends(offset_sum: int | None, start: int) -> None:
    assert to_restore_from(offset_sum) == start


def test_should_share_out_alike() -> None:
    assert shared_out({T0: 100, T1: 10, T2: 100}, 61) == {T0: 26, T1: 10, T2: 25}


@given(st.dictionaries(st.sampled_from(list(ENDS)), st.integers(0, 50)), st.integers(0, 250))
def test_should_hand_out_every_record_and_nobody_more_than_missing(missing: dict[TaskId, int], records: int) -> None:
    shares = shared_out(missing, records)

    assert shares.keys() == missing.keys()
    assert sum(shares.values()) == min(records, sum(missing.values()))
    assert all(0 <= shares[task] <= missing[task] for task in missing)
    short = [task for task in missing if shares[task] < missing[task]]
    assert all(shares[task] >= max(shares.values()) - 1 for task in short)


def test_should_name_the_first_of_the_tasks_that_had_no_owner_for_equally_long() -> None:
    tasks = [TaskId(0, number) for number in range(20)]
    runs, one = TaskRuns(dict.fromkeys(tasks, -1000)), thread()
    one.take(dict.fromkeys(tasks), {}, ends(), now_ms=0)
    for task in tasks:
        runs.starts(task, 0)

    Members({one.name: one}, ChangelogEnds({}, 0, runs), runs, 0).hand_out({}, 500)

    assert runs.longest_task == T0
