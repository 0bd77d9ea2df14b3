"""Consumers: assignment, positions, pause, fairness, waiting, and positions that do not exist."""

import threading
import time

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import Log
from streams_runtime.logs.log_errors import LogError, OffsetOutOfRange
from tests.streams_runtime.logs.reading_and_writing import C0, T0, T1, reading, records_of, write

LONG_MS = 30_000


def test_should_give_records_from_the_position_on_and_move_it(log: Log) -> None:
    write(log, T0, *[b"%d" % number for number in range(10)])
    consumer = log.consumer()
    consumer.assign([T0])
    assert consumer.position(T0) is None
    assert consumer.poll(0, 100) == []  # without a position there is nothing to give
    consumer.seek(T0, 3)
    assert consumer.position(T0) == 3
    (batch,) = consumer.poll(0, 4)
    assert (batch.partition, list(batch.offsets)) == (T0, [3, 4, 5, 6])
    assert batch.values == [b"3", b"4", b"5", b"6"]
    assert consumer.position(T0) == 7
    assert [record.offset for record in records_of(consumer.poll(0, 100))] == [7, 8, 9]
    assert consumer.position(T0) == 10
    assert consumer.poll(0, 100) == []
    consumer.seek(T0, 9)
    assert [record.offset for record in records_of(consumer.poll(0, 100))] == [9]


def test_should_give_what_it_is_sent_back_to_in_the_middle_of_a_batch(log: Log) -> None:
    write(log, T0, b"1", b"2", b"3")
    consumer = reading(log, T0)
    assert [r.value for r in records_of(consumer.poll(0, 1))] == [b"1"]
    consumer.seek(T0, 0)
    assert [r.value for r in records_of(consumer.poll(0, 10))] == [b"1", b"2", b"3"]


def test_should_give_one_batch_a_partition_with_a_range_of_offsets_when_they_are_dense(log: Log) -> None:
    write(log, T0, b"1", b"2")
    write(log, T0, b"3")
    consumer = reading(log, T0)
    (batch,) = consumer.poll(0, 100)
    assert batch.offsets == range(3)
    assert batch.headers is None


def test_should_keep_position_and_pause_of_partitions_that_stay(log: Log) -> None:
    write(log, T0, b"1", b"2")
    write(log, T1, b"3")
    consumer = reading(log, T0, C0)
    assert len(records_of(consumer.poll(0, 1))) == 1
    consumer.pause([C0])
    consumer.assign([C0, T0, T1])
    assert consumer.assignment() == {T0, T1, C0}
    assert (consumer.position(T0), consumer.position(C0), consumer.position(T1)) == (1, 0, None)
    assert consumer.paused() == {C0}
    consumer.assign([T1])
    consumer.assign([T1, T0, C0])  # whoever went and comes back starts anew
    assert (consumer.position(T0), consumer.position(C0)) == (None, None)
    assert consumer.paused() == frozenset()
    consumer.assign([])
    assert consumer.assignment() == frozenset()


def test_should_give_nothing_of_a_paused_partition_until_it_is_resumed(log: Log) -> None:
    write(log, T0, b"1", b"2", b"3")
    write(log, T1, b"4")
    consumer = reading(log, T0, T1)
    consumer.pause([T1])
    assert [r.value for r in records_of(consumer.poll(0, 1))] == [b"1"]
    consumer.pause([T0])  # in the middle of a batch
    assert consumer.poll(0, 10) == []
    assert consumer.paused() == {T0, T1}
    consumer.resume([T0, T1])
    records = records_of(consumer.poll(0, 10))
    while more := records_of(consumer.poll(0, 10)):  # what has to be fetched first may come with the next poll
        records += more
    assert sorted(r.value or b"" for r in records) == [b"2", b"3", b"4"]


def test_should_refuse_partitions_that_are_not_assigned(log: Log) -> None:
    consumer = log.consumer()
    consumer.assign([T0])
    with pytest.raises(LogError, match="topic-1 is not assigned to this consumer"):
        consumer.seek(T1, 0)
    with pytest.raises(LogError, match="topic-1 is not assigned to this consumer"):
        consumer.position(T1)
    with pytest.raises(LogError, match="topic-1 is not assigned to this consumer"):
        consumer.pause([T0, T1])
    with pytest.raises(LogError, match="topic-1 is not assigned to this consumer"):
        consumer.resume([T1])
    assert consumer.paused() == frozenset()


