"""Stores the polled input records of one partition, and passes them to the source node of the task.

A queue stores polled batches unchanged, as columns of bytes. A queue deserialises a record just before the record is
processed, or when `PartitionGroup` asks for the timestamp of the next record. `deliver` processes a run: consecutive
records of the partition. The partition time of a queue is the highest timestamp of its processed records, or -1 before
the first record. A timestamp extractor gets the partition time as an argument. A record that cannot be read goes to the
handler of deserialization errors. A record with a negative timestamp is dropped. Unreadable records and dropped records
count as consumed.

Source: `RecordQueue`, `RecordDeserializer`. Differs from Kafka: an error of a timestamp extractor goes to the
deserialization handler.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Protocol

from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition
from streams_runtime.common.losses import DropReason, TaskLosses, uncounted
from streams_runtime.common.notices import ALREADY_A_NOTICE
from streams_runtime.common.records import (
    LATEST_MS,
    BytesColumn,
    Headers,
    RawRecord,
    Record,
    RecordMetadata,
    record_timestamp,
)
from streams_runtime.logs.base import RecordBatch
from streams_runtime.processors.api import FailedRecord
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.serdes import BytesSerde, serde_for_topic

UNKNOWN_TIME = -1
"""Stream time and partition time before the first record."""

_CENTURY_S = 946_684_800, 4_102_444_800
"""The first second of the year 2000 and of the year 2100, in seconds since the epoch. If a time of this century is in a
unit of `_UNITS` but is read as milliseconds, the result is outside this century.
"""

_UNITS = (("seconds", 1), ("microseconds", 1_000_000), ("nanoseconds", 1_000_000_000))

_MOST_ROWS = 1_000
"""The largest number of records in a slice of a batch. The columns are sliced again after each unreadable record, and
larger slices would take longer to copy.
"""

_logger = logging.getLogger(__name__)


class TaskTime(Protocol):
    """Has the stream time of the task: the highest processed timestamp, or -1 before the first record."""

    stream_time_ms: int


_Row = tuple[Any, Any, int, Headers]
"""A record as a tuple: its key, value, timestamp and headers."""

_EMPTY: tuple[()] = ()
_new_tuple = tuple.__new__
"""Makes a named tuple. A call of the tuple's class would take twice as long."""


