"""What one pass may take."""

import time
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.in_memory import InMemoryLog
from tests.streams_runtime.instance.restore.conftest import StartReader
from tests.streams_runtime.instance.restore.failing_log import FailingLog
from tests.streams_runtime.instance.restore.restoring import (
    Restoring,
    RestoringTask,
    contents,
    create,
    fill,
    numbered,
    write,
)
from tests.streams_runtime.manual_clock import ManualClock

COUNTS = TopicPartition("app-counts-changelog", 0)


def make_slow(task: RestoringTask, clock: ManualClock, ms_a_record: int) -> None:
    """Applying a record takes its time."""
    restore = task.state.restore

    def slowly(partition: TopicPartition, batch: RecordBatch) -> None:
        clock.advance(ms_a_record * len(batch))
        restore(partition, batch)

    task.state.restore = slowly  # type: ignore[method-assign]


def test_should_restore_no_more_than_a_batch_beside_running_tasks(start: StartReader, log: FailingLog) -> None:
    restoring = start(restore_batch_records=300)
    fill(log, COUNTS, 1_000)
    restoring.add(COUNTS)
    assert [restoring.restore(others_run=True) for _ in range(5)] == [300, 300, 300, 100, 0]


def test_should_restore_for_no_longer_than_a_pass_beside_running_tasks(start: StartReader, log: FailingLog) -> None:
    restoring = start(restore_pass_ms=200, poll_ms=10_000, restore_batch_records=2_000)
    fill(log, COUNTS, 2_000)
    task = restoring.add(COUNTS)
    make_slow(task, restoring.clock, ms_a_record=1)
    took_ms = []
    while COUNTS not in restoring.reader.completed_changelogs():
        started_ms = restoring.clock.monotonic_ms()
        restoring.restore(others_run=True)
        took_ms.append(restoring.clock.monotonic_ms() - started_ms)
    assert max(took_ms[4:]) <= 300, f"a pass of 200 ms ends with the poll that it is in: {took_ms}"
    assert len(took_ms) < 20, f"nor is it cut into crumbs: {took_ms}"


def test_should_never_wait_beside_running_tasks(start: StartReader, log: FailingLog) -> None:
    restoring = start(poll_ms=70)
    create(log, COUNTS.topic)
    restoring.add(COUNTS, standby=True)
    restoring.reader.transit_to_update_standby()
    for _ in range(3):
        restoring.restore(others_run=True)
    assert {timeout for timeout, _ in log.polls} == {0}


def test_should_wait_for_data_up_to_poll_ms_when_nothing_else_is_to_do(start: StartReader, log: FailingLog) -> None:
    restoring = start(poll_ms=70)
    create(log, COUNTS.topic)
    restoring.add(COUNTS, standby=True)
    restoring.reader.transit_to_update_standby()
    restoring.restore()
    restoring.restore()
    assert [timeout for timeout, _ in log.polls] == [70, 70]


def test_should_not_wait_when_a_task_was_restored_in_this_pass(start: StartReader, log: FailingLog) -> None:
    restoring = start(poll_ms=70)
    create(log, COUNTS.topic)
    standby = create(log, "standby-changelog")
    restoring.add(standby, standby=True)
    restoring.restore()
    log.polls.clear()
    restoring.add(COUNTS)
    restoring.restore()
    assert restoring.reader.completed_changelogs() == {COUNTS}
    assert log.polls == []


def test_should_go_on_without_waiting_while_there_is_data(start: StartReader, log: FailingLog) -> None:
    restoring = start(poll_ms=70, restore_batch_records=1_000)
    fill(log, COUNTS, 5_000)
    restoring.add(COUNTS)
    assert restoring.restore() == 5_000
    assert log.polls == [(70, 1_000), (0, 1_000), (0, 1_000), (0, 1_000), (0, 1_000)]


def test_should_read_again_what_a_store_could_not_take(restoring: Restoring, log: FailingLog) -> None:
    create(log, COUNTS.topic)
    other = create(log, "other-changelog")
    write(log, COUNTS, numbered(0, 10))
    write(log, other, numbered(0, 10))
    failing, healthy = restoring.add(COUNTS), restoring.add(other)
    restore = failing.state.restore

    def fail_once(partition: TopicPartition, batch: RecordBatch) -> None:
        failing.state.restore = restore  # type: ignore[method-assign]
        raise OSError("disk full")

    failing.state.restore = fail_once  # type: ignore[method-assign]
    with pytest.raises(OSError, match="disk full"):
        restoring.restore()
    restoring.restore_until_completed(COUNTS, other)
    assert (failing.content(), healthy.content()) == (contents(0, 10), contents(0, 10))


def test_should_look_at_no_single_record(restoring: Restoring, log: FailingLog) -> None:
    fill(log, COUNTS, 1_000)
    task = restoring.add(COUNTS)
    taken: list[RecordBatch] = []
    task.state.restore = lambda partition, batch: taken.append(batch)  # type: ignore[method-assign]
    restoring.restore()
    assert [(len(batch), type(batch.offsets)) for batch in taken] == [(1_000, range)], "columns as the log gave them"


def test_should_be_woken_while_it_waits(tmp_path: Path) -> None:
    restoring = Restoring(tmp_path, InMemoryLog(), poll_ms=60_000)
    restoring.add(TopicPartition("missing-changelog", 0))
    restoring.consumer.wakeup()
    started = time.monotonic()
    assert restoring.restore() == 0
    assert time.monotonic() - started < 30
    restoring.close()
