"""Batches of partitions go into a task's buffer, and runs of records come out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Consumer, NewTopic, RecordBatch
from streams_runtime.processors.context import CurrentNode
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.processors.topology import SourceSettings
from streams_runtime.tasks.exception_handling import FailedInputRecord
from streams_runtime.tasks.input_buffer import InputBuffer, InputPosition
from tests.streams_runtime.tasks.watched_log import WatchedLog

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
TASK = TaskId(0, 0)


def never(failed: FailedInputRecord) -> None:
    raise AssertionError(failed)


def batch(partition: TopicPartition, times: Sequence[int], first_offset: int = 0) -> RecordBatch:
    offsets = range(first_offset, first_offset + len(times))
    return RecordBatch(partition, offsets, times, [b"k"] * len(times), [b"v"] * len(times))


def buffer_of(*partitions: TopicPartition, most: int = 1_000) -> tuple[InputBuffer, Consumer]:
    log = WatchedLog()
    log.create_topics([NewTopic(topic, 1) for topic in "ab"])
    consumer = log.consumer()
    consumer.assign(partitions)
    sources = {topic: SourceRunner(topic, SourceSettings(), CurrentNode()) for topic in "ab"}
    configs = StreamsConfig("app", "memory:test", max_task_idle_ms=-1, buffered_records_per_partition=most)
    return InputBuffer(TASK, partitions, sources, log, consumer, configs, never), consumer


def taken(buffer: InputBuffer, max_records: int) -> list[tuple[str, int]]:
    """Topics and timestamps of one run."""
    run = buffer.next_run(0, max_records)
    if run is None:
        return []
    queue, records = run
    polled = [queue.poll() for _ in range(min(records, len(queue)))]
    return [(queue.partition.topic, record.timestamp_ms) for record in polled if record is not None]


def test_should_give_records_of_one_partition_as_one_run() -> None:
    buffer, _ = buffer_of(A)
    buffer.add(batch(A, [5, 3]))
    buffer.add(batch(A, [9], first_offset=2))
    assert (taken(buffer, 10), taken(buffer, 10)) == ([("a", 5), ("a", 3), ("a", 9)], [])


def test_should_give_no_longer_run_than_is_asked_for() -> None:
    buffer, _ = buffer_of(A)
    buffer.add(batch(A, [1, 2, 3]))
    assert (taken(buffer, 2), taken(buffer, 2)) == ([("a", 1), ("a", 2)], [("a", 3)])


def test_should_end_a_run_where_another_partition_may_be_next() -> None:
    buffer, _ = buffer_of(A, B)
    buffer.add(batch(A, [1, 4]))
    buffer.add(batch(B, [2, 3]))
    assert [taken(buffer, 10) for _ in range(4)] == [[("a", 1)], [("b", 2), ("b", 3)], [("a", 4)], []]


def test_should_pause_a_partition_with_too_many_records_until_enough_are_taken() -> None:
    buffer, consumer = buffer_of(A, B, most=2)
    buffer.add(batch(A, [1, 2, 3, 4]))
    assert consumer.paused() == {A}
    taken(buffer, 1)
    buffer.resume_partitions()
    assert consumer.paused() == {A}
    taken(buffer, 1)
    buffer.resume_partitions()
    assert consumer.paused() == frozenset()


def test_should_only_wait_for_records_when_all_were_taken() -> None:
    buffer, _ = buffer_of(A)
    assert buffer.waits_for_records
    buffer.add(batch(A, [5]))
    assert not buffer.waits_for_records
    assert taken(buffer, 1) == [("a", 5)]
    assert buffer.waits_for_records


def test_should_not_know_an_offset_of_a_partition_without_records() -> None:
    buffer, _ = buffer_of(A)
    buffer.set_partition_times({A: 12})
    assert list(buffer.positions()) == [InputPosition(A, None, 12)]


def test_should_keep_records_of_partitions_that_stay() -> None:
    buffer, _ = buffer_of(A, B)
    buffer.add(batch(A, [1]))
    buffer.add(batch(B, [2]))
    buffer.set_partitions([B])
    assert (len(buffer), taken(buffer, 10)) == (1, [("b", 2)])


def test_should_refuse_a_partition_of_a_topic_that_no_source_reads() -> None:
    buffer, _ = buffer_of(A)
    with pytest.raises(StreamsRuntimeError, match=r"task \[0_0\] has no source for topic gone"):
        buffer.set_partitions([TopicPartition("gone", 0)])
