"""What nearly every test of a log needs: writing some records and reading all of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from assignor.types import TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import Claim, IsolationLevel, Log, OffsetAndMetadata, OffsetsToCommit, RecordBatch

T0 = TopicPartition("topic", 0)
T1 = TopicPartition("topic", 1)
C0 = TopicPartition("changelog", 0)
NOW_MS = 1_000_000


class CompactingLog(Log, Protocol):
    """The logs of one machine compact at once when they are asked to."""

    def compact(self, topic: str) -> None: ...


class Read(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def records_of(batches: Iterable[RecordBatch]) -> list[Read]:
    records: list[Read] = []
    for batch in batches:
        headers: Sequence[Headers] = [()] * len(batch) if batch.headers is None else batch.headers
        columns = zip(batch.offsets, batch.timestamps_ms, batch.keys, batch.values, headers, strict=True)
        records += [Read(*row) for row in columns]
    return records


def read_from(
    log: Log, partition: TopicPartition, offset: int = 0, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
) -> list[Read]:
    """All records, read by a new consumer. On a broker, a commit becomes visible a moment after it has returned."""
    ends_when_written(log, log.end_offsets([partition], IsolationLevel.READ_UNCOMMITTED), longest_s=1)
    consumer = log.consumer(isolation)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    records: list[Read] = []
    while (position := consumer.position(partition)) is not None and position < log.end_offsets([partition])[partition]:
        records += records_of(consumer.poll(0, 1_000))
    consumer.close()
    return records


def values_of(log: Log, partition: TopicPartition, offset: int = 0) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in read_from(log, partition, offset)]


def ends_when_written(
    log: Log, expected: Mapping[TopicPartition, int], longest_s: float = 10
) -> dict[TopicPartition, int]:
    """The end offsets, once they are as expected or the time is up: a producer may still be writing."""
    give_up_at = time.monotonic() + longest_s
    while (ends := log.end_offsets(expected)) != expected and time.monotonic() < give_up_at:
        time.sleep(0.01)  # nothing tells when another thread has written
    return ends


def write(log: Log, partition: TopicPartition, *values: bytes, timestamp_ms: int = NOW_MS) -> None:
    """Each value under the key `k`, in one batch."""
    producer = log.producer()
    for value in values:
        producer.send(partition, b"k", value, timestamp_ms)
    producer.close()


def write_pairs(
    log: Log, partition: TopicPartition, *pairs: tuple[bytes, bytes | None], timestamp_ms: int = NOW_MS
) -> None:
    producer = log.producer()
    for key, value in pairs:
        producer.send(partition, key, value, timestamp_ms)
    producer.close()


def offsets(claim: Claim, partition: TopicPartition, offset: int, metadata: str = "") -> OffsetsToCommit:
    return [(claim, {partition: OffsetAndMetadata(offset, metadata)})]
