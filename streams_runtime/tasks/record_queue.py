"""The records of one input partition that were polled but not processed yet.

Rules: the queue keeps batches as they came, as columns of bytes. It deserialises a record when its turn comes (or, with
several partitions, when its timestamp is needed to choose). Partition time is the highest timestamp handed out, -1
before the first; timestamp extractors get it. A record that cannot be read goes to the handler, one with a negative
timestamp is dropped; both count as consumed. Source: `RecordQueue`, `RecordDeserializer`.

Differs from Kafka: no record is read before its turn, so a broken record cannot stop those before it. An error of a
timestamp extractor goes to the handler, as that of a serde does.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.records import (
    LATEST_MS,
    Headers,
    RawRecord,
    Record,
    RecordMetadata,
    likely_unit,
    record_timestamp,
)
from streams_runtime.logs.base import RecordBatch
from streams_runtime.processors.fused_loop import FusedLoop
from streams_runtime.processors.source_node import SourceRunner
from streams_runtime.reporting.losses import TOLD_AS_NOTICE, DropReason, TaskLosses, uncounted
from streams_runtime.serdes import BytesSerde, column_deserializer, serde_for_topic
from streams_runtime.tasks.exception_handling import FailedInputRecord
from streams_runtime.tasks.offset_metadata import UNKNOWN_TIME

_logger = logging.getLogger(__name__)


class QueuedColumns(NamedTuple):
    """Records of one batch without headers: those from `start` up to `stop`, by their places in the columns."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps_ms: Sequence[int]
    offsets: Sequence[int]
    start: int
    stop: int


_NONE: tuple[()] = ()
_new_record = tuple.__new__


