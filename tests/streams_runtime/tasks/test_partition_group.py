"""Batches go in, records come out: which partition goes next, and for whom it waits.

Cases follow Kafka's `PartitionGroupTest`.
"""

import pytest

from assignor import TaskId, TopicPartition
from streams_runtime import FailedRecord, NewTopic, StreamsConfig
from streams_runtime.logs.base import Consumer, RecordBatch
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.processors.context import CurrentNode
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.processors.topology import SourceSettings
from streams_runtime.tasks.input_lags import ASK_AGAIN_MS, InputLags
from streams_runtime.tasks.partition_group import InputPosition, PartitionGroup
from streams_runtime.tasks.record_queue import RecordQueue
from tests.known import known
from tests.streams_runtime.tasks.watched_log import WatchedLog

A, B, C = (TopicPartition(topic, 0) for topic in "abc")


def never(failed: FailedRecord) -> None:
    raise AssertionError(failed)


def batch(partition: TopicPartition, *times: int) -> RecordBatch:
    return RecordBatch(partition, range(len(times)), times, [None] * len(times), [None] * len(times))


class Group:
    """A group on a real log; `on_log` writes records there, `buffer` reads them into the group."""

    def __init__(self, max_task_idle_ms: int, *partitions: TopicPartition, most: int = 1_000) -> None:
        self.log = WatchedLog()
        self.log.create_topics([NewTopic(partition.topic, 1) for partition in partitions])
        self.consumer: Consumer = self.log.consumer()
        self.consumer.assign(partitions)
        for partition in partitions:
            self.consumer.seek(partition, 0)
        configs = StreamsConfig(
            "app", "memory:test", max_task_idle_ms=max_task_idle_ms, buffered_records_per_partition=most
        )
        lags = InputLags(self.log, self.consumer)
        self.group = PartitionGroup(frozenset(partitions), self._queue, self.consumer, lags, configs)

    def _queue(self, partition: TopicPartition) -> RecordQueue:
        return RecordQueue(TaskId(0, 0), partition, SourceRunner("s", SourceSettings(), CurrentNode()), never)

    def on_log(self, partition: TopicPartition, *times: int) -> None:
        self.log.write(partition, *((None, None, time) for time in times))

    def buffer(self, *partitions: TopicPartition) -> None:
        others = self.consumer.assignment() - set(partitions)
        self.consumer.pause(others)
        for records in self.consumer.poll(0, 1000):
            self.group.add(records)
        self.consumer.resume(others)

    def take(self, now_ms: int = 0) -> tuple[str, int] | None:
        """Topic and timestamp."""
        run = self.group.next_run(now_ms, 1)
        if run is None:
            return None
        queue, records = run
        assert records == 1
        return queue.partition.topic, known(queue.poll()).timestamp_ms

    def take_all(self, now_ms: int = 0) -> list[tuple[str, int]]:
        taken = []
        while (one := self.take(now_ms)) is not None:
            taken.append(one)
        return taken


def test_should_need_no_choice_with_one_partition() -> None:
    one = Group(0, A)
    assert not one.group.ready(0)
    assert one.group.next_run(0, 10) is None
    one.group.add(batch(A, 1))
    assert one.group.ready(0)
    run = one.group.next_run(0, 10)
    assert run is not None
    assert (run[0].partition, run[1]) == (A, 10)
    assert one.log.calls == []


def test_should_never_wait_when_max_task_idle_ms_is_minus_1() -> None:
    one = Group(-1, A, B)
    one.on_log(B, 1)
    one.group.add(batch(A, 5))
    assert one.take() == ("a", 5)
    assert one.log.calls == []


def test_should_wait_as_long_as_nothing_is_known_of_a_partition() -> None:
    one = Group(0, A, B)
    one.on_log(A, 5)
    one.buffer(A)
    one.log.fail["end_offsets"] = LogTimeout("away")
    assert one.take() is None
    del one.log.fail["end_offsets"]
    one.consumer.assign([A, C])
    one.consumer.assign([A, B])  # B has no position now
    assert one.take() is None
    one.consumer.seek(B, 0)
    assert one.take() == ("a", 5)


@pytest.mark.parametrize("partitions", [(A,), (A, B)])
@pytest.mark.parametrize("max_task_idle_ms", [-1, 0])
def test_should_wait_for_records_alone_when_empty(
    partitions: tuple[TopicPartition, ...], max_task_idle_ms: int
) -> None:
    one = Group(max_task_idle_ms, *partitions)
    assert one.group.waits_for_records
    one.group.add(batch(A, 1))
    assert not one.group.waits_for_records
    one.group.clear()
    assert one.group.waits_for_records


