"""Reads the records of a topic of any log as objects. The reader belongs to no group, so it commits no offsets.

Source: `ConsumerRecord`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, Generic, NamedTuple

from assignor.types import TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Headers, K, V
from streams_runtime.logs.base import IsolationLevel, Log, RecordBatch
from streams_runtime.logs.log_errors import UnknownTopicOrPartition
from streams_runtime.logs.opening import open_log
from streams_runtime.serdes import Serde, serde_for_topic

OffsetRanges = Mapping[TopicPartition, range]
"""The offsets to read of each partition."""

_POLL_MS = 100
_POLL_RECORDS = 10_000


class ConsumedRecord(NamedTuple, Generic[K, V]):
    """A record with its topic, partition and offset. `timestamp_ms`: milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K
    value: V
    headers: Headers = ()


class UndecodableRecord(StreamsRuntimeError):
    """The error for a record whose bytes a serde cannot read. `part`: "key" or "value". `__cause__` is the serde's
    error.
    """

    def __init__(self, partition: TopicPartition, offset: int, part: str, data: bytes, serde: object) -> None:
        super().__init__(
            f"{partition} at offset {offset}: {type(serde).__name__} cannot read the {part}, {_shown(data)}"
        )
        self.partition = partition
        self.offset = offset
        self.part = part
        self.data = data


def read_topic(
    log: Log | str,
    topic: str,
    key_serde: Serde[K],
    value_serde: Serde[V],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    properties: Mapping[str, str] | None = None,
) -> Iterator[ConsumedRecord[K | None, V | None]]:
    """Yields all records that the topic contains when `read_topic` begins to read. The records of each partition are in
    order.

    On a broker, a commit becomes visible a moment after it has returned. `log`: a log, or an address as for `open_log`.
    Raises UnknownTopicOrPartition, UndecodableRecord, LogTimeout.
    """
    if isinstance(log, str):
        with closing(open_log(log, properties)) as own:
            yield from read_topic(own, topic, key_serde, value_serde, isolation=isolation)
        return
    keys, values = serde_for_topic(key_serde, topic, is_key=True), serde_for_topic(value_serde, topic, is_key=False)
    yield from read_offsets(log, all_offsets(log, topic, isolation), keys, values, isolation=isolation)


def all_offsets(
    log: Log, topic: str, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
) -> dict[TopicPartition, range]:
    """Returns the offsets that the topic has now. Raises UnknownTopicOrPartition, LogTimeout."""
    partitions = partitions_of(log, topic)
    ends = log.end_offsets(partitions, isolation)
    begins = log.begin_offsets(partitions)
    return {partition: range(begins[partition], ends[partition]) for partition in partitions}


def newest_offsets(ranges: OffsetRanges, most: int) -> dict[TopicPartition, range]:
    """Returns the last offsets of each partition, at most `most` offsets altogether. Every partition gets an equal
    share. What a small partition does not need of its share goes to the larger partitions.
    """
    newest: dict[TopicPartition, range] = {}
    smallest_first = sorted(ranges, key=lambda each: len(ranges[each]))
    for index, partition in enumerate(smallest_first):
        offsets = ranges[partition]
        count = min(len(offsets), most // (len(smallest_first) - index))
        newest[partition] = offsets[len(offsets) - count :]
        most -= count
    return newest


def read_offsets(
    log: Log,
    ranges: OffsetRanges,
    key_serde: Serde[K],
    value_serde: Serde[V],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> Iterator[ConsumedRecord[K | None, V | None]]:
    """Yields the records of each partition whose offsets are in the range of the partition. The records of each
    partition are in order.

    `ranges`: the offsets to read; no range ends above the end offset of its partition. Raises UndecodableRecord,
    LogTimeout, OffsetOutOfRange.
    """
    with closing(log.consumer(isolation)) as consumer:
        left = {partition for partition, offsets in ranges.items() if offsets}
        consumer.assign(left)
        for partition in left:
            consumer.seek(partition, ranges[partition].start)
        while left:
            for batch in consumer.poll(_POLL_MS, _POLL_RECORDS):
                end = ranges[batch.partition].stop
                yield from (record for record in consumed_records(batch, key_serde, value_serde) if record.offset < end)
            left = {each for each in left if (consumer.position(each) or 0) < ranges[each].stop}
            consumer.assign(left)


def partitions_of(log: Log, topic: str) -> list[TopicPartition]:
    """Returns the partitions of a topic. Raises UnknownTopicOrPartition if the topic does not exist."""
    count = log.partitions_of(topic)
    if count < 1:
        raise UnknownTopicOrPartition(f"there is no topic {topic}")
    return [TopicPartition(topic, number) for number in range(count)]


def consumed_records(
    batch: RecordBatch,
    key_serde: Serde[K],
    value_serde: Serde[V],
    set_aside: Callable[[UndecodableRecord], None] | None = None,
) -> Iterator[ConsumedRecord[K | None, V | None]]:
    """Yields the records of the batch as objects. `set_aside`: a function that is called with the error if a serde
    cannot read a record. The record is then skipped. If `set_aside` is None, the error is raised.
    """
    topic, number = batch.partition
    for index, offset in enumerate(batch.offsets):
        try:
            key = _decoded(batch, index, "key", batch.keys[index], key_serde)
            value = _decoded(batch, index, "value", batch.values[index], value_serde)
        except UndecodableRecord as error:
            if set_aside is None:
                raise
            set_aside(error)
            continue
        headers = () if batch.headers is None else batch.headers[index]
        yield ConsumedRecord(topic, number, offset, batch.timestamps_ms[index], key, value, headers)


def _decoded(batch: RecordBatch, index: int, part: str, data: bytes | None, serde: Serde[Any]) -> Any:
    if data is None:
        return None
    try:
        return serde.deserialize(data)
    except Exception as error:
        raise UndecodableRecord(batch.partition, batch.offsets[index], part, data, serde) from error


_SHOWN_BYTES = 16


def _shown(data: bytes) -> str:
    size = "1 byte" if len(data) == 1 else f"{len(data)} bytes"
    begin = data[:_SHOWN_BYTES].hex(" ") + (" ..." if len(data) > _SHOWN_BYTES else "")
    return f"{size}: {begin}" if data else size
