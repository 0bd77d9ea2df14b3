"""The records of one input partition that were polled but not processed yet.

Rules: the queue keeps batches as they came, as columns of bytes. It deserialises a record when its turn comes (or, with
several partitions, when its timestamp is needed to choose), and hands out the records of a run: consecutive ones of a
batch. Partition time is the highest timestamp handed out, -1 before the first; timestamp extractors get it. A record
that cannot be read goes to the handler, one with a negative timestamp is dropped; both count as consumed. Source:
`RecordQueue`, `RecordDeserializer`.

Differs from Kafka: no record is read before its turn, so a broken record cannot stop those before it. An error of a
timestamp extractor goes to the handler, as that of a serde does.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat, takewhile
from typing import Any, Protocol

from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition
from streams_runtime.common.records import (
    LATEST_MS,
    Headers,
    RawRecord,
    Record,
    RecordMetadata,
    record_timestamp,
)
from streams_runtime.logs.base import RecordBatch
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.reporting.losses import TOLD_AS_NOTICE, DropReason, TaskLosses, uncounted
from streams_runtime.serdes import BytesSerde, serde_for_topic
from streams_runtime.tasks.exception_handling import FailedInputRecord

UNKNOWN_TIME = -1
"""Stream time and partition time before the first record."""

_ERA_S = 946_684_800, 4_102_444_800
"""The years 2000 to 2099. In none of the other units is a time of these years one of them in milliseconds."""

_UNITS = (("seconds", 1), ("microseconds", 1_000_000), ("nanoseconds", 1_000_000_000))

_logger = logging.getLogger(__name__)


class TaskTime(Protocol):
    """Stream time of the task: the highest timestamp that it has processed, -1 before the first record."""

    stream_time_ms: int


_Row = tuple[int, Any, Any, int, Headers]
"""The place behind a record in its batch, then what a `Record` is made of."""

_NONE: tuple[()] = ()
_new_tuple = tuple.__new__
"""Half of the time that a call of the class takes."""


class RecordQueue:
    """`on_failure` gets each record that cannot be read; it raises, or lets the record be dropped.

    `losses`: counts those with a negative timestamp. `place`: in the batch that is read, behind the record that was
    handed out last. `offsets`: of that batch. `handed_out`: how many records `deliver` has handed out so far.
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
        # bytes that stay bytes need no call
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
        self._backlog = 0  # records in batches behind the current one
        self.offsets: Sequence[int] = _NONE
        self._timestamps: Sequence[int] = _NONE
        self._keys: Sequence[bytes | None] = _NONE
        self._values: Sequence[bytes | None] = _NONE
        self._headers: Sequence[Headers] | None = None
        self._length = 0
        self.place = self._run_start = 0
        self._head: _Row | None = None  # the record at `place`, when it was read before its turn
        self._rows: Iterator[_Row] | None = None  # reads what is behind the head; None: has to begin at `place`
        self.partition_time_ms = self._time_before_ms = UNKNOWN_TIME

    def __len__(self) -> int:
        return self._backlog + self._length - self.place

    def add(self, batch: RecordBatch) -> int:
        """How many records there are now."""
        self._batches.append(batch)
        self._backlog += len(batch.offsets)
        return len(self)

    def poll(self) -> Record[Any, Any] | None:
        """The next record; None when there is none. Raises as `on_failure` does; the record stays in the queue then."""
        head, self._head = self._read_head(), None
        if head is None:
            return None
        self.place, key, value, timestamp_ms, headers = head
        self.partition_time_ms = max(self.partition_time_ms, timestamp_ms)
        return Record(key, value, timestamp_ms, headers)

    def deliver(
        self,
        most: int,
        time: TaskTime,
        on_error: Callable[[RecordQueue, Exception], None],
        until_ms: int = JAVA_LONG_MAX,
    ) -> None:
        """Hand the next records, `most` of them at most, to the source's receiver: a run. It ends with the batch,
        before a record that cannot be read or is dropped, and with the first record that reaches `until_ms`.

        `time`: follows the timestamps. `on_error`: gets an error of the record at `place`; it returns when the task may
        go on without the record, else it raises, and the record is the next one again. Raises as `on_failure` and
        `on_error` do.
        """
        head, self._head = self._read_head(), None
        if head is None:
            return
        receive = self.source.receiver
        rows, self._rows = self._rows, None
        first = done = place = self._run_start = self.place
        last = first + most
        self._time_before_ms = partition_time_ms = self.partition_time_ms
        stream_time_ms = time.stream_time_ms
        try:
            for place, key, value, timestamp_ms, headers in chain((head,), rows or _NONE):
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

    def take_run_back(self) -> None:
        """The records of the last run are the next ones again."""
        self.handed_out -= self.place - self._run_start
        self.place = self._run_start
        self._rows = None
        self.partition_time_ms = self._time_before_ms

    def head_timestamp_ms(self) -> int | None:
        """The timestamp of the next record, which is read for it; None when there is none. Raises as `poll` does."""
        head = self._read_head()
        return None if head is None else head[3]

    def next_offset(self) -> int | None:
        """The offset of the first record that was not handed out; None when the queue is empty."""
        if self.place < self._length:
            return self.offsets[self.place]
        return self._batches[0].offsets[0] if self._batches else None

    @property
    def polled_place(self) -> int:
        """The place, in its batch, of the record that was handed out last; valid until the next one."""
        return self.place - 1

    def polled_metadata(self) -> RecordMetadata:
        """The metadata of the record that was handed out last; valid until the next one, or `head_timestamp_ms`."""
        topic, partition = self.partition
        return _new_tuple(RecordMetadata, (topic, partition, self.offsets[self.place - 1]))

    def polled_headers(self) -> Headers:
        """The headers of the record that was handed out last; valid as `polled_metadata` is."""
        return _NONE if self._headers is None else self._headers[self.place - 1]

    def polled_raw(self) -> RawRecord:
        """The record that was handed out last, as it was read; valid as `polled_metadata` is."""
        return self._raw_at(self.place - 1)

    def failed(self, place: int, node: str, error: Exception) -> FailedInputRecord:
        """The record at this place of the batch that is read, as it was read, with its error."""
        topic, partition = self.partition
        metadata = RecordMetadata(topic, partition, self.offsets[place])
        return FailedInputRecord(self._task_id, metadata, node, *self._raw_at(place), error)

    def count_before(self, limit_ms: int | None, most: int) -> int:
        """How many of the next records behind the head, in the batch that is read, have a timestamp below the limit.

        None: no limit. 0 where the records have to be read to know.
        """
        if self._extract_timestamp is not None:
            return 0
        start = self.place + 1
        stop = min(self._length, start + most)
        if limit_ms is None:
            return stop - start
        return sum(1 for _ in takewhile(limit_ms.__gt__, self._timestamps[start:stop]))

    # --- inside

    def _raw_at(self, place: int) -> RawRecord:
        headers = _NONE if self._headers is None else self._headers[place]
        return RawRecord(self._keys[place], self._values[place], headers, self._timestamps[place])

    def _read_head(self) -> _Row | None:
        """The next good record, which stays the next one. Bad ones before it are dropped, unless the handler says
        otherwise.
        """
        while self._head is None:
            if self.place == self._length:
                if not self._batches:
                    return None
                self._take(self._batches.popleft())
            rows, self._rows = self._rows or self._rows_from(self.place), None
            try:
                head = next(rows)
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
        """Reads the records of the batch one by one, each when it is asked for. Useless once it has raised."""
        rows: Iterator[_Row] = zip(
            range(first + 1, self._length + 1),
            _deserialized(self._deserialize_key, self._keys[first:]),
            _deserialized(self._deserialize_value, self._values[first:]),
            self._timestamps[first:],
            repeat(_NONE) if self._headers is None else self._headers[first:],
            strict=False,
        )
        return rows if self._extract_timestamp is None else self._with_extracted_times(rows)

    def _with_extracted_times(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        """Negative ones as well: they are dropped. Raises ValueError for no timestamp."""
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

    def _look_for_other_units(self) -> None:
        """Of a batch, only the least and the greatest timestamp: this is on the way of all records."""
        for timestamp_ms in (min(self._timestamps), max(self._timestamps)):
            if unit := likely_unit(timestamp_ms):
                offset = self.offsets[self._timestamps.index(timestamp_ms)]
                self._losses.suspect_timestamp(self.partition, offset, timestamp_ms, unit)

    def _take(self, batch: RecordBatch) -> None:
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
            self._look_for_other_units()

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
    if all(cells):  # None stays None; `map` takes half of the time
        return map(deserialize, cells)  # type: ignore[arg-type]
    return (None if cell is None else deserialize(cell) for cell in cells)


def likely_unit(timestamp_ms: int) -> str | None:
    """The unit in which this would be a time of this century, which it is not in milliseconds."""
    for unit, in_a_second in _UNITS:
        if _ERA_S[0] * in_a_second <= timestamp_ms < _ERA_S[1] * in_a_second:
            return unit
    return None
