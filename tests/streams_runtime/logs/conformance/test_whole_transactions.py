"""Consumers with `whole_transactions`: a poll gives no part of a transaction."""

import random

from assignor.types import TopicPartition
from streams_runtime.logs.base import IsolationLevel, Log
from tests.streams_runtime.logs.reading_and_writing import (
    C0,
    T0,
    T1,
    OwnLog,
    compact,
    ends_when_written,
    records_of,
    write,
    write_pairs,
)

LARGE = random.Random(1).randbytes(100_000)
"""Two of these fill a batch, whether it is compressed or not."""


def commit_large(log: Log, *partitions: TopicPartition, keys: tuple[bytes, ...]) -> None:
    producer = log.producer("id")
    producer.begin_transaction()
    for key in keys:
        for partition in partitions:
            producer.send(partition, key, LARGE, 0)
    producer.commit_transaction()
    producer.close()


def polled(log: Log, *partitions: TopicPartition, offset: int = 0) -> dict[TopicPartition, list[int]]:
    """How many records of each partition a poll for one record gave, until it was at the ends."""
    ends = ends_when_written(log, log.end_offsets(partitions, IsolationLevel.READ_UNCOMMITTED), longest_s=1)
    consumer = log.consumer(IsolationLevel.READ_COMMITTED, whole_transactions=True)
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, offset)
    counts: dict[TopicPartition, list[int]] = {partition: [] for partition in partitions}
    while any((consumer.position(partition) or 0) < end for partition, end in ends.items()):
        for batch in consumer.poll(0, 1):
            counts[batch.partition].append(len(batch))
            assert (consumer.position(batch.partition) or 0) > batch.offsets[-1]
    consumer.close()
    return counts


def test_should_give_each_transaction_as_a_whole_however_large_it_is(log: Log) -> None:
    commit_large(log, T0, T1, keys=(b"k",) * 20)
    commit_large(log, T0, keys=(b"k",) * 15)
    assert polled(log, T0, T1) == {T0: [20, 15], T1: [20]}


def test_should_reach_the_end_with_records_without_a_transaction(log: Log) -> None:
    commit_large(log, T0, keys=(b"k",) * 5)
    write(log, T0, b"1", b"2")
    write(log, T0, b"3")
    assert polled(log, T0) == {T0: [5, 2, 1]}


def test_should_begin_where_it_is_sent_in_the_middle_of_a_transaction(log: Log) -> None:
    commit_large(log, T0, keys=(b"k",) * 5)
    assert polled(log, T0, offset=3) == {T0: [2]}
    consumer = log.consumer(IsolationLevel.READ_COMMITTED, whole_transactions=True)
    consumer.assign([T0])
    for _ in range(2):
        consumer.seek(T0, 1)
        assert [record.offset for record in records_of(consumer.poll(10_000, 1))] == [1, 2, 3, 4]
    consumer.close()


def test_should_not_split_a_transaction_that_was_compacted(own_log: OwnLog) -> None:
    commit_large(own_log, C0, keys=(b"a", b"b", b"c", b"d"))
    commit_large(own_log, C0, keys=(b"e", b"a"))
    write_pairs(own_log, C0, (b"z", b""))
    compact(own_log, "changelog")
    assert polled(own_log, C0) == {C0: [3, 2, 1]}
