"""The records of one input partition that were polled but not processed yet.

Rules: the queue keeps batches as they were polled, as columns of bytes. It deserialises a record when its turn comes
(or, with several partitions, when its timestamp is needed to choose the next partition). It hands out records in runs;
a run is consecutive records of one batch. Partition time is the highest timestamp handed out, -1 before the first;
timestamp extractors get it. A record that cannot be read goes to the handler of deserialization errors. A record with a
negative timestamp is dropped. Both count as consumed. Source: `RecordQueue`, `RecordDeserializer`.

Differs from Kafka: no record is read before its turn, so a broken record cannot stop earlier records. An error of a
timestamp extractor goes to the same handler as an error of a serde.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat, takewhile
from typing import Any, Protocol

from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition
from streams_runtime.common.records import LATEST_MS, Headers, RawRecord, Record, RecordMetadata, record_timestamp
from streams_runtime.logs.base import RecordBatch
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.reporting.losses import TOLD_AS_NOTICE, DropReason, TaskLosses, uncounted
from streams_runtime.serdes import BytesSerde, serde_for_topic
from streams_runtime.tasks.exception_handling import FailedInputRecord

UNKNOWN_TIME = -1
"""Stream time and partition time before the first record."""

_CENTURY_S = 946_684_800, 4_102_444_800
"""Begin and end of the years 2000 to 2099. A time of these years in one of the other units, taken as milliseconds, is
outside of them."""

_UNITS = (("seconds", 1), ("microseconds", 1_000_000), ("nanoseconds", 1_000_000_000))

_MOST_ROWS = 1_000
"""Columns of a batch are sliced again behind each record that cannot be read, so a slice has no more rows than this."""

_logger = logging.getLogger(__name__)


class TaskTime(Protocol):
    """Stream time of the task: the highest timestamp that it has processed, -1 before the first record."""

    stream_time_ms: int


_Row = tuple[int, Any, Any, int, Headers]
"""The place (index in the batch) behind a record, then its key, value, timestamp and headers."""

_EMPTY: tuple[()] = ()
_new_tuple = tuple.__new__
"""Takes half of the time of a call of the class."""


class RecordQueue:
    """`on_failure` gets each record that cannot be read; it raises, or returns to have the record dropped.

    `losses`: counts records with a negative timestamp. The current batch is the one that the queue reads from.
    `place`: the index in the current batch of the next record to hand out; while a record is handed out, the index
    behind it. `offsets`: the offsets of the current batch. `handed_out`: the number of records that `deliver` has
    handed out so far.
    """

    __slots__ = (
        "_backlog",
        "_batches",
        "_deserialize_key",
        "_deserialize_value",
        "_extract_timestamp",
        "_head",
        "_headers",
        "_keys",
        "_length",
        "_losses",
        "_on_failure",
        "_rows",
        "_run_start",
        "_task_id",
        "_time_before_ms",
        "_timestamps",
        "_values",
        "handed_out",
        "offsets",
        "partition",
        "partition_time_ms",
        "place",
        "source",
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
        self.source = source
        self.handed_out = 0
        self._task_id = task_id
        self._losses = losses or uncounted(task_id)
        self._on_failure = on_failure
        # None saves a call per record: `BytesSerde` returns the bytes as they are
        keys = serde_for_topic(source.key_serde, partition.topic, is_key=True)
        values = serde_for_topic(source.value_serde, partition.topic, is_key=False)
        self._deserialize_key = None if isinstance(keys, BytesSerde) else keys.deserialize
        self._deserialize_value = None if isinstance(values, BytesSerde) else values.deserialize
        self._extract_timestamp = source.timestamp_extractor
        self._batches: deque[RecordBatch] = deque()
        self.clear()

    def clear(self) -> None:
        """Forget all records and the partition time."""
        self._batches.clear()
        self._backlog = 0  # records in the batches after the current one
        self.offsets: Sequence[int] = _EMPTY
        self._timestamps: Sequence[int] = _EMPTY
        self._keys: Sequence[bytes | None] = _EMPTY
        self._values: Sequence[bytes | None] = _EMPTY
        self._headers: Sequence[Headers] | None = None
        self._length = 0
        self.place = self._run_start = 0
        self._head: _Row | None = None  # the record at `place`, if it was read before its turn
        self._rows: Iterator[_Row] | None = None  # reads the records behind the head; None: `_rows_from(place)` does
        self.partition_time_ms = self._time_before_ms = UNKNOWN_TIME

    def __len__(self) -> int:
        return self._backlog + self._length - self.place

    def add(self, batch: RecordBatch) -> int:
        """Append a batch. Returns the number of records in the queue."""
        self._batches.append(batch)
        self._backlog += len(batch.offsets)
        return len(self)

    def poll(self) -> Record[Any, Any] | None:
        """Take the next record; None if there is none. Raises as `on_failure` does; then the record is not taken."""
        head, self._head = self._read_head(), None
        if head is None:
            return None
        self.place, key, value, timestamp_ms, headers = head
        self.partition_time_ms = max(self.partition_time_ms, timestamp_ms)
        return Record(key, value, timestamp_ms, headers)

    def deliver(
        self,
        max_records: int,
        time: TaskTime,
        on_error: Callable[[RecordQueue, Exception], None],
        until_ms: int = JAVA_LONG_MAX,
    ) -> None:
        """Hand the next run of records, at most `max_records`, to the source's receiver. The run ends with the batch,
        before a record that cannot be read or is dropped, and after the first record that reaches `until_ms`.

        `time`: its stream time is raised by the records. `on_error`: gets an error that the receiver raises for the
        record at `place`. It returns if the task may go on without the record; else it raises, and the record stays the
        next one. Raises as `on_failure` and `on_error` do.
        """
        head, self._head = self._read_head(), None
        if head is None:
            return
        receive = self.source.receiver
        rows, self._rows = self._rows, None
        first = done = place = self._run_start = self.place
        last = first + max_records
        self._time_before_ms = partition_time_ms = self.partition_time_ms
        stream_time_ms = time.stream_time_ms
        try:
            for place, key, value, timestamp_ms, headers in chain((head,), rows or _EMPTY):
                if timestamp_ms > partition_time_ms:
                    self.partition_time_ms = partition_time_ms = timestamp_ms
                    if timestamp_ms > stream_time_ms:
                        time.stream_time_ms = stream_time_ms = timestamp_ms
                elif timestamp_ms < 0:
                    return  # the next run begins with this record
                self.place = place
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
                    self._rows = rows
                    return
        except Exception:
            if place != done:
                raise
            # the record at `place` cannot be read: the next run begins with it
        finally:
            self.handed_out += done - first

    def rewind_run(self) -> None:
        """Put the records of the last run back, so that the next run begins with the first of them."""
        self.handed_out -= self.place - self._run_start
        self.place = self._run_start
        self._rows = None
        self.partition_time_ms = self._time_before_ms

    def head_timestamp_ms(self) -> int | None:
        """The timestamp of the next record; None if there is none. Reads the record, and raises as `poll` does."""
        head = self._read_head()
        return None if head is None else head[3]

    def next_offset(self) -> int | None:
        """The offset of the first record that was not handed out; None if the queue is empty."""
        if self.place < self._length:
            return self.offsets[self.place]
        return self._batches[0].offsets[0] if self._batches else None

    @property
    def polled_place(self) -> int:
        """The index, in its batch, of the record that was handed out last; valid until the next one is handed out."""
        return self.place - 1

    def polled_metadata(self) -> RecordMetadata:
        """The metadata of the record that was handed out last; valid until the next record is handed out or read."""
        topic, partition = self.partition
        return _new_tuple(RecordMetadata, (topic, partition, self.offsets[self.place - 1]))

    def polled_headers(self) -> Headers:
        """The headers of the record that was handed out last; valid as `polled_metadata` is."""
        return _EMPTY if self._headers is None else self._headers[self.place - 1]

    def polled_raw(self) -> RawRecord:
        """The record that was handed out last, not deserialised; valid as `polled_metadata` is."""
        return self._raw_at(self.place - 1)

    def failed(self, place: int, node: str, error: Exception) -> FailedInputRecord:
        """The record at this place of the current batch, not deserialised, with its error."""
        topic, partition = self.partition
        metadata = RecordMetadata(topic, partition, self.offsets[place])
        return FailedInputRecord(self._task_id, metadata, node, *self._raw_at(place), error)

    def count_before(self, limit_ms: int | None, max_records: int) -> int:
        """Count the records after the next one that follow each other in the current batch with timestamps below
        `limit_ms` (None: with any timestamp), up to `max_records`.

        Returns 0 if a timestamp extractor gives the timestamps: the records would have to be read for it.
        """
        if self._extract_timestamp is not None:
            return 0
        start = self.place + 1
        stop = min(self._length, start + max_records)
        if limit_ms is None:
            return stop - start
        return sum(1 for _ in takewhile(lambda time_ms: time_ms < limit_ms, self._timestamps[start:stop]))

    # --- inside

    def _raw_at(self, place: int) -> RawRecord:
        headers = _EMPTY if self._headers is None else self._headers[place]
        return RawRecord(self._keys[place], self._values[place], headers, self._timestamps[place])

    def _read_head(self) -> _Row | None:
        """The next record that can be processed, which stays in the queue; None if there is none. Drops bad records
        before it: those with a negative timestamp, and those that cannot be read unless `on_failure` raises.
        """
        while self._head is None:
            if self.place == self._length:
                if not self._batches:
                    return None
                self._begin_batch(self._batches.popleft())
            rows, self._rows = self._rows or self._rows_from(self.place), None
            try:
                head = next(rows)
            except StopIteration:
                continue
            except Exception as error:
                self._on_failure(self.failed(self.place, self.source.name, error))
                self.place += 1
                continue
            if head[3] < 0:
                self._drop(self.place, head[3])
                self.place += 1
            else:
                self._head = head
            self._rows = rows
        return self._head

    def _rows_from(self, first: int) -> Iterator[_Row]:
        """Reads the next `_MOST_ROWS` records of the current batch lazily, from this place on. Cannot be used after it
        has raised.
        """
        stop = min(first + _MOST_ROWS, self._length)
        rows: Iterator[_Row] = zip(
            range(first + 1, stop + 1),
            _deserialized(self._deserialize_key, self._keys[first:stop]),
            _deserialized(self._deserialize_value, self._values[first:stop]),
            self._timestamps[first:stop],
            repeat(_EMPTY) if self._headers is None else self._headers[first:stop],
            strict=False,
        )
        return rows if self._extract_timestamp is None else self._with_extracted_times(rows)

    def _with_extracted_times(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        """Replaces the records' timestamps by the extractor's. Gives negative timestamps too; the callers drop those
        records. Raises ValueError for a result that is no timestamp.
        """
        assert self._extract_timestamp is not None
        for place, key, value, own_ms, headers in rows:
            timestamp_ms = self._extract_timestamp(Record(key, value, own_ms, headers), self.partition_time_ms)
            if type(timestamp_ms) is not int or timestamp_ms > LATEST_MS:
                try:
                    timestamp_ms = record_timestamp(timestamp_ms)
                except ValueError as error:
                    raise ValueError(f"the timestamp extractor's result: the record {error}") from None
            if unit := likely_unit(timestamp_ms):
                self._losses.suspect_timestamp(self.partition, self.offsets[place - 1], timestamp_ms, unit)
            yield place, key, value, timestamp_ms, headers

    def _report_other_units(self) -> None:
        """Report timestamps that are likely not in milliseconds. Checks only the least and the greatest timestamp of
        the batch, to save time: all records pass here.
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
        """Count and log the record at this place, which has a negative timestamp."""
        _logger.log(
            self._losses.log_level(DropReason.NEGATIVE_TIMESTAMP, self.partition.topic),
            "task %s drops a record with the negative timestamp %d: topic=%s, partition=%d, offset=%d",
            self._task_id,
            timestamp_ms,
            *self.partition,
            self.offsets[place],
            extra=TOLD_AS_NOTICE,
        )


def _deserialized(deserialize: Callable[[bytes], Any] | None, cells: Sequence[bytes | None]) -> Iterable[Any]:
    if deserialize is None:
        return cells
    if all(cells):  # without None and without empty bytes, `map` can be used: it takes half of the time
        return map(deserialize, cells)  # type: ignore[arg-type]
    return (None if cell is None else deserialize(cell) for cell in cells)


def likely_unit(timestamp_ms: int) -> str | None:
    """The unit other than milliseconds in which this timestamp is a time in the years 2000 to 2099; None if none is."""
    for unit, units_per_second in _UNITS:
        if _CENTURY_S[0] * units_per_second <= timestamp_ms < _CENTURY_S[1] * units_per_second:
            return unit
    return None
