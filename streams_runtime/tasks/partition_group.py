"""Buffers the polled input records of a Streams task, and chooses the next record to process.

Records pass through three methods:
- `PartitionGroup.add` adds a batch of one partition, as columns.
- `PartitionGroup.next_run` returns the next run: consecutive records of one partition, which are processed together.
- `RecordQueue.deliver` passes the records of a run to the receiver of the source node.

The group has a queue for each partition. The group compares the next records of all partitions, and chooses the record
with the lowest timestamp. If more than `buffered.records.per.partition` records of a partition are buffered, the
consumer pauses the partition. The partition is resumed when the task has processed enough records.

Rules of a queue: a queue stores polled batches unchanged, as columns of bytes. A queue deserialises a record just
before the record is processed. If the group has several partitions, each queue deserialises its next record in advance.
The group uses the timestamps of these records to choose a partition. The partition time of a queue is the highest
timestamp of its processed records, or -1 before the first record. A timestamp extractor gets the partition time as an
argument. A record that cannot be read goes to the handler of deserialization errors. A record with a negative timestamp
is dropped. Unreadable records and dropped records count as consumed.

Rules of `max.task.idle.ms`, for a partition that has no buffered record:
- With the value -1, the task does not wait for records of this partition.
- With the value 0, the task waits while the log may have unread records of the partition (see `InputLags`).
- With a value above 0, the task also waits while the log may have unread records of the partition. With a value above
  0, if the log has no unread records, the task waits `max.task.idle.ms` for new records.

Records with equal timestamps are chosen in the order in which Java's `PriorityQueue` would return them. Partitions
enter this priority queue in the order in which they got records. So if the records of several partitions have equal
timestamps, the partitions usually take turns. Source: `PartitionGroup` (KIP-695), `RecordQueue`, `RecordDeserializer`,
`StreamTask.addRecords`.

Differs from Kafka: a record is deserialised only after the earlier records of its partition were processed. So an error
in a record does not prevent the processing of earlier records. An error of a timestamp extractor goes to the
deserialization handler. A task waits for all its empty partitions at the same time. Kafka's task waits for one
partition after the other, so it may wait n times `max.task.idle.ms` for n partitions. The method `clear` resets the
waiting time, but Kafka's `clear` does not.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from itertools import chain, repeat, takewhile
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from assignor.java.priority_queue import JavaPriorityQueue
from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition
from streams_runtime.common.losses import ALREADY_A_NOTICE, DropReason, TaskLosses, uncounted
from streams_runtime.common.records import (
    LATEST_MS,
    BytesColumn,
    Headers,
    RawRecord,
    Record,
    RecordMetadata,
    record_timestamp,
)
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Consumer, RecordBatch
from streams_runtime.processors.api import FailedRecord
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.serdes import BytesSerde, serde_for_topic
from streams_runtime.tasks.input_lags import InputLags

MAX_TASK_IDLE_DISABLED = -1
_MAX_OTHER_QUEUES = 2

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


_Row = tuple[int, Any, Any, int, Headers]
"""A record of the current batch, as a tuple: the index after the record, its key, value, timestamp and headers."""

_EMPTY: tuple[()] = ()
_new_tuple = tuple.__new__
"""Makes a named tuple. A call of the tuple's class would take twice as long."""


