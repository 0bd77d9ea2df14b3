"""Where a task's records go: bytes, partition, timestamp and headers of what is sent."""

from typing import Any

import pytest

from assignor import TaskId, TopicPartition
from streams_runtime import LONG, STRING, NewTopic, StreamsRuntimeError
from streams_runtime.common.errors import SerdeMismatch
from streams_runtime.common.losses import DropReason, uncounted
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.processors.api import StreamPartitioner
from streams_runtime.processors.context import Receiver
from streams_runtime.processors.runtime import SinkSettings
from streams_runtime.tasks.needed_changes import NeededChanges
from streams_runtime.tasks.record_collector import RecordCollector, StreamsProducer
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


def sink(one: RecordCollector, partitioner: StreamPartitioner | None = None) -> Receiver:
    return one.sink("words", "out", SinkSettings(STRING, LONG, partitioner))


def second(_key: Any, _value: Any, _partitions: int) -> int:
    return 1


def test_should_send_a_key_to_kafkas_partition_of_it(log: WatchedLog) -> None:
    one, producer = collector(log)
    keys = [b"key-%d" % number for number in range(20)]
    send = one.sink("sink", "out")
    for key in keys:
        send(key, b"v", 5, ())
    one.send_rows()
    producer.flush()
    for partition in range(3):
        expected = [(key, b"v", 5) for key in keys if partition_of(key, 3) == partition]
        assert log.read(TopicPartition("out", partition)) == expected
    assert log.count("partitions_of") == 1


def test_should_send_records_without_a_key_round_all_partitions(log: WatchedLog) -> None:
    one, producer = collector(log)
    send = one.sink("sink", "out")
    for number in range(6):
        send(None, b"%d" % number, 5, ())
    one.send_rows()
    producer.flush()
    assert [len(log.read(TopicPartition("out", partition))) for partition in range(3)] == [2, 2, 2]


def test_should_send_bytes_with_timestamp_and_headers(log: WatchedLog) -> None:
    one, producer = collector(log)
    sink(one)("k", 1, 9, (("h", b"x"),))
    producer.flush()
    target = TopicPartition("out", partition_of(b"k", 3))
    assert (log.read(target), log.headers(target)) == ([(b"k", bytes(7) + b"\1", 9)], [(("h", b"x"),)])


def test_should_not_ask_a_serde_about_none(log: WatchedLog) -> None:
    one, producer = collector(log)
    sink(one, second)(None, None, 9, ())
    one.send_rows()
    producer.flush()
    assert log.read(TopicPartition("out", 1)) == [(None, None, 9)]


def test_should_ask_the_partitioner_with_objects_and_the_number_of_partitions(log: WatchedLog) -> None:
    asked: list[tuple[Any, ...]] = []

    def third(key: Any, value: Any, partitions: int) -> int:
        asked.append((key, value, partitions))
        return 2

    one, producer = collector(log)
    sink(one, third)("k", None, 5, (("h", b"1"),))
    producer.flush()
    target = TopicPartition("out", 2)
    assert (log.read(target), log.headers(target)) == ([(b"k", None, 5)], [(("h", b"1"),)])
    assert asked == [("k", None, 3)]


@pytest.mark.parametrize("chosen", [3, -1, "0", 0.0, True])
def test_should_refuse_a_partition_that_the_topic_does_not_have(log: WatchedLog, chosen: Any) -> None:
    one, _ = collector(log)
    with pytest.raises(StreamsRuntimeError) as caught:
        sink(one, lambda *_: chosen)("k", 1, 9, ())
    assert (
        str(caught.value) == f"the partitioner of sink words chose partition {chosen!r} of topic out, which has 0 to 2"
    )


@pytest.mark.parametrize(
    ("chosen", "partitions"),
    [({0, 2}, [0, 2]), ([1, 1], [1]), (set(), []), (None, [partition_of(b"k", 3)]), (frozenset({2}), [2])],
)
def test_should_send_a_record_to_each_partition_that_the_partitioner_chooses(
    log: WatchedLog, chosen: Any, partitions: list[int]
) -> None:
    losses = uncounted(TASK)
    producer = StreamsProducer(log)
    one = RecordCollector(TASK, producer, {}, losses=losses)
    sink(one, lambda *_: chosen)("k", 1, 9, ())
    one.send_rows()
    producer.flush()
    assert [each for each in range(3) if log.read(TopicPartition("out", each))] == partitions
    assert losses.by_reason() == ({} if partitions else {DropReason.NO_PARTITION: 1})


