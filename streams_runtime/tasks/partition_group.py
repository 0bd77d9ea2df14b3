"""Buffers the polled input records of a Streams task, and chooses the next record to process.

Records pass through three methods:
- `PartitionGroup.add` adds a batch of one partition, as columns.
- `PartitionGroup.next_run` returns the next run: consecutive records of one partition, which are processed together.
- `RecordQueue.deliver` passes the records of a run to the receiver of the source node.

The group has a queue for each partition. The group compares the next records of all partitions, and chooses the record
with the lowest timestamp. If more than `buffered.records.per.partition` records of a partition are buffered, the
consumer pauses the partition. The partition is resumed when the task has processed enough records.

If the group has several partitions, each queue deserialises its next record in advance. The group uses the timestamps
of these records to choose a partition.

Rules of `max.task.idle.ms`, for a partition that has no buffered record:
- With the value -1, the task does not wait for records of this partition.
- With the value 0, the task waits while the log may have unread records of the partition (see `InputLags`).
- With a value above 0, the task also waits while the log may have unread records of the partition. With a value above
  0, if the log has no unread records, the task waits `max.task.idle.ms` for new records.

Records with equal timestamps are chosen in the order in which Java's `PriorityQueue` would return them. Partitions
enter this priority queue in the order in which they got records. So if the records of several partitions have equal
timestamps, the partitions usually take turns. Source: `PartitionGroup` (KIP-695), `StreamTask.addRecords`.

Differs from Kafka: a record is deserialised only after the earlier records of its partition were processed. So an error
in a record does not prevent the processing of earlier records. A task waits for all its empty partitions at the same
time. Kafka's task waits for one partition after the other, so it may wait n times `max.task.idle.ms` for n partitions.
The method `clear` resets the waiting time, but Kafka's `clear` does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import NamedTuple

from assignor.java.priority_queue import JavaPriorityQueue
from assignor.types import TopicPartition
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Consumer, RecordBatch
from streams_runtime.tasks.input_lags import InputLags
from streams_runtime.tasks.record_queue import RecordQueue

MAX_TASK_IDLE_DISABLED = -1
_MAX_OTHER_QUEUES = 2


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


class PartitionGroup:
    """The record queues of one Streams task. A group with one partition never waits for other partitions, and reads
    each record just before it is processed.

    `new_queue`: a function that makes the queue of a partition. The function raises StreamsRuntimeError if no source
    node reads the partition. `consumer`: the consumer that reads the partitions. `paused`: the partitions that are
    paused because too many of their records are buffered.
    """

    def __init__(
        self,
        partitions: Collection[TopicPartition],
        new_queue: Callable[[TopicPartition], RecordQueue],
        consumer: Consumer,
        lags: InputLags,
        configs: StreamsConfig,
    ) -> None:
        self.paused: set[TopicPartition] = set()
        self._new_queue = new_queue
        self._consumer = consumer
        self._lags = lags
        self._configs = configs
        self._queues: dict[TopicPartition, RecordQueue] = {}
        self.set_partitions(partitions)

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
        self._idle = list(self._queues.values())
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
            if queue in self._idle:
                self._idle.remove(queue)
            self._idle.append(queue)
            self._lags.forget_end(partition)
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

    def lag(self) -> int | None:
        """Returns the number of offsets that the task has not processed yet. Returns None if the lag of a partition is
        not known.
        """
        unread = self._lags.lag(self.partitions)
        return None if unread is None else len(self) + unread

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
        self._idle.append(queue)  # the queue stays in `_idle` until its next record is deserialised
        return queue, 1 + self._count_before_other_queues(queue, max_records - 1)

    def _count_before_other_queues(self, queue: RecordQueue, max_records: int) -> int:
        """Counts the records that certainly come before all records of other queues. The next record of `queue` itself
        is not counted. Returns 0 if more than two other queues have records. If there are more queues, each processed
        record moves its queue in the heap. Moving a queue can change the order of queues with equal timestamps.
        """
        if max_records < 1 or len(self._heap) > _MAX_OTHER_QUEUES:
            return 0
        other = self._heap.peek()
        return queue.count_before(None if other is None else other[0], max_records)

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
        for queue in self._idle.copy():
            timestamp_ms = queue.head_timestamp_ms()
            if timestamp_ms is not None:
                self._heap.offer((timestamp_ms, queue))
                self._idle.remove(queue)
                self._deadlines.pop(queue.partition, None)

    def _waited_enough(self, now_ms: int) -> bool:
        enough = True
        idle = [queue.partition for queue in self._idle]
        behind = self._lags.behind(idle, now_ms)
        for partition in idle:
            if partition in behind:
                self._deadlines.pop(partition, None)
                enough = False
            elif now_ms < self._deadlines.setdefault(partition, now_ms + self._configs.max_task_idle_ms):
                enough = False
        return enough