@dataclass(eq=False, repr=False)
class RecordQueue:
    """The records of one input partition that the task has not processed yet.

    `on_failure`: a function for records that cannot be read. If `on_failure` returns, the queue drops the record. If
    `on_failure` raises an error, the record stays in the queue. `losses`: the object that counts records with a
    negative timestamp. The current batch is the batch from which the queue reads. `place`: the index of the next record
    in the current batch. While a record is processed, `place` is already the index after this record. `offsets`: the
    offsets of the current batch. `handed_out`: the number of records that `deliver` has passed to the receiver.
    """

    _task_id: TaskId
    partition: TopicPartition
    source: SourceRunner
    _on_failure: Callable[[FailedRecord], None]
    losses: InitVar[TaskLosses | None] = None

    def __post_init__(self, losses: TaskLosses | None) -> None:
        self.topic_bytes = len(self.partition.topic)
        self.handed_out = 0
        self._losses = losses or uncounted(self._task_id)
        self._extract_timestamp = self.source.settings.timestamp_extractor
        self._batches: deque[RecordBatch] = deque()
        self.clear()

    @cached_property
    def _deserializers(self) -> tuple[Callable[[bytes], Any] | None, ...]:
        """The functions for keys and for values. None for a `BytesSerde`, which would return the bytes unchanged. Made
        with the first record: the source has checked by then that no serde is missing.
        """
        topic, settings = self.partition.topic, self.source.settings
        keys = serde_for_topic(settings.key_serde, topic, is_key=True)
        values = serde_for_topic(settings.value_serde, topic, is_key=False)
        return tuple(None if isinstance(each, BytesSerde) else each.deserialize for each in (keys, values))

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
        """Pass the next run of at most `max_records` records to the receiver of the source node. A run ends at the end
        of the batch. A run also ends before a record that is unreadable or has a negative timestamp. A run also ends
        after the first record with the timestamp `until_ms` or a later timestamp.

        `time`: the object that stores the stream time. The records advance this time. `on_error`: a function that is
        called if the receiver raises an error for the record at `place`. If `on_error` returns, the record is skipped.
        If `on_error` raises an error, the record stays in the queue as the next record, and `deliver` raises this
        error. `deliver` also raises the errors of `on_failure`.
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
                    self._rows = rows  # the next run continues with this iterator
                    return
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
        return None if head is None else head[3]

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
        """Returns an iterator over the next `_MOST_ROWS` records of the current batch, from the index `first` on. Do
        not use the iterator any more after it has raised an error.
        """
        stop = min(first + _MOST_ROWS, self._length)
        rows: Iterator[_Row] = zip(
            range(first + 1, stop + 1),
            _deserialized(self._deserializers[0], self._keys[first:stop]),
            _deserialized(self._deserializers[1], self._values[first:stop]),
            self._timestamps[first:stop],
            repeat(_EMPTY) if self._headers is None else self._headers[first:stop],
            strict=False,
        )
        return rows if self._extract_timestamp is None else self._with_extracted_times(rows)

    def _with_extracted_times(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        """Replaces the timestamp of each record by the result of the timestamp extractor. The callers drop records with
        negative timestamps. Raises ValueError if a result of the extractor cannot be a timestamp.
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


RecordRun = tuple[RecordQueue, int]
"""A run of records as a tuple: the queue, and the number of its next records that belong to the run."""


class InputPosition(NamedTuple):
    """The progress of a task in one partition. `next_offset`: the offset of the first buffered record, or None if the
    partition has no buffered record. `partition_time_ms`: the highest processed timestamp of the partition, or -1
    before the first record.
    """

    partition: TopicPartition
    next_offset: int | None
    partition_time_ms: int


