"""The records of one input partition that were polled but not processed yet.

Rules: the queue keeps batches as they came, as columns of bytes. It deserialises a record when its turn comes (or, with
several partitions, when its timestamp is needed to choose), and hands out the records of a run: consecutive ones of a
batch. Partition time is the highest timestamp handed out, -1
before the first; timestamp extractors get it. A record that cannot be read goes to the handler, one with a negative
timestamp is dropped; both count as consumed. Source: `RecordQueue`, `RecordDeserializer`.

Differs from Kafka: no record is read before its turn, so a broken record cannot stop those before it. An error of a
timestamp extractor goes to the handler, as that of a serde does.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, takewhile
from typing import Any, Protocol

from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition
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
from streams_runtime.processors.source_node import SourceRunner
from streams_runtime.reporting.losses import TOLD_AS_NOTICE, DropReason, TaskLosses, uncounted
from streams_runtime.serdes import BytesSerde, serde_for_topic
from streams_runtime.tasks.exception_handling import FailedInputRecord
from streams_runtime.tasks.offset_metadata import UNKNOWN_TIME

_logger = logging.getLogger(__name__)


class TaskTime(Protocol):
    """Stream time of the task: the highest timestamp that it has processed, -1 before the first record."""

    stream_time_ms: int


_Read = tuple[Any, Any, int, Headers]
"""What a `Record` is made of."""

_NONE: tuple[()] = ()
_new_tuple = tuple.__new__
"""Half of the time that a call of the class takes."""


class RecordQueue:
    """`on_failure` gets each record that cannot be read; it raises, or lets the record be dropped.

    `losses`: counts those with a negative timestamp. `place`: of the next record, in the batch that is read.
    `handed_out`: how many records `deliver` has handed out so far.
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
        "_offsets",
        "_on_failure",
        "_run_start",
        "_source",
        "_task_id",
        "_time_before_ms",
        "_timestamps",
        "_values",
        "handed_out",
        "partition",
        "partition_time_ms",
        "place",
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
        self.partition_time_ms = UNKNOWN_TIME
        self.handed_out = 0
        self._task_id = task_id
        self._losses = losses or uncounted(task_id)
        self._source = source
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
        self._offsets: Sequence[int] = _NONE
        self._timestamps: Sequence[int] = _NONE
        self._keys: Sequence[bytes | None] = _NONE
        self._values: Sequence[bytes | None] = _NONE
        self._headers: Sequence[Headers] | None = None
        self._length = 0
        self.place = self._run_start = 0
        self._time_before_ms = UNKNOWN_TIME
        self._head: Record[Any, Any] | None = None
        self.partition_time_ms = UNKNOWN_TIME

    def __len__(self) -> int:
        return self._backlog + self._length - self.place + (self._head is not None)

    def add(self, batch: RecordBatch) -> None:
        self._batches.append(batch)
        self._backlog += len(batch)

    def poll(self) -> Record[Any, Any] | None:
        """The next record; None when there is none. Raises as `on_failure` does; the record stays in the queue then."""
        record, self._head = self._head, None
        if record is None:
            record = self._read_one()
        if record is not None and record[2] > self.partition_time_ms:
            self.partition_time_ms = record[2]
        return record

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
        receive = self._source.receiver
        self._time_before_ms = self.partition_time_ms
        stream_time_ms, partition_time_ms = time.stream_time_ms, self.partition_time_ms
        count = 0
        try:
            for key, value, timestamp_ms, headers in self._run(most):
                if timestamp_ms > partition_time_ms:
                    self.partition_time_ms = partition_time_ms = timestamp_ms
                    if timestamp_ms > stream_time_ms:
                        time.stream_time_ms = stream_time_ms = timestamp_ms
                try:
                    receive(key, value, timestamp_ms, headers)
                except Exception as error:
                    self.place -= 1
                    on_error(self, error)
                    self.place += 1
                except BaseException:
                    self.place -= 1
                    raise
                count += 1
                if timestamp_ms >= until_ms:
                    break
        finally:
            self.handed_out += count

    def take_run_back(self) -> None:
        """The records of the last run are the next ones again."""
        self.handed_out -= self.place - self._run_start
        self.place = self._run_start
        self.partition_time_ms = self._time_before_ms

    def head_timestamp_ms(self) -> int | None:
        """The timestamp of the next record, which is read for it; None when there is none. Raises as `poll` does."""
        if self._head is None:
            self._head = self._read_one()
        return None if self._head is None else self._head[2]

    def next_offset(self) -> int | None:
        """The offset of the first record that `poll` has not given; None when the queue is empty."""
        if self._head is not None:
            return self._offsets[self.place - 1]
        if self.place < self._length:
            return self._offsets[self.place]
        return self._batches[0].offsets[0] if self._batches else None

    @property
    def polled_place(self) -> int:
        """The place, in its batch, of the record that was handed out last; valid as long as `polled_metadata`."""
        return self.place - 1

    def polled_metadata(self) -> RecordMetadata:
        """The metadata of the record that was handed out last; valid until the next one, or `head_timestamp_ms`."""
        topic, partition = self.partition
        return _new_tuple(RecordMetadata, (topic, partition, self._offsets[self.place - 1]))

    def polled_offset(self) -> int:
        """The offset of the record that was handed out last; valid as `polled_metadata` is."""
        return self._offsets[self.place - 1]

    def polled_headers(self) -> Headers:
        """The headers of the record that was handed out last; valid as `polled_metadata` is."""
        return _NONE if self._headers is None else self._headers[self.place - 1]

    def polled_raw(self) -> RawRecord:
        """The record that was handed out last, as it was read; valid as `polled_metadata` is."""
        return self._raw_at(self.place - 1)

    def failed(self, place: int, node: str, error: Exception) -> FailedInputRecord:
        """The record at this place of the batch that is read, as it was read, with its error."""
        topic, partition = self.partition
        metadata = RecordMetadata(topic, partition, self._offsets[place])
        return FailedInputRecord(self._task_id, metadata, node, *self._raw_at(place), error)

    @property
    def source(self) -> SourceRunner:
        return self._source

    def count_before(self, limit_ms: int | None, most: int) -> int:
        """How many of the next records behind the head, in the batch that is read, have a timestamp below the limit.

        None: no limit. 0 where the records have to be read to know.
        """
        if self._extract_timestamp is not None:
            return 0
        stop = min(self._length, self.place + most)
        if limit_ms is None:
            return stop - self.place
        return sum(1 for _ in takewhile(limit_ms.__gt__, self._timestamps[self.place : stop]))

    # --- inside

    def _raw_at(self, place: int) -> RawRecord:
        headers = _NONE if self._headers is None else self._headers[place]
        return RawRecord(self._keys[place], self._values[place], headers, self._timestamps[place])

    def _run(self, most: int) -> Iterator[_Read]:
        """The head, if it was read, and the records behind it."""
        head, self._head = self._head, None
        if head is None:
            return self._read(most)
        self._run_start = self.place - 1
        return chain((head,), self._read(most - 1, starts_run=False)) if most > 1 else iter((head,))

    def _read_one(self) -> Record[Any, Any] | None:
        """The next good record. Bad ones are dropped, unless the handler says otherwise."""
        while self._backlog or self.place < self._length:
            for read in self._read(1):
                return _new_tuple(Record, read)
        return None

    def _read(self, most: int, *, starts_run: bool = True) -> Iterator[_Read]:
        """Good records, up to one that is not good. That one is dropped when it starts the run, unless the handler says
        otherwise. `place` is behind the record that was given last.
        """
        if self.place == self._length:
            if not self._batches:
                return
            if not starts_run:  # the head was the last of its batch
                return
            self._take(self._batches.popleft())
        first = self.place
        if starts_run:
            self._run_start = first
        stop = min(self._length, first + most)
        read_key, read_value, all_headers = self._deserialize_key, self._deserialize_value, self._headers
        extract = self._extract_timestamp
        headers: Headers = _NONE
        rows = zip(
            range(first + 1, stop + 1),
            self._keys[first:stop],
            self._values[first:stop],
            self._timestamps[first:stop],
            strict=True,
        )
        key: Any
        value: Any
        for self.place, key, value, timestamp_ms in rows:
            try:
                if read_key is not None and key is not None:
                    key = read_key(key)
                if read_value is not None and value is not None:
                    value = read_value(value)
                if all_headers is not None:
                    headers = all_headers[self.place - 1]
                if extract is not None:
                    timestamp_ms = self._extracted(_new_tuple(Record, (key, value, timestamp_ms, headers)))
            except Exception as error:
                self.place -= 1
                if starts_run and self.place == first:
                    self._on_failure(self.failed(first, self._source.name, error))
                    self.place = self._run_start = first + 1
                return
            if timestamp_ms < 0:
                self.place -= 1
                if starts_run and self.place == first:
                    self._drop(first, timestamp_ms)
                    self.place = self._run_start = first + 1
                return
            yield key, value, timestamp_ms, headers

    def _extracted(self, record: Record[Any, Any]) -> int:
        """Of the record before `place`. Negative ones as well: they are dropped. Raises ValueError for no timestamp."""
        assert self._extract_timestamp is not None
        timestamp_ms = self._extract_timestamp(record, self.partition_time_ms)
        if type(timestamp_ms) is not int or timestamp_ms > LATEST_MS:
            try:
                timestamp_ms = record_timestamp(timestamp_ms)
            except ValueError as error:
                raise ValueError(f"the timestamp extractor's result: the record {error}") from None
        if unit := likely_unit(timestamp_ms):
            self._losses.suspect_timestamp(self.partition, self._offsets[self.place - 1], timestamp_ms, unit)
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
        self.place = 0
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
            self._offsets[place],
            extra=TOLD_AS_NOTICE,
        )