def test_should_watch_the_clock_while_it_is_empty_when_it_waits_max_task_idle_ms() -> None:
    assert not Group(100, A, B).group.waits_for_records
    assert Group(100, A).group.waits_for_records, "one partition never waits"


def test_should_wait_for_several_partitions_at_the_same_time() -> None:
    """Differs from Kafka: it would begin to wait for the second one when it has waited for the first."""
    one = Group(10, A, B, C)
    one.on_log(A, 5)
    one.buffer(A)
    assert [one.group.ready(now) for now in (100, 109, 110)] == [False, False, True]


def test_should_ask_the_log_once_at_one_time_and_not_at_all_when_more_is_known() -> None:
    one = Group(0, A, B)
    one.on_log(A, *range(100))
    one.on_log(B, 1_000)
    one.buffer(A)
    for now in range(5):
        assert not one.group.ready(now)
    assert one.log.count("end_offsets") == 1  # B has more, whatever time it is
    one.consumer.seek(B, 1)
    assert len(one.take_all(ASK_AGAIN_MS)) == 100
    assert one.log.count("end_offsets") == 2


def test_should_not_ask_the_log_for_an_end_that_the_consumer_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Group(0, A, B, C)
    one.on_log(A, 5, 6)
    one.on_log(B, 1)
    one.buffer(A)
    ends: dict[TopicPartition, int | None] = {B: 1, C: 0}
    monkeypatch.setattr(one.consumer, "known_end", ends.get)
    assert one.take() is None
    one.buffer(B)
    assert one.take_all() == [("b", 1), ("a", 5), ("a", 6)]
    assert one.log.calls == []
    one.on_log(A, 7)
    one.buffer(A)
    ends[B] = None
    assert one.take(ASK_AGAIN_MS) == ("a", 7)
    assert one.log.calls == ["end_offsets"]


def test_should_wait_for_a_partition_with_more_while_the_log_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Group(0, A, B, C)
    one.on_log(A, 5)
    one.buffer(A)
    monkeypatch.setattr(one.consumer, "known_end", {B: 0}.get)
    one.log.fail["end_offsets"] = LogTimeout("away")
    assert one.take() is None
    monkeypatch.setattr(one.consumer, "known_end", {B: 0, C: 0}.get)
    assert one.take() == ("a", 5)


def test_should_ask_again_when_a_partition_ran_dry_at_the_same_time() -> None:
    one = Group(0, A, B)
    one.on_log(A, 5, 6)
    one.on_log(B, 1)
    one.buffer(A, B)
    one.on_log(B, 2)
    assert one.take_all(7) == [("b", 1)]
    one.buffer(B)
    assert one.take_all(7) == [("b", 2), ("a", 5), ("a", 6)]


def test_should_keep_records_of_partitions_that_stay_when_partitions_change() -> None:
    one = Group(-1, A, B, most=1)
    one.group.add(batch(A, 5, 6))
    one.group.add(batch(B, 1))
    one.group.set_partitions([A, C])
    assert (len(one.group), one.group.partitions, one.group.paused) == (2, frozenset({A, C}), {A})
    one.group.add(batch(C, 3))
    one.group.set_partitions([C])
    assert (one.group.paused, one.take_all()) == (set(), [("c", 3)])


def test_should_pause_a_partition_with_too_many_records_until_enough_are_taken() -> None:
    one = Group(-1, A, B, most=2)
    one.group.add(batch(A, 1, 2, 3, 4))
    assert one.consumer.paused() == {A}
    for paused in ({A}, set()):
        one.take()
        one.group.resume_partitions()
        assert one.consumer.paused() == paused


def test_should_say_where_the_task_stands_in_each_partition() -> None:
    one = Group(-1, A, B)
    one.group.set_partition_times({A: 12})
    one.group.add(batch(B, 5, 7))
    assert one.take() == ("b", 5)
    assert one.group.positions() == [InputPosition(A, None, 12), InputPosition(B, 1, 5)]


def test_should_count_what_waits_in_the_log_and_in_its_buffer_as_lag() -> None:
    two = Group(0, A, B)
    assert two.group.lag() == 0
    two.on_log(A, 1, 2, 3)
    two.on_log(B, 4)
    assert two.group.lag() == 4
    two.buffer(A, B)
    assert two.group.lag() == 4
    assert two.take() == ("a", 1)
    assert two.group.lag() == 3
    two.consumer.assign([A, C])
    two.consumer.assign([A, B])  # B has no position now
    assert two.group.lag() is None