class RecordQueue:
    """The records of one input partition that the task has not processed yet.

    `on_failure`: a function for records that cannot be read. If `on_failure` returns, the queue drops the record. If
    `on_failure` raises an error, the record stays in the queue. `losses`: the object that counts records with a
    negative timestamp. The current batch is the batch from which the queue reads. `place`: the index of the next record
    in the current batch. While a record is processed, `place` is already the index after this record. `offsets`: the
    offsets of the current batch. `handed_out`: the number of records that `deliver` has passed to the receiver.
    """

    def __init__(
        self,
        task_id: TaskId,
        partition: TopicPartition,
        source: SourceRunner,
        on_failure: Callable[[FailedRecord], None],
        losses: TaskLosses | None = None,
    ) -> None:
        self.partition = partition
        self.source = source
        self.topic_bytes = len(partition.topic)
        self.handed_out = 0
        self._task_id = task_id
        self._on_failure = on_failure
        self._losses = losses or uncounted(task_id)
        self._extract_timestamp = source.settings.timestamp_extractor
        # The functions for keys and for values. None before the first record.
        self._deserializers: tuple[Callable[[bytes], Any] | None, ...] | None = None
        self._batches: deque[RecordBatch] = deque()
        self.clear()

    def clear(self) -> None:
        """Forget all records and the partition time."""
        self._batches.clear()
        self._backlog = 0  # The number of records in the batches after the current batch.
        self.offsets: Sequence[int] = _EMPTY
        self._timestamps: Sequence[int] = _EMPTY
        self._keys: BytesColumn = _EMPTY
        self._values: BytesColumn = _EMPTY
        self._headers: Sequence[Headers] | None = None
        self._length = 0
        self.place = self._run_start = 0
        self._head: _Row | None = None  # The record at `place`, if it was already deserialised.
        self._rows: Iterator[_Row] | None = None  # Reads the records after `_head`. None until `_rows_from` is called.
        self.partition_time_ms = self._time_before_ms = UNKNOWN_TIME

    def __len__(self) -> int:
        return self._backlog + self._length - self.place

    def add(self, batch: RecordBatch) -> int:
        """Append a batch. Returns the number of records in the queue."""
        self._batches.append(batch)
        self._backlog += len(batch.offsets)
        return len(self)

    def poll(self) -> Record[Any, Any] | None:
        """Removes the next record and returns it. Returns None if there is no record. If `on_failure` raises an error,
        raises this error, and the record stays in the queue.
        """
        head, self._head = self._read_head(), None
        if head is None:
            return None
        self.place += 1
        self.partition_time_ms = max(self.partition_time_ms, head[2])
        return Record(*head)

    def deliver(
        self,
        max_records: int,
        time: TaskTime,
        on_error: Callable[[RecordQueue, Exception], None],
        until_ms: int = JAVA_LONG_MAX,
    ) -> None:
        """Pass the next run of at most `max_records` records to the receiver of the source node. A run ends at the end
        of the batch. A run also ends before a record that is unreadable or has a negative timestamp. A run also ends
        after the first record with the timestamp `until_ms` or a later timestamp.

        `time`: the object that stores the stream time. The records advance this time. `on_error`: a function that is
        called if the receiver raises an error for the record at `place`. If `on_error` returns, the record is skipped.
        If `on_error` raises an error, the record stays in the queue as the next record, and `deliver` raises this
        error. `deliver` also raises the errors of `on_failure`.
        """
        row, self._head = self._read_head(), None
        if row is None:
            return
        receive = self.source.receiver
        rows, self._rows = self._rows, None
        assert rows is not None, "`_read_head` has read the head from `_rows`"
        first = done = place = self._run_start = self.place
        last = first + max_records
        self._time_before_ms = partition_time_ms = self.partition_time_ms
        stream_time_ms = time.stream_time_ms
        try:
            while row is not None:
                key, value, timestamp_ms, headers = row
                if timestamp_ms > partition_time_ms:
                    self.partition_time_ms = partition_time_ms = timestamp_ms
                    if timestamp_ms > stream_time_ms:
                        time.stream_time_ms = stream_time_ms = timestamp_ms
                elif timestamp_ms < 0:
                    return  # the next run begins with this record
                self.place = place = done + 1
                try:
                    receive(key, value, timestamp_ms, headers)
                except Exception as error:
                    self.place = done
                    on_error(self, error)
                    self.place = place
                except BaseException:
                    self.place = done
                    raise
                done = place
                if place == last or timestamp_ms >= until_ms:
                    self._rows = rows  # the next run continues with this iterator
                    return
                row = next(rows, None)
        except Exception:
            if place != done:
                raise  # The error comes from `on_error`.
            # The record at `place` cannot be read, so the next run begins with this record.
        finally:
            self.handed_out += done - first

    def rewind_run(self) -> None:
        """Put the records of the last run back into the queue, so that they are processed again."""
        self.handed_out -= self.place - self._run_start
        self.place = self._run_start
        self._rows = None
        self.partition_time_ms = self._time_before_ms

    def head_timestamp_ms(self) -> int | None:
        """Returns the timestamp of the next record, or None if the queue is empty. Deserialises the record, so it
        raises the errors of `poll`.
        """
        head = self._read_head()
        return None if head is None else head[2]

    def next_offset(self) -> int | None:
        """Returns the offset of the next record, or None if the queue is empty."""
        if self.place < self._length:
            return self.offsets[self.place]
        return self._batches[0].offsets[0] if self._batches else None

    def list_offsets(self) -> list[int]:
        """Convert `offsets` from a range to a list. A range creates an int at each access, so a list is faster for a
        caller that reads single offsets.
        """
        offsets = self.offsets = list(self.offsets)
        return offsets

    @property
    def polled_place(self) -> int:
        """The index in the current batch of the record that was processed last. The value is only valid until the next
        record is processed.
        """
        return self.place - 1

    def polled_metadata(self) -> RecordMetadata:
        """Returns the metadata of the record that was processed last. Call this method before the next record is read
        or processed.
        """
        topic, partition = self.partition
        return _new_tuple(RecordMetadata, (topic, partition, self.offsets[self.place - 1]))

    def polled_headers(self) -> Headers:
        """Returns the headers of the record that was processed last. Call this method before the next record is read or
        processed.
        """
        return _EMPTY if self._headers is None else self._headers[self.place - 1]

    def polled_raw(self) -> RawRecord:
        """Returns the bytes of the record that was processed last. Call this method before the next record is read or
        processed.
        """
        return self._raw_at(self.place - 1)

    def failed(self, place: int, node: str, error: Exception) -> FailedRecord:
        """Returns a FailedRecord with the bytes of the record at this place of the current batch."""
        topic, partition = self.partition
        metadata = RecordMetadata(topic, partition, self.offsets[place])
        return FailedRecord(self._task_id, metadata, node, *self._raw_at(place), error)

    def count_before(self, limit_ms: int | None, max_records: int) -> int:
        """Counts records of the current batch, from the second unprocessed record on. The count ends before a record
        with the timestamp `limit_ms` or a later timestamp. Counts at most `max_records`. If `limit_ms` is None, records
        with any timestamp are counted.

        Returns 0 if the source has a timestamp extractor, because these timestamps are only known after the records
        were deserialised.
        """
        if self._extract_timestamp is not None:
            return 0
        place = start = self.place + 1
        stop = min(self._length, start + max_records)
        if limit_ms is None:
            return stop - start
        timestamps_ms = self._timestamps
        while place < stop and timestamps_ms[place] < limit_ms:
            place += 1
        return place - start

    # --- inside

    def _raw_at(self, place: int) -> RawRecord:
        headers = _EMPTY if self._headers is None else self._headers[place]
        return RawRecord(self._keys[place], self._values[place], headers, self._timestamps[place])

    def _read_head(self) -> _Row | None:
        """Returns the next valid record, and leaves it in the queue. Returns None if the queue has no valid record.
        Drops the invalid records before this record. An invalid record is unreadable or has a negative timestamp.
        Raises the errors of `on_failure` for an unreadable record.
        """
        while self._head is None:
            if self.place == self._length:
                if not self._batches:
                    return None
                self._begin_batch(self._batches.popleft())
            rows, self._rows = self._rows or self._rows_from(self.place), None
            try:
                head = next(rows, None)
            except Exception as error:
                self._on_failure(self.failed(self.place, self.source.name, error))
                self.place += 1
                continue
            if head is None:
                continue  # the next slice begins at `place`
            if head[2] < 0:
                self._drop(self.place, head[2])
                self.place += 1
            else:
                self._head = head
            self._rows = rows
        return self._head

    def _rows_from(self, first: int) -> Iterator[_Row]:
        """Returns an iterator over the next `_MOST_ROWS` records of the current batch, from the index `first` on. Do
        not use the iterator any more after it has raised an error.
        """
        stop = min(first + _MOST_ROWS, self._length)
        if self._deserializers is None:  # the source has checked by now that no serde is missing
            topic, settings = self.partition.topic, self.source.settings
            keys = serde_for_topic(settings.key_serde, topic, is_key=True)
            values = serde_for_topic(settings.value_serde, topic, is_key=False)
            # a `BytesSerde` would return the bytes unchanged, so nothing is called
            self._deserializers = tuple(
                None if isinstance(each, BytesSerde) else each.deserialize for each in (keys, values)
            )
        rows: Iterator[_Row] = zip(
            _deserialized(self._deserializers[0], self._keys[first:stop]),
            _deserialized(self._deserializers[1], self._values[first:stop]),
            self._timestamps[first:stop],
            repeat(_EMPTY) if self._headers is None else self._headers[first:stop],
            strict=False,
        )
        return rows if self._extract_timestamp is None else self._with_extracted_times(rows, first)

    def _with_extracted_times(self, rows: Iterator[_Row], first: int) -> Iterator[_Row]:
        """Replaces the timestamp of each record by the result of the timestamp extractor. The callers drop records with
        negative timestamps. Raises ValueError if a result of the extractor cannot be a timestamp.
        """
        assert self._extract_timestamp is not None
        for place, (key, value, own_ms, headers) in enumerate(rows, first):
            timestamp_ms = self._extract_timestamp(Record(key, value, own_ms, headers), self.partition_time_ms)
            if type(timestamp_ms) is not int or timestamp_ms > LATEST_MS:
                try:
                    timestamp_ms = record_timestamp(timestamp_ms)
                except ValueError as error:
                    raise ValueError(f"the timestamp extractor's result: the record {error}") from None
            if unit := likely_unit(timestamp_ms):
                self._losses.suspect_timestamp(self.partition, self.offsets[place], timestamp_ms, unit)
            yield key, value, timestamp_ms, headers

    def _report_other_units(self) -> None:
        """Report timestamps that are probably not in milliseconds. To save time, only the lowest and the highest
        timestamp of the batch are checked.
        """
        for timestamp_ms in (min(self._timestamps), max(self._timestamps)):
            if unit := likely_unit(timestamp_ms):
                offset = self.offsets[self._timestamps.index(timestamp_ms)]
                self._losses.suspect_timestamp(self.partition, offset, timestamp_ms, unit)

    def _begin_batch(self, batch: RecordBatch) -> None:
        self.offsets = batch.offsets
        self._timestamps = batch.timestamps_ms
        self._keys = batch.keys
        self._values = batch.values
        self._headers = batch.headers
        self._length = len(batch.offsets)
        self._backlog -= self._length
        self.place = 0
        self._rows = None
        if self._extract_timestamp is None:
            self._report_other_units()

    def _drop(self, place: int, timestamp_ms: int) -> None:
        """Count and log the record at this index, which has a negative timestamp."""
        _logger.log(
            self._losses.log_level(DropReason.NEGATIVE_TIMESTAMP, self.partition.topic),
            "task %s drops a record with the negative timestamp %d: topic=%s, partition=%d, offset=%d",
            self._task_id,
            timestamp_ms,
            *self.partition,
            self.offsets[place],
            extra=ALREADY_A_NOTICE,
        )


def _deserialized(deserialize: Callable[[bytes], Any] | None, cells: BytesColumn) -> Iterable[Any]:
    if deserialize is None:
        return cells
    # `map` is twice as fast, but it would pass None to the deserializer.
    if all(cells):
        return map(deserialize, cells)  # type: ignore[arg-type]
    return (None if cell is None else deserialize(cell) for cell in cells)


def likely_unit(timestamp_ms: int) -> str | None:
    """Finds a unit of `_UNITS` in which this timestamp lies in the years 2000 to 2099. Returns None if no unit fits."""
    for unit, units_per_second in _UNITS:
        if _CENTURY_S[0] * units_per_second <= timestamp_ms < _CENTURY_S[1] * units_per_second:
            return unit
    return None
