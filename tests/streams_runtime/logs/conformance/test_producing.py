"""Producers without a transaction."""

from typing import Any

import pytest

from assignor.types import TopicPartition
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import Log, NewTopic, RawColumns
from streams_runtime.logs.log_errors import InvalidRecord, InvalidTimestamp, LogError, RecordTooLarge
from tests.streams_runtime.logs.reading_and_writing import C0, T0, T1, Read, ends_when_written, read_from, values_of


def test_should_give_records_offsets_in_the_order_they_were_sent(log: Log) -> None:
    producer = log.producer()
    producer.send(T0, b"a", b"1", 5)
    producer.send(T1, None, b"2", 6)
    producer.send(T0, b"b", None, 4, (("h", b"x"), ("h", None), ("", b"")))
    producer.send(T0, b"", b"", 0)
    producer.flush()
    assert read_from(log, T0) == [
        Read(0, 5, b"a", b"1"),
        Read(1, 4, b"b", None, (("h", b"x"), ("h", None), ("", b""))),
        Read(2, 0, b"", b""),
    ]
    assert read_from(log, T1) == [Read(0, 6, None, b"2")]
    assert log.end_offsets([T0, T1]) == {T0: 3, T1: 1}
    assert producer.last_offsets() == {T0: 2, T1: 0}


def test_should_have_written_everything_when_flush_and_close_return(log: Log) -> None:
    producer = log.producer()
    assert producer.last_offsets() == {}
    producer.send(T0, b"k", b"1", 0)
    producer.flush()
    assert values_of(log, T0) == [(0, b"1")]
    producer.flush()
    producer.send(T0, b"k", b"2", 0)
    producer.close()
    assert values_of(log, T0) == [(0, b"1"), (1, b"2")]
    producer.close()
    with pytest.raises(LogError, match="the producer is closed"):
        producer.send(T0, b"k", b"3", 0)
    with pytest.raises(LogError, match="the producer is closed"):
        producer.flush()


def test_should_write_without_flush_when_256_kib_are_pending(log: Log) -> None:
    producer = log.producer()
    for _ in range(255):
        producer.send(T0, None, bytes(1_024), 0)
    producer.send(T1, None, bytes(1_023), 0)
    assert log.end_offsets([T0, T1]) == {T0: 0, T1: 0}
    producer.send(T1, None, b"x", 0)
    assert ends_when_written(log, {T0: 255, T1: 2}) == {T0: 255, T1: 2}


def test_should_write_what_was_taken_when_it_must_not_linger(log: Log) -> None:
    producer = log.producer()
    producer.send_now()
    producer.send(T0, b"k", b"1", 0)
    producer.send_columns(T1, RawColumns([b"k", None], [b"2", None], [1, 2]))
    assert log.end_offsets([T0, T1]) == {T0: 0, T1: 0}
    producer.send_now()
    assert ends_when_written(log, {T0: 1, T1: 2}) == {T0: 1, T1: 2}
    producer.send_now()
    producer.send(T0, b"k", b"3", 0)
    producer.send_now()
    assert ends_when_written(log, {T0: 2, T1: 2}) == {T0: 2, T1: 2}
    producer.close()
    with pytest.raises(LogError, match="the producer is closed"):
        producer.send_now()


def test_should_show_nothing_of_a_transaction_that_must_not_linger(log: Log) -> None:
    producer = log.producer("t")
    producer.begin_transaction()
    producer.send(T0, b"k", b"1", 0)
    producer.send_now()
    assert log.end_offsets([T0]) == {T0: 0}
    producer.commit_transaction()
    assert values_of(log, T0) == [(0, b"1")]
    producer.close()


def test_should_refuse_a_record_that_is_too_large_and_go_on(log: Log) -> None:
    small = TopicPartition("small", 0)
    log.create_topics([NewTopic("small", 1, {"max.message.bytes": "100"})])
    producer = log.producer()
    producer.send(small, bytes(10), bytes(10), 0)  # on a broker the batch around it counts, too
    with pytest.raises(
        RecordTooLarge, match=r"record for small-0 has 101 bytes, and its topic takes 100 \(max.message.bytes\)"
    ):
        producer.send(small, bytes(50), bytes(49), 0, (("h", b"1"),))
    producer.send(T0, b"k", bytes(1_048_587), 0)
    with pytest.raises(RecordTooLarge, match="record for topic-0 has 1048589 bytes, and its topic takes 1048588"):
        producer.send(T0, b"k", bytes(1_048_588), 0)
    producer.close()
    assert log.end_offsets([small, T0]) == {small: 1, T0: 1}