@dataclass(eq=False, repr=False)
class PartitionGroup:
    """The record queues of one Streams task. A group with one partition never waits for other partitions, and reads
    each record just before it is processed.

    `new_queue`: a function that makes the queue of a partition. The function raises StreamsRuntimeError if no source
    node reads the partition. `consumer`: the consumer that reads the partitions. `paused`: the partitions that are
    paused because too many of their records are buffered.
    """

    partitions: frozenset[TopicPartition]
    _new_queue: Callable[[TopicPartition], RecordQueue]
    _consumer: Consumer
    _lags: InputLags
    _configs: StreamsConfig
    paused: set[TopicPartition] = field(default_factory=set, init=False)
    _queues: dict[TopicPartition, RecordQueue] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.set_partitions(self.partitions)

    def set_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Change the partitions of the group. If a partition stays in the group, its buffered records are kept. Raises
        the errors of `new_queue`.
        """
        self._queues = {
            partition: self._queues.get(partition) or self._new_queue(partition) for partition in sorted(partitions)
        }
        self.partitions = frozenset(self._queues)
        self.paused &= self.partitions
        self._only_queue = next(iter(self._queues.values())) if len(self._queues) == 1 else None
        # Each queue is either in the heap, with the timestamp of its next record, or in `_idle`. A queue in `_idle` is
        # empty, or its next record has not been deserialised yet. Queues move from `_idle` to the heap in the order of
        # `_idle`.
        self._heap: JavaPriorityQueue[tuple[int, RecordQueue]] = JavaPriorityQueue(itemgetter(0))
        self._idle = dict(self._queues)
        self._deadlines: dict[TopicPartition, int] = {}

    def set_partition_times(self, times_ms: Mapping[TopicPartition, int]) -> None:
        """Set the partition times, which an earlier owner of the task has committed."""
        for partition, time_ms in times_ms.items():
            self._queues[partition].partition_time_ms = time_ms

    def __len__(self) -> int:
        """The number of buffered records."""
        return sum(map(len, self._queues.values()))

    def add(self, batch: RecordBatch) -> int:
        """Buffer a batch, and pause its partition if too many records of the partition are buffered now. Returns the
        number of buffered records of the partition. Raises KeyError for a partition of another task.
        """
        partition = batch.partition
        queue = self._queues[partition]
        if not len(queue):
            # move the queue to the end, because queues enter the heap in the order in which they got records
            self._idle.pop(partition, None)
            self._idle[partition] = queue
        buffered = queue.add(batch)
        if buffered > self._configs.buffered_records_per_partition and partition not in self.paused:
            self.paused.add(partition)
            self._consumer.pause((partition,))
        return buffered

    def resume_partitions(self) -> None:
        """Resume the paused partitions that have at most `buffered.records.per.partition` records."""
        resumed = {
            partition
            for partition in self.paused
            if len(self._queues[partition]) <= self._configs.buffered_records_per_partition
        }
        if resumed:
            self._consumer.resume(resumed)
            self.paused -= resumed

    def positions(self) -> list[InputPosition]:
        """Returns the task's progress in every partition."""
        return [
            InputPosition(partition, queue.next_offset(), queue.partition_time_ms)
            for partition, queue in self._queues.items()
        ]

    def ready(self, now_ms: int) -> bool:
        """Returns True if a record may be processed now. If the group has several partitions, this method deserialises
        the next record of each partition, so it raises the errors of `RecordQueue.poll`.
        """
        if self._only_queue is not None:
            return len(self._only_queue) > 0
        try:
            if self._idle:
                self._read_heads()
        finally:
            # `_read_heads` may have dropped invalid records, so there may be room for more records
            self.resume_partitions()
        return not self._idle or self._may_skip_idle(now_ms)

    @property
    def waits_for_records(self) -> bool:
        """True if the group is empty, and `add` has to be called before `ready` can return True. If the group has
        several partitions and max.task.idle.ms is above 0, the value is always False. In this case, `ready` has to be
        called repeatedly, because the waiting time begins when a call finds that the log has no more records.
        """
        if self.paused:
            return False
        if self._only_queue is not None:
            return not len(self._only_queue)
        return self._configs.max_task_idle_ms <= 0 and not len(self)

    def next_run(self, now_ms: int, max_records: int) -> RecordRun | None:
        """Returns the next run of at most `max_records` records, or None if the group is not `ready`. Raises the errors
        of `ready`. The caller passes the run to the method `deliver` of the queue. If the group has several partitions,
        a run ends before a record that may come after a record of another partition.
        """
        only = self._only_queue
        if only is not None:
            return (only, max_records) if len(only) else None
        if self._idle:
            self._read_heads()
            if self._idle and not self._may_skip_idle(now_ms):
                return None
        head = self._heap.poll()
        assert head is not None, "a group that is ready has a head"
        queue = head[1]
        self._idle[queue.partition] = queue  # the queue stays in `_idle` until its next record is deserialised
        return queue, 1 + self._count_before_other_queues(queue, max_records - 1)

    def _count_before_other_queues(self, queue: RecordQueue, max_records: int) -> int:
        """Counts the records that certainly come before all records of other queues. The next record of `queue` itself
        is not counted. Returns 0 if more than two other queues have records. If there are more queues, each processed
        record moves its queue in the heap. Moving a queue can change the order of queues with equal timestamps.
        """
        others = len(self._heap)
        if max_records < 1 or others > _MAX_OTHER_QUEUES:
            return 0
        lowest_other_ms = next(iter(self._heap))[0] if others else None
        return queue.count_before(lowest_other_ms, max_records)

    def clear(self) -> None:
        """Forget the records, the times, the end offsets and the paused partitions. This method does not resume the
        paused partitions in the consumer.
        """
        self.paused.clear()
        for queue in self._queues.values():
            queue.clear()
        self._lags.clear()
        self.set_partitions(self._queues)

    def _may_skip_idle(self, now_ms: int) -> bool:
        if not len(self._heap):
            if self._configs.max_task_idle_ms > 0:
                self._waited_enough(now_ms)  # this call starts the waiting time if the log has no more records
            return False
        return self._configs.max_task_idle_ms == MAX_TASK_IDLE_DISABLED or self._waited_enough(now_ms)

    def _read_heads(self) -> None:
        for partition, queue in list(self._idle.items()):
            timestamp_ms = queue.head_timestamp_ms()
            if timestamp_ms is None:
                continue
            self._heap.offer((timestamp_ms, queue))
            del self._idle[partition]
            self._deadlines.pop(partition, None)
            self._lags.forget_end(partition)

    def _waited_enough(self, now_ms: int) -> bool:
        enough = True
        behind = self._lags.behind(self._idle, now_ms)
        for partition in self._idle:
            if partition in behind:
                self._deadlines.pop(partition, None)
                enough = False
            elif now_ms < self._deadlines.setdefault(partition, now_ms + self._configs.max_task_idle_ms):
                enough = False
        return enough


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