def test_should_share_a_poll_equally_and_give_to_others_what_one_does_not_need(log: Log) -> None:
    write(log, T0, *[b"x"] * 100)
    write(log, T1, *[b"x"] * 3)
    write(log, C0, *[b"x"] * 100)
    consumer = reading(log, T0, T1, C0)
    given = {batch.partition: len(batch) for batch in consumer.poll(0, 31)}
    assert given == {T0: 14, T1: 3, C0: 14}


def test_should_let_partitions_take_turns_when_a_poll_gives_fewer_records_than_there_are_partitions(log: Log) -> None:
    write(log, T0, *[b"x"] * 50)
    write(log, T1, *[b"x"] * 5)
    write(log, C0, *[b"x"] * 50)
    consumer = reading(log, T0, T1, C0)
    given = [consumer.poll(0, 1)[0].partition for _ in range(6)]
    assert sorted(given) == [C0, C0, T0, T0, T1, T1]


def test_should_name_positions_before_the_first_and_behind_the_last_record(log: Log) -> None:
    write(log, T0, b"1", b"2")
    write(log, T1, b"1", b"2", b"3", b"4")
    log.delete_records({T1: 2})
    consumer = log.consumer()
    consumer.assign([T0, T1, C0])
    consumer.seek(C0, 0)
    consumer.seek(T0, 3)
    consumer.seek(T1, 1)
    with pytest.raises(OffsetOutOfRange, match="no such offset: topic-0 at 3, topic-1 at 1") as raised:
        consumer.poll(LONG_MS, 10)
    assert raised.value.positions == {T0: 3, T1: 1}
    assert (consumer.position(T0), consumer.position(T1)) == (3, 1)
    consumer.seek(T0, 2)  # the end itself is no error
    consumer.pause([T1])  # and nobody looks at a paused one
    assert consumer.poll(0, 10) == []
    consumer.resume([T1])
    consumer.seek(T1, 2)
    assert [record.offset for record in records_of(consumer.poll(0, 10))] == [2, 3]


def test_should_name_a_position_that_fell_out_of_range_while_its_batch_was_half_given(own_log: Log) -> None:
    """A consumer on a broker still gives what it had fetched before: see the next test."""
    write(own_log, T0, *[b"x"] * 10)
    consumer = reading(own_log, T0)
    consumer.poll(0, 2)
    own_log.delete_records({T0: 5})
    with pytest.raises(OffsetOutOfRange, match="no such offset: topic-0 at 2"):
        consumer.poll(0, 2)


def test_should_wait_for_the_first_record(log: Log) -> None:
    consumer = reading(log, T0)
    begun = time.monotonic()
    writer = threading.Timer(0.05, lambda: write(log, T0, b"late"))
    writer.start()
    records = records_of(consumer.poll(LONG_MS, 10))
    writer.join()
    assert [record.value for record in records] == [b"late"]
    assert 0.04 < time.monotonic() - begun < 5


@pytest.mark.parametrize("partitions", [[T0], []], ids=["assigned", "nothing assigned"])
def test_should_return_empty_at_the_time_out(log: Log, partitions: list[TopicPartition]) -> None:
    consumer = reading(log, *partitions)
    begun = time.monotonic()
    assert consumer.poll(30, 10) == []
    assert 0.029 < time.monotonic() - begun < 5


def test_should_return_at_once_after_wakeup(log: Log) -> None:
    consumer = reading(log, T0)
    waker = threading.Timer(0.05, consumer.wakeup)
    waker.start()
    begun = time.monotonic()
    assert consumer.poll(LONG_MS, 10) == []
    waker.join()
    assert time.monotonic() - begun < 5
    begun = time.monotonic()
    assert consumer.poll(30, 10) == []  # one wakeup ends one wait
    assert time.monotonic() - begun > 0.029


def test_should_keep_a_wakeup_for_the_next_poll_that_would_wait(log: Log) -> None:
    write(log, T0, b"1")
    consumer = reading(log, T0)
    consumer.wakeup()
    assert len(consumer.poll(LONG_MS, 10)) == 1
    assert consumer.poll(0, 10) == []
    begun = time.monotonic()
    assert consumer.poll(LONG_MS, 10) == []
    assert time.monotonic() - begun < 5


def test_should_refuse_to_poll_when_closed_or_for_no_record_at_all(log: Log) -> None:
    consumer = log.consumer()
    with pytest.raises(ValueError, match="at least one record, not 0"):
        consumer.poll(0, 0)
    consumer.close()
    consumer.close()
    with pytest.raises(LogError, match="the consumer is closed"):
        consumer.poll(0, 1)