class RecordQueue:
    """`on_failure` gets each record that cannot be read; it raises, or lets the record be dropped.

    `losses`: counts those with a negative timestamp.

    `process`: the source's function for the records that `poll` gives. `loop`: what does the same for columns, False
    where that is not possible, None while nobody has looked. `column_readers`: read columns of keys and of values.
    """

    __slots__ = (
        "_backlog",
        "_batches",
        "_deserialize_key",
        "_deserialize_value",
        "_extract_timestamp",
        "_head",
        "_headers",
        "_index",
        "_keys",
        "_length",
        "_losses",
        "_offsets",
        "_on_failure",
        "_source",
        "_task_id",
        "_timestamps",
        "_values",
        "column_readers",
        "loop",
        "partition",
        "partition_time_ms",
        "process",
    )

    def __init__(
        self,
        task_id: TaskId,
        partition: TopicPartition,
        source: SourceRunner,
        on_failure: Callable[[FailedInputRecord], None],
        losses: TaskLosses | None = None,
    ) -> None:
        self.partition = partition
        self.process: Callable[[Record[Any, Any]], None] = source.process
        self.loop: FusedLoop | Literal[False] | None = None
        self.partition_time_ms = UNKNOWN_TIME
        self._task_id = task_id
        self._losses = losses or uncounted(task_id)
        self._source = source
        self._on_failure = on_failure
        # bytes that stay bytes need no call
        keys = serde_for_topic(source.key_serde, partition.topic, is_key=True)
        values = serde_for_topic(source.value_serde, partition.topic, is_key=False)
        self._deserialize_key = None if isinstance(keys, BytesSerde) else keys.deserialize
        self._deserialize_value = None if isinstance(values, BytesSerde) else values.deserialize
        self.column_readers = column_deserializer(keys), column_deserializer(values)
        self._extract_timestamp = source.timestamp_extractor
        self._batches: deque[RecordBatch] = deque()
        self.clear()

    def clear(self) -> None:
        """Forget all records and the partition time."""
        self._batches.clear()
        self._backlog = 0  # records in batches behind the current one
        self._offsets: Sequence[int] = _NONE
        self._timestamps: Sequence[int] = _NONE
        self._keys: Sequence[bytes | None] = _NONE
        self._values: Sequence[bytes | None] = _NONE
        self._headers: Sequence[Headers] | None = None
        self._length = 0
        self._index = 0  # of the first record of the current batch that was not read yet
        self._head: Record[Any, Any] | None = None
        self.loop = None
        self.partition_time_ms = UNKNOWN_TIME

    def __len__(self) -> int:
        return self._backlog + self._length - self._index + (self._head is not None)

    def add(self, batch: RecordBatch) -> None:
        self._batches.append(batch)
        self._backlog += len(batch)

    def poll(self) -> Record[Any, Any] | None:
        """The next record; None when there is none. Raises as `on_failure` does; the record stays in the queue then."""
        record = self._head
        if record is None:
            record = self._read()
            if record is None:
                return None
        else:
            self._head = None
        if record[2] > self.partition_time_ms:
            self.partition_time_ms = record[2]
        return record

    def head_timestamp_ms(self) -> int | None:
        """The timestamp of the next record, which is read for it; None when there is none. Raises as `poll` does."""
        if self._head is None:
            self._head = self._read()
        return None if self._head is None else self._head[2]

    def next_offset(self) -> int | None:
        """The offset of the first record that `poll` has not given; None when the queue is empty."""
        if self._head is not None:
            return self._offsets[self._index - 1]
        if self._index < self._length:
            return self._offsets[self._index]
        return self._batches[0].offsets[0] if self._batches else None

    @property
    def polled_index(self) -> int:
        """The place, in its batch, of the record that `poll` gave last; valid as long as `polled_metadata`."""
        return self._index - 1

    def polled_metadata(self) -> RecordMetadata:
        """The metadata of the record that `poll` gave last; valid until the next `poll` or `head_timestamp_ms`."""
        topic, partition = self.partition
        return RecordMetadata(topic, partition, self._offsets[self._index - 1])

    def raw_at(self, index: int) -> RawRecord:
        """The record at `index` of the current batch, as it was read."""
        headers = _NONE if self._headers is None else self._headers[index]
        return RawRecord(self._keys[index], self._values[index], headers, self._timestamps[index])

    def polled_raw(self) -> RawRecord:
        """The record that `poll` gave last, as it was read; valid as `polled_metadata` is."""
        return self.raw_at(self._index - 1)

    def failed(self, index: int, node: str, error: Exception) -> FailedInputRecord:
        """The record at `index` of the current batch, as it was read, with its error."""
        topic, partition = self.partition
        metadata = RecordMetadata(topic, partition, self._offsets[index])
        return FailedInputRecord(self._task_id, metadata, node, *self.raw_at(index), error)

    def polled_failed(self, node: str, error: Exception) -> FailedInputRecord:
        """The record that `poll` gave last, as it was read, with its error."""
        return self.failed(self._index - 1, node, error)

    # --- for a fused loop, which reads the columns itself

    @property
    def has_head(self) -> bool:
        """Whether the next record was read already."""
        return self._head is not None

    @property
    def source(self) -> SourceRunner:
        return self._source

    @property
    def readers(self) -> tuple[Callable[[bytes], Any] | None, Callable[[bytes], Any] | None]:
        """What reads a key and a value; None for bytes that stay bytes."""
        return self._deserialize_key, self._deserialize_value

    def columns(self, most: int) -> QueuedColumns | None:
        """The next records of the batch that is read, `most` of them at most. None: `poll` has to give the next one."""
        if self._head is not None:
            return None
        if self._index == self._length:
            if not self._batches:
                return None
            self._take(self._batches.popleft())
        if self._headers is not None:
            return None
        stop = min(self._length, self._index + most)
        return QueuedColumns(self._keys, self._values, self._timestamps, self._offsets, self._index, stop)

    def count_before(self, limit_ms: int | None, most: int) -> int:
        """How many of the next records behind the head, in the batch that is read, have a timestamp below the limit.

        None: no limit. 0 where `columns` gives nothing.
        """
        if self._headers is not None:
            return 0
        stop = min(self._length, self._index + most)
        if limit_ms is None:
            return stop - self._index
        return sum(1 for _ in takewhile(limit_ms.__gt__, self._timestamps[self._index : stop]))

    def polled(self, index: int) -> None:
        """The record at `index` of the batch counts as polled."""
        self._index = index + 1

    def passed(self, columns: QueuedColumns, stop: int) -> None:
        """The records of `columns` up to `stop` were handed out."""
        self._index = stop
        if stop > columns.start:
            self.partition_time_ms = max(self.partition_time_ms, *columns.timestamps_ms[columns.start : stop])

    def record_at(self, columns: QueuedColumns, index: int) -> Record[Any, Any]:
        """A record that can be read, as `poll` would have given it."""
        key: Any = columns.keys[index]
        value: Any = columns.values[index]
        if key is not None and self._deserialize_key is not None:
            key = self._deserialize_key(key)
        if value is not None and self._deserialize_value is not None:
            value = self._deserialize_value(value)
        return Record(key, value, columns.timestamps_ms[index], _NONE)

    def unreadable(self, index: int, error: Exception) -> None:
        """The record at `index` goes to the handler. Raises as `poll` does; the record stays in the queue then."""
        self._index = index
        self._on_failure(self.failed(index, self._source.name, error))
        self._index = index + 1

    # --- inside

    def _read(self) -> Record[Any, Any] | None:
        """The next good record. Bad ones are dropped, unless the handler says otherwise."""
        while True:
            index = self._index
            if index == self._length:
                if not self._batches:
                    return None
                self._take(self._batches.popleft())
                index = 0
            key: Any = self._keys[index]
            value: Any = self._values[index]
            timestamp_ms = self._timestamps[index]
            headers = _NONE if self._headers is None else self._headers[index]
            try:
                if key is not None and self._deserialize_key is not None:
                    key = self._deserialize_key(key)
                if value is not None and self._deserialize_value is not None:
                    value = self._deserialize_value(value)
                if self._extract_timestamp is not None:
                    read: Record[Any, Any] = Record(key, value, timestamp_ms, headers)
                    timestamp_ms = self._extracted(read, index)
            except Exception as error:
                self._on_failure(self.failed(index, self._source.name, error))
                self._index = index + 1
                continue
            self._index = index + 1
            if timestamp_ms >= 0:
                return _new_record(Record, (key, value, timestamp_ms, headers))
            self.drop(index, timestamp_ms)

    def _extracted(self, record: Record[Any, Any], index: int) -> int:
        """Negative ones as well: they are dropped. Raises ValueError for what is no timestamp."""
        assert self._extract_timestamp is not None
        timestamp_ms = self._extract_timestamp(record, self.partition_time_ms)
        if type(timestamp_ms) is not int or timestamp_ms > LATEST_MS:
            try:
                timestamp_ms = record_timestamp(timestamp_ms)
            except ValueError as error:
                raise ValueError(f"the timestamp extractor's result: the record {error}") from None
        if unit := likely_unit(timestamp_ms):
            self._losses.suspect_timestamp(self.partition, self._offsets[index], timestamp_ms, unit)
        return timestamp_ms

    def _look_for_other_units(self) -> None:
        """Of a batch, only the least and the greatest timestamp: this is on the way of all records."""
        for timestamp_ms in (min(self._timestamps), max(self._timestamps)):
            if unit := likely_unit(timestamp_ms):
                offset = self._offsets[self._timestamps.index(timestamp_ms)]
                self._losses.suspect_timestamp(self.partition, offset, timestamp_ms, unit)

    def _take(self, batch: RecordBatch) -> None:
        self._offsets = batch.offsets
        self._timestamps = batch.timestamps_ms
        self._keys = batch.keys
        self._values = batch.values
        self._headers = batch.headers
        self._length = len(batch)
        self._backlog -= self._length
        self._index = 0
        if self._extract_timestamp is None:
            self._look_for_other_units()

    def drop(self, index: int, timestamp_ms: int) -> None:
        """Count and log the record at `index`, which has a negative timestamp."""
        _logger.log(
            self._losses.log_level(DropReason.NEGATIVE_TIMESTAMP, self.partition.topic),
            "task %s drops a record with the negative timestamp %d: topic=%s, partition=%d, offset=%d",
            self._task_id,
            timestamp_ms,
            *self.partition,
            self._offsets[index],
            extra=TOLD_AS_NOTICE,
        )
