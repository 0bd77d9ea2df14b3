"""A log that is slow, away, or has no such topic yet: tried again, for task.timeout.ms of each task."""

import pytest

from assignor.types import TopicPartition
from streams_runtime.common.errors import TaskTimeout
from streams_runtime.logs.log_errors import LogTimeout, UnknownTopicOrPartition
from tests.streams_runtime.instance.restore.conftest import StartReader
from tests.streams_runtime.instance.restore.failing_log import FailingLog
from tests.streams_runtime.instance.restore.restoring import APPLICATION, Restoring, contents, create, fill
from tests.streams_runtime.logs.reading_and_writing import commit

COUNTS = TopicPartition("app-counts-changelog", 0)
BACKOFF_MS = 100
TIMEOUT_MS = 10_000


@pytest.fixture
def restoring(start: StartReader, log: FailingLog) -> Restoring:
    fill(log, COUNTS, 10)
    commit(log, APPLICATION, {COUNTS: 10})
    return start(task_timeout_ms=TIMEOUT_MS)


@pytest.mark.parametrize("call", ["end_offsets", "begin_offsets", "committed_offsets", "poll"])
def test_should_try_again_when_the_log_timed_out(restoring: Restoring, log: FailingLog, call: str) -> None:
    task = restoring.add(COUNTS, source=True)
    log.fail[call] = LogTimeout("busy")
    for _ in range(3):
        assert restoring.restore() == 0
        restoring.clock.advance(TIMEOUT_MS // 4)
    del log.fail[call]
    restoring.restore_until_completed(COUNTS)
    assert task.content() == contents(0, 10)


@pytest.mark.parametrize(
    ("call", "doing"),
    [
        ("end_offsets", "look up the offsets of its changelogs"),
        ("begin_offsets", "look up the offsets of its changelogs"),
        ("committed_offsets", "look up the offsets of its changelogs"),
        ("poll", "read its changelogs"),
    ],
)
def test_should_give_up_after_task_timeout_ms(restoring: Restoring, log: FailingLog, call: str, doing: str) -> None:
    task = restoring.add(COUNTS, source=True)
    log.fail[call] = LogTimeout("busy")
    restoring.restore()
    restoring.clock.advance(TIMEOUT_MS)
    assert restoring.restore() == 0, "the deadline itself is still in time"
    restoring.clock.advance(BACKOFF_MS)
    with pytest.raises(TaskTimeout) as raised:
        restoring.restore()
    assert raised.value.task_id == task.id
    assert str(raised.value) == f"task [0_0] could not {doing} within 10100 ms (task.timeout.ms is 10000): busy"


def test_should_start_the_time_anew_after_a_success(restoring: Restoring, log: FailingLog) -> None:
    task = restoring.add(COUNTS, standby=True)
    restoring.reader.transit_to_update_standby()
    for _ in range(4):
        log.fail["poll"] = LogTimeout("busy")
        restoring.restore()
        restoring.clock.advance(TIMEOUT_MS - 1)
        log.fail.clear()
        restoring.restore()
    assert task.content() == contents(0, 10)


def test_should_ask_again_no_sooner_than_after_a_pause(restoring: Restoring, log: FailingLog) -> None:
    late = TopicPartition("late-changelog", 0)
    restoring.add(late)
    restoring.restore()
    create(log, late.topic)
    restoring.clock.advance(BACKOFF_MS - 1)
    restoring.restore()
    assert restoring.reader.completed_changelogs() == set()
    restoring.clock.advance(1)
    restoring.restore()
    assert restoring.reader.completed_changelogs() == {late}


def test_should_time_out_only_the_task_whose_topic_is_missing(restoring: Restoring, log: FailingLog) -> None:
    missing = TopicPartition("missing-changelog", 0)
    late = restoring.add(missing)
    task = restoring.add(COUNTS)
    restoring.restore_until_completed(COUNTS)
    assert task.content() == contents(0, 10), "the others are not held up"
    restoring.clock.advance(TIMEOUT_MS + 1)
    with pytest.raises(TaskTimeout, match="missing-changelog") as raised:
        restoring.restore()
    assert raised.value.task_id == late.id


def test_should_start_the_time_anew_for_a_task_that_comes_back(restoring: Restoring) -> None:
    missing = TopicPartition("missing-changelog", 0)
    task = restoring.add(missing)
    restoring.restore()
    restoring.reader.unregister([missing])
    restoring.clock.advance(TIMEOUT_MS + 1)
    restoring.reader.register(missing, task.state)
    assert restoring.restore() == 0


def test_should_time_out_when_the_topic_is_deleted_under_a_restore(restoring: Restoring, log: FailingLog) -> None:
    task = restoring.add(COUNTS)
    log.fail["poll"] = UnknownTopicOrPartition("gone")
    restoring.restore()
    restoring.clock.advance(TIMEOUT_MS + 1)
    with pytest.raises(TaskTimeout, match="gone") as raised:
        restoring.restore()
    assert raised.value.task_id == task.id
