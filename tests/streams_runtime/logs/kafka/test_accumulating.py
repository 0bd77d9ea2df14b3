"""Records that wait to be sent, as batches: when one is full, and which bytes go out."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from assignor.types import TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import BATCH_BYTES, RawColumns
from streams_runtime.logs.kafka.accumulating import Accumulator, PartitionQueue
from tests.kafka_client.record_batches.batches import read_by_aiokafka

P = TopicPartition("topic", 0)
Row = tuple[bytes | None, bytes | None, int, Headers]

KEYS = st.sampled_from([None, b"", b"k", bytes(20)])
VALUES = st.sampled_from([None, b"", b"v", bytes(100), bytes(40_000), bytes(150_000), bytes(300_000)])
HEADERS: st.SearchStrategy[Headers] = st.sampled_from([(), (), (("name", b"value"), ("none", None))])
ROWS = st.lists(st.tuples(KEYS, VALUES, st.integers(0, 2**40), HEADERS), min_size=1, max_size=30)


def sizes(queue: PartitionQueue) -> list[tuple[int, int]]:
    """Records and bytes of each batch."""
    return [(batch.count, batch.size) for batch in (*queue.full, *([queue.open] if queue.open else []))]


def sizes_by_aiokafka(found: list[Row], limit: int) -> list[tuple[int, int]]:
    """Which never fills a batch to the last byte."""
    batches: list[tuple[int, int]] = []
    builder = None
    for key, value, timestamp_ms, headers in found:
        size = len(key or b"") + len(value or b"")
        size += sum(len(name) + len(text or b"") for name, text in headers)
        count, before = batches[-1] if batches else (0, BATCH_BYTES)
        if (
            builder is None
            or before + size > BATCH_BYTES
            or builder.append(count, timestamp_ms, key, value, list(headers)) is None
        ):
            builder = DefaultRecordBatchBuilder(2, 0, 1, -1, -1, -1, limit)
            builder.append(0, timestamp_ms, key, value, list(headers))
            batches.append((1, size))
        else:
            batches[-1] = (count + 1, before + size)
    return batches


@given(found=ROWS, limit=st.sampled_from([100, 1_000, 90_000, 1_048_588]))
def test_should_begin_a_batch_where_aiokafka_begins_one(found: list[Row], limit: int) -> None:
    queue = PartitionQueue(limit, 0, is_transactional=True)
    told = [queue.append(key, value, timestamp_ms, headers) for key, value, timestamp_ms, headers in found]

    expected = sizes_by_aiokafka(found, limit)
    assert sizes(queue) == expected
    assert told.count(True) == len(expected) - 1


@given(found=ROWS, limit=st.sampled_from([100, 1_000, 90_000, 1_048_588]), parts=st.integers(1, 4))
def test_should_take_columns_as_it_takes_records(found: list[Row], limit: int, parts: int) -> None:
    queue = PartitionQueue(limit, 3, is_transactional=True)
    total, told = 0, False
    for start in range(0, len(found), parts):
        keys, values, times, _ = zip(*found[start : start + parts], strict=True)
        size, is_full = queue.extend(RawColumns(keys, values, times))
        total += size
        told |= is_full
    assert queue.extend(RawColumns([], [], [])) == (0, False)

    expected = sizes_by_aiokafka([(*row[:3], ()) for row in found], limit)
    assert sizes(queue) == expected
    assert told == (len(expected) > 1)
    assert total == sum(size for _, size in expected)
    queue.close()
    sent = [row for batch in queue.full for row in read_by_aiokafka(bytes(batch.numbered(1, 2, 3)))]
    assert [(key, value, timestamp_ms) for _, timestamp_ms, key, value, _ in sent] == [row[:3] for row in found]


def test_should_refuse_columns_of_different_lengths() -> None:
    queue = PartitionQueue(1_000, 0, is_transactional=False)

    for keys, values, times in ([], [b"v"], [1]), ([b"k"], [b"v"], []), ([b"k"], [], [1]):
        with pytest.raises(ValueError, match="keys"):
            queue.extend(RawColumns(keys, values, times))
    assert sizes(queue) == []


def test_should_send_no_empty_batch_after_something_that_is_no_record() -> None:
    queue = PartitionQueue(1_000, 0, is_transactional=False)
    with pytest.raises(TypeError):
        queue.append(b"k", "text", 5, ())  # type: ignore[arg-type]
    queue.close()
    assert not queue.full
    assert queue.append(b"k", b"v", 5, ()) is False
    queue.close()
    assert [batch.count for batch in queue.full] == [1]


def test_should_send_the_same_bytes_until_it_gets_other_numbers() -> None:
    accumulator = Accumulator()
    queue = accumulator.queues[P] = PartitionQueue(1_000_000, 3, is_transactional=False)
    assert accumulator.append(queue, b"k", bytes(1_000), 5, (), 1_001)
    accumulator.close_open()
    (batch,) = accumulator.heads().values()

    first = bytes(batch.numbered(7, 1, 40))
    assert bytes(batch.numbered(8, 2, 50)) == first
    queue.renumber()
    second = bytes(batch.numbered(8, 2, 0))
    assert second != first
    assert read_by_aiokafka(first) == read_by_aiokafka(second) == [(0, 5, b"k", bytes(1_000), ())]
    accumulator.done(P, batch, 10)
    assert (accumulator.bytes, accumulator.is_empty) == (0, True)


def test_should_have_a_record_linger_that_did_not_fit_into_a_full_batch() -> None:
    """Nothing else would send it before the commit."""
    accumulator = Accumulator()
    queue = accumulator.queues[P] = PartitionQueue(1_000, 0, is_transactional=False)
    assert accumulator.append(queue, None, bytes(600), 0, (), 600)
    accumulator.close_open()
    assert accumulator.append(queue, None, bytes(600), 0, (), 600), "the first record after that"
    assert not accumulator.append(queue, None, bytes(10), 0, (), 10)
    assert accumulator.append(queue, None, bytes(600), 0, (), 600), "a batch is full"
    assert accumulator.has_full
    assert accumulator.lingers
    accumulator.close_open()
    assert accumulator.append_columns(queue, RawColumns([None] * 2, [bytes(600)] * 2, [0, 0]))
    assert accumulator.lingers


@given(found=ROWS.filter(lambda rows: len(rows) > 1))
def test_should_split_a_batch_that_was_refused_until_its_records_stand_alone(found: list[Row]) -> None:
    accumulator = Accumulator()
    queue = accumulator.queues[P] = PartitionQueue(10_000_000, 0, is_transactional=False)
    for row in found:
        accumulator.append(queue, *row, 0)
    accumulator.close_open()
    alone: list[Row] = []
    while (batch := accumulator.heads().get(P)) is not None:
        batch.numbered(1, 0, len(alone))
        if batch.count > 1:
            accumulator.split(P, batch)
            assert not any(half.is_numbered for half in list(queue.full)[:2])
        else:
            alone += batch.records()
            accumulator.done(P, batch, None)
    assert alone == found


def test_should_write_names_of_headers_that_are_no_text() -> None:
    foreign = b"\xff".decode(errors="surrogateescape")
    found: list[Row] = [
        (b"k", b"%d" % number, number, ((foreign, b"h"),) if number in (0, 3) else ()) for number in range(6)
    ]
    queue = PartitionQueue(10_000_000, 0, is_transactional=False)
    for row in found:
        queue.append(*row)
    assert queue.extend(RawColumns([b"k"], [b"more"], [6])) == (5, False)
    queue.close()
    written: list[Row] = []
    for batch in queue.full:
        batch.numbered(1, 0, len(written))
        written += batch.records()
    assert written == [*found, (b"k", b"more", 6, ())]