@pytest.mark.parametrize("partitioner", [None, second])
def test_should_name_sink_topic_serdes_and_types_when_a_serde_does_not_fit(
    log: WatchedLog, partitioner: StreamPartitioner | None
) -> None:
    one, _ = collector(log)
    with pytest.raises(SerdeMismatch) as refused:
        sink(one, partitioner)(7, "many", 0, ())
    assert str(refused.value) == (
        "sink words cannot write to topic out: the serdes do not fit the record: "
        "key serde StringSerde was given a int, value serde LongSerde a str "
        "(AttributeError: 'int' object has no attribute 'encode')"
    )
    assert isinstance(refused.value.__cause__, AttributeError)


def test_should_refuse_an_unknown_topic_until_it_is_there(log: WatchedLog) -> None:
    one, producer = collector(log)
    sinks = one.sink("hashing", "later"), one.sink("choosing", "later", SinkSettings(partitioner=second))
    for send in sinks * 2:
        with pytest.raises(StreamsRuntimeError, match=r"task \[0_1\] topic later is not there"):
            send(b"k", b"v", 5, ())
    log.create_topics([NewTopic("later", 2)])
    for send in sinks:
        send(b"k", b"v", 5, ())
    one.send_rows()
    producer.flush()
    assert [len(log.read(TopicPartition("later", partition))) for partition in range(2)] == [1, 1]


def test_should_send_changes_to_the_tasks_own_changelog_partition(log: WatchedLog) -> None:
    one, producer = collector(log)
    one.log_change("counts", b"k", b"1", 5)
    one.log_change("counts", b"k", None, -1)
    one.send_rows()
    producer.flush()
    assert log.read(CHANGELOG) == [(b"k", b"1", 5), (b"k", None, NO_TIME)]


@pytest.mark.parametrize("transactional_id", [None, "app-0"])
def test_should_know_changelog_offsets_once_acknowledged(log: WatchedLog, transactional_id: str | None) -> None:
    producer = StreamsProducer(log, transactional_id)
    one = RecordCollector(TASK, producer, {"counts": CHANGELOG})
    assert one.acknowledged_offsets() == {}
    for value in (b"1", b"2", b"3"):
        one.log_change("counts", b"k", value, 5)
    one.sink("sink", "out")(b"k", b"v", 5, ())
    one.send_rows()
    assert one.acknowledged_offsets() == {}
    producer.commit()
    assert one.acknowledged_offsets() == {CHANGELOG: 3}


def test_should_tell_what_a_window_store_needs_the_offsets_of_acknowledged_changes(log: WatchedLog) -> None:
    producer, needed = StreamsProducer(log), NeededChanges(1_000)
    one = RecordCollector(TASK, producer, {"counts": CHANGELOG}, {CHANGELOG: needed})
    earlier_owner = log.producer(None)
    for _ in range(5):
        earlier_owner.send(CHANGELOG, b"k", b"0", 4)
    earlier_owner.flush()
    one.log_change("counts", b"k", b"1", 5)
    one.send_rows()
    producer.flush()
    assert one.acknowledged_offsets() == {CHANGELOG: 6}
    assert needed.needed_from == 5


def test_should_not_tell_offsets_that_an_earlier_task_of_the_thread_wrote(log: WatchedLog) -> None:
    """In between another owner may have written more; restored further than that, the state would be set back."""
    producer = StreamsProducer(log)
    earlier = RecordCollector(TASK, producer, {"counts": CHANGELOG})
    earlier.log_change("counts", b"k", b"1", 5)
    earlier.send_rows()
    producer.flush()
    assert earlier.acknowledged_offsets() == {CHANGELOG: 1}
    earlier.clear()
    assert earlier.acknowledged_offsets() == {}
    assert RecordCollector(TASK, producer, {"counts": CHANGELOG}).acknowledged_offsets() == {}