def test_should_refuse_a_record_without_key_when_its_topic_is_compacted(log: Log) -> None:
    producer = log.producer()
    with pytest.raises(InvalidRecord, match="record for changelog-0 has no key, and the topic is compacted by key"):
        producer.send(C0, None, b"v", 0)
    producer.close()
    assert log.end_offsets([C0]) == {C0: 0}


def test_should_not_begin_a_transaction_without_a_transactional_id(log: Log) -> None:
    producer = log.producer()
    with pytest.raises(LogError, match="without a transactional id has no transactions"):
        producer.begin_transaction()
    with pytest.raises(LogError, match="no transaction has begun"):
        producer.commit_transaction()
    with pytest.raises(LogError, match="no transaction has begun"):
        producer.abort_transaction()


def test_should_write_nothing_more_once_its_records_were_discarded(log: Log) -> None:
    producer = log.producer()
    producer.send(T0, b"k", b"written", 0)
    producer.flush()
    producer.send(T0, b"k", b"discarded", 0)
    producer.discard()
    with pytest.raises(LogError, match="takes no more records: what it had was discarded"):
        producer.send(T0, b"k", b"refused", 0)
    producer.close()
    assert values_of(log, T0) == [(0, b"written")]


def test_should_refuse_a_timestamp_that_is_too_far_from_the_clock_and_go_on(log: Log) -> None:
    near = TopicPartition("near", 0)
    configs = {"message.timestamp.after.max.ms": "60000", "message.timestamp.before.max.ms": "60000"}
    log.create_topics([NewTopic("near", 1, configs)])
    now_ms = SystemClock().now_ms()
    producer = log.producer("t")
    producer.begin_transaction()
    producer.send(near, b"k", b"1", now_ms + 30_000)
    for far_ms, where in ((now_ms + 120_000, "ahead of"), (now_ms - 120_000, "behind")):
        with pytest.raises(
            InvalidTimestamp, match=rf"record for near-0 has the timestamp {far_ms}, .* {where} the clock"
        ):
            producer.send(near, b"k", b"bad", far_ms)
    producer.send(near, b"k", b"2", now_ms)
    producer.commit_transaction()
    producer.close()
    assert [value for _, value in values_of(log, near)] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("key", "value", "timestamp_ms", "headers"),
    [
        ("text", b"v", 5, ()),
        (b"k", "text", 5, ()),
        (b"k", 5, 5, ()),
        (b"k", b"v", 5.0, ()),
        (b"k", b"v", True, ()),
        (b"k", b"v", None, ()),
        (b"k", b"v", -1, ()),
        (b"k", b"v", 2**63, ()),
        (b"k", b"v", 5, (("trace", "abc"),)),
        (b"k", b"v", 5, ((b"trace", b"abc"),)),
        (b"k", b"v", 5, {"trace": b"abc"}),
    ],
)
def test_should_refuse_no_records_and_go_on(log: Log, key: Any, value: Any, timestamp_ms: Any, headers: Any) -> None:
    producer = log.producer()
    producer.send(T0, b"k", b"1", 0)
    with pytest.raises(InvalidRecord, match="record for topic-0 has "):
        producer.send(T0, key, value, timestamp_ms, headers)
    producer.send(T0, b"k", b"2", 0)
    producer.close()
    assert [value for _, value in values_of(log, T0)] == [b"1", b"2"]


def test_should_keep_every_timestamp_and_the_bytes_of_headers(log: Log) -> None:
    foreign = b"\xff".decode(errors="surrogateescape")
    headers: Headers = (("trace", b"\xc3\x28\x00\xff"), ("none", None), ("", b""), (foreign, b"1"))
    times_ms = [0, 2**63 - 1, 5, 1_795_000_000_000_000_000, 2**63 - 1, 0]
    log.create_topics([NewTopic("any-time", 1, {"message.timestamp.after.max.ms": str(2**63 - 1)})])
    partition = TopicPartition("any-time", 0)
    producer = log.producer()
    for timestamp_ms in times_ms:
        producer.send(partition, b"k", b"v", timestamp_ms, headers)
    producer.send_columns(partition, RawColumns([b"k"] * 6, [b"v"] * 6, times_ms))
    producer.close()
    read = read_from(log, partition)
    assert [record.timestamp_ms for record in read] == times_ms * 2
    assert [record.headers for record in read] == [headers] * 6 + [()] * 6
