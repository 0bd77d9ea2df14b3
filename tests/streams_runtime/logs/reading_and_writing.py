"""What nearly every test of a log needs: writing some records and reading all of them."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from assignor.types import TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import (
    Claim,
    Consumer,
    IsolationLevel,
    Log,
    OffsetAndMetadata,
    OffsetsToCommit,
    RecordBatch,
)
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.logs.in_memory import InMemoryLog

T0 = TopicPartition("topic", 0)
T1 = TopicPartition("topic", 1)
C0 = TopicPartition("changelog", 0)
NOW_MS = 1_000_000


OwnLog = EmbeddedLog | InMemoryLog
"""The logs of one machine."""


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
    consumer = reading(log, partition, offset=offset, isolation=isolation)
    records: list[Read] = []
    while (position := consumer.position(partition)) is not None and position < log.end_offsets([partition])[partition]:
        records += records_of(consumer.poll(0, 1_000))
    consumer.close()
    return records


def reading(
    log: Log, *partitions: TopicPartition, offset: int = 0, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
) -> Consumer:
    """A new consumer of these, each at this offset."""
    consumer = log.consumer(isolation)
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, offset)
    return consumer


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


def commit(log: Log, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Claims the partitions for it."""
    with closing(log.producer()) as producer:
        moved = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        producer.commit_offsets([(log.claim(group, offsets), moved)])


def write_pairs(
    log: Log, partition: TopicPartition, *pairs: tuple[bytes, bytes | None], timestamp_ms: int = NOW_MS
) -> None:
    producer = log.producer()
    for key, value in pairs:
        producer.send(partition, key, value, timestamp_ms)
    producer.close()


def compact(log: OwnLog, topic: str) -> None:
    """Do all compaction of the topic that is possible now, also where `maintain` finds it not worth a pass yet."""
    if isinstance(log, InMemoryLog):
        for partition, stored in log._partitions.items():
            if partition.topic == topic and stored.configs.compacts:
                log._compact(partition, stored, log._clock.now_ms())
        return
    cleaner = log._maintenance.cleaner
    for partition, known in log._catalog.all().items():
        if partition.topic == topic and known.configs.compacts:
            until, before = cleaner.dirt(known).until, -1
            # at least one pass, because tombstones may have become old enough; then until the head is reached
            while before < (cleaned_to := cleaner.cleaned_to(known)) and (before < 0 or cleaned_to < until):
                before = cleaned_to
                for _ in cleaner.steps(partition, known, until):
                    pass


def offsets(claim: Claim, partition: TopicPartition, offset: int, metadata: str = "") -> OffsetsToCommit:
    return [(claim, {partition: OffsetAndMetadata(offset, metadata)})]
