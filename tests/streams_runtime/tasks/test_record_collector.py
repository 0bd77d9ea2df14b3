"""Where a task's records go."""

from __future__ import annotations

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.streams_producer import StreamsProducer
from tests.streams_runtime.tasks.watched_log import WatchedLog

TASK = TaskId(0, 1)
CHANGELOG = TopicPartition("app-counts-changelog", 1)
NO_TIME = 0


@pytest.fixture
def log() -> WatchedLog:
    log = WatchedLog()
    log.create_topics([NewTopic("out", 3), NewTopic("app-counts-changelog", 2, {"cleanup.policy": "compact"})])
    return log


def collector(log: WatchedLog) -> tuple[RecordCollector, StreamsProducer]:
    producer = StreamsProducer(log)
    return RecordCollector(TASK, producer, {"counts": CHANGELOG}), producer


def test_should_send_a_key_to_kafkas_partition_of_it(log: WatchedLog) -> None:
    one, producer = collector(log)
    keys = [b"key-%d" % number for number in range(20)]
    for key in keys:
        one.sender("out")(key, b"v", 5, (), None)
    one.send_rows()
    producer.flush()
    for partition in range(3):
        expected = [(key, b"v", 5) for key in keys if partition_of(key, 3) == partition]
        assert log.read(TopicPartition("out", partition)) == expected
    assert log.count("partitions_of") == 1


def test_should_send_records_without_a_key_round_all_partitions(log: WatchedLog) -> None:
    one, producer = collector(log)
    for number in range(6):
        one.sender("out")(None, b"%d" % number, 5, (), None)
    one.send_rows()
    producer.flush()
    assert [len(log.read(TopicPartition("out", partition))) for partition in range(3)] == [2, 2, 2]


def test_should_send_to_the_partition_that_is_asked_for(log: WatchedLog) -> None:
    one, producer = collector(log)
    one.sender("out")(b"k", None, 5, (("h", b"1"),), 2)
    producer.flush()
    target = TopicPartition("out", 2)
    assert (log.read(target), log.headers(target)) == ([(b"k", None, 5)], [(("h", b"1"),)])


def test_should_refuse_an_unknown_topic_until_it_is_there(log: WatchedLog) -> None:
    one, _ = collector(log)
    for _ in range(2):
        with pytest.raises(StreamsRuntimeError, match=r"task \[0_1\] topic later is not there"):
            one.sender("later")(b"k", b"v", 5, (), None)
        with pytest.raises(StreamsRuntimeError, match="topic later is not there"):
            one.partitions_of("later")
    log.create_topics([NewTopic("later", 4)])
    assert (one.partitions_of("later"), one.partitions_of("out")) == (4, 3)


def test_should_send_changes_to_the_tasks_own_changelog_partition(log: WatchedLog) -> None:
    one, producer = collector(log)
    one.log_change("counts", b"k", b"1", 5)
    one.log_change("counts", b"k", None, -1)
    one.send_rows()
    producer.flush()
    assert log.read(CHANGELOG) == [(b"k", b"1", 5), (b"k", None, NO_TIME)]


@pytest.mark.parametrize("transactional_id", [None, "app-0"])
def test_should_know_changelog_offsets_when_they_are_acknowledged(
    log: WatchedLog, transactional_id: str | None
) -> None:
    producer = StreamsProducer(log, transactional_id)
    one = RecordCollector(TASK, producer, {"counts": CHANGELOG})
    assert one.written_offsets() == {}
    for value in (b"1", b"2", b"3"):
        one.log_change("counts", b"k", value, 5)
    one.sender("out")(b"k", b"v", 5, (), None)
    one.send_rows()
    assert one.written_offsets() == {}
    producer.commit()
    assert one.written_offsets() == {CHANGELOG: 2}


def test_should_not_tell_offsets_that_an_earlier_task_of_the_thread_wrote(log: WatchedLog) -> None:
    """In between another owner may have written more; restored further than that, the state would be set back."""
    producer = StreamsProducer(log)
    earlier = RecordCollector(TASK, producer, {"counts": CHANGELOG})
    earlier.log_change("counts", b"k", b"1", 5)
    earlier.send_rows()
    producer.flush()
    assert earlier.written_offsets() == {CHANGELOG: 0}
    earlier.clear()
    assert earlier.written_offsets() == {}
    assert RecordCollector(TASK, producer, {"counts": CHANGELOG}).written_offsets() == {}
