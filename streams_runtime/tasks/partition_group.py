"""The records of a task's input that the thread has polled and the task has not processed, and their order.

    add         takes a batch of one partition, as columns
    next_run    gives the next records to process: consecutive ones of one partition

The next record is taken from the partition whose next record has the lowest timestamp. If a partition has more than
buffered.records.per.partition records, the consumer pauses it until enough of the records were taken.

Rules of `max.task.idle.ms`, for a partition that has nothing buffered:
- -1: the task processes the records of the other partitions.
- 0: the task waits as long as the log has, or may have, more records of the partition.
- Above 0: the task waits as with 0. Once the log has no more records, it waits this time for new ones.

Among equal timestamps the order of Java's heap decides. Partitions enter the heap in the order in which they got
records, so they mostly take turns. Source: `PartitionGroup` (KIP-695), `StreamTask.addRecords`.

To find out whether the log has more records: while the consumer is behind the last known end of a partition, no call is
made. Otherwise the consumer is asked for the end, and if the consumer does not know it, the log; but not again within
ten milliseconds if no record was read meanwhile. If the log does not answer, the partition counts as having more.
Source: `Consumer.currentLag` as `PartitionGroup` uses it.

Differs from Kafka: the task waits for several partitions at the same time; in Kafka it waits for one after the other,
so that n of them may take n times `max.task.idle.ms`. `clear` forgets how long the task has waited; Kafka keeps that
time when it clears the records. Kafka uses the end that the last fetch returned, however old it is; here the log is
asked if more records may have been written since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import NamedTuple

from assignor.java.priority_queue import JavaPriorityQueue
from assignor.types import TopicPartition
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Consumer, Log, RecordBatch
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.tasks.record_queue import RecordQueue

MAX_TASK_IDLE_DISABLED = -1
ASK_AGAIN_MS = 10
_MAX_OTHER_QUEUES = 2

RecordRun = tuple[RecordQueue, int]
"""The next records to process: the first records of this queue, and the highest number of them to process before the
next run is chosen."""


class InputPosition(NamedTuple):
    """The progress of a task in one partition. `next_offset`: the offset of the first buffered record, None if none is
    buffered. `partition_time_ms`: the highest timestamp that was handed out, -1 before the first record.
    """

    partition: TopicPartition
    next_offset: int | None
    partition_time_ms: int


class InputLags:
    """Compares the consumer's positions with the ends of the log, as READ_COMMITTED sees them: a consumer with any
    isolation level can reach these ends.
    """

    __slots__ = ("_asked_at_ms", "_consumer", "_ends", "_log")

    def __init__(self, log: Log, consumer: Consumer) -> None:
        self._log = log
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}
        self._asked_at_ms: dict[TopicPartition, int] = {}

    def behind(self, partitions: Collection[TopicPartition], now_ms: int) -> set[TopicPartition]:
        """The partitions of which the log has, or may have, records that the consumer has not read yet."""
        behind: set[TopicPartition] = set()
        ask: dict[TopicPartition, int] = {}
        for partition in partitions:
            position = self._consumer.position(partition)
            if position is None or position < self._ends.get(partition, -1):
                behind.add(partition)
            elif now_ms - self._asked_at_ms.get(partition, -ASK_AGAIN_MS) >= ASK_AGAIN_MS:
                ask[partition] = position
        if ask:
            behind |= self._ask(ask, now_ms)
        return behind

    def forget_end(self, partition: TopicPartition) -> None:
        """Ask for the end again at the next call of `behind`, because new records of the partition were read."""
        self._asked_at_ms.pop(partition, None)

    def clear(self) -> None:
        self._ends.clear()
        self._asked_at_ms.clear()

    def _ask(self, positions: dict[TopicPartition, int], now_ms: int) -> set[TopicPartition]:
        ends = {partition: end for partition in positions if (end := self._consumer.known_end(partition)) is not None}
        unknown = positions.keys() - ends.keys()
        unanswered: set[TopicPartition] = set()
        if unknown:
            try:
                ends.update(self._log.end_offsets(unknown))
            except LogTimeout:
                unanswered = unknown
        self._ends.update(ends)
        for partition in ends:
            self._asked_at_ms[partition] = now_ms
        return unanswered | {partition for partition, end in ends.items() if positions[partition] < end}


class PartitionGroup:
    """The record queues of one task, which alone uses the group. A group with one partition never waits, and reads no
    record before its turn.

    `new_queue`: makes the queue of a partition, and raises StreamsRuntimeError for a partition that no source reads.
    `consumer`: reads the partitions. `paused`: the partitions that are paused because they have too many records here.
    """

    __slots__ = (
        "_consumer",
        "_deadlines",
        "_heap",
        "_idle",
        "_lags",
        "_max_buffered",
        "_max_task_idle_ms",
        "_new_queue",
        "_only_queue",
        "_queues",
        "partitions",
        "paused",
    )

    def __init__(
        self,
        partitions: Collection[TopicPartition],
        new_queue: Callable[[TopicPartition], RecordQueue],
        consumer: Consumer,
        lags: InputLags,
        configs: StreamsConfig,
    ) -> None:
        self._new_queue = new_queue
        self._consumer = consumer
        self._lags = lags
        self._max_task_idle_ms = configs.max_task_idle_ms
        self._max_buffered = configs.buffered_records_per_partition
        self._queues: dict[TopicPartition, RecordQueue] = {}
        self.paused: set[TopicPartition] = set()
        self.set_partitions(partitions)

    def set_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Buffer these partitions from now on. Partitions that it had before keep their records. Raises as `new_queue`
        does.
        """
        self._queues = {
            partition: self._queues.get(partition) or self._new_queue(partition) for partition in sorted(partitions)
        }
        self.partitions = frozenset(self._queues)
        self.paused &= self.partitions
        self._only_queue = next(iter(self._queues.values())) if len(self._queues) == 1 else None
        # A queue is in the heap, with the timestamp of its next record, or it is idle: it is empty, or its next record
        # has not been read. `_idle` has the order in which the queues will enter the heap.
        self._heap: JavaPriorityQueue[tuple[int, RecordQueue]] = JavaPriorityQueue(itemgetter(0))
        self._idle = dict(self._queues)
        self._deadlines: dict[TopicPartition, int] = {}

    def set_partition_times(self, times_ms: Mapping[TopicPartition, int]) -> None:
        """Continue with the partition times that an earlier owner of the task has committed."""
        for partition, time_ms in times_ms.items():
            self._queues[partition].partition_time_ms = time_ms

    def __len__(self) -> int:
        """The number of buffered records."""
        return sum(map(len, self._queues.values()))

    def add(self, batch: RecordBatch) -> int:
        """Buffer a batch, and pause its partition if that has too many records now. Returns the number of buffered
        records of the partition. Raises KeyError for a partition that is not one of the group's.
        """
        partition = batch.partition
        queue = self._queues[partition]
        if not len(queue):
            self._idle.pop(partition, None)
            self._idle[partition] = queue
        buffered = queue.add(batch)
        if buffered > self._max_buffered and partition not in self.paused:
            self.paused.add(partition)
            self._consumer.pause((partition,))
        return buffered

    def resume_partitions(self) -> None:
        """Resume the paused partitions that do not have too many records any more."""
        resumed = {partition for partition in self.paused if len(self._queues[partition]) <= self._max_buffered}
        if resumed:
            self._consumer.resume(resumed)
            self.paused -= resumed

    def positions(self) -> list[InputPosition]:
        """The task's progress in every partition."""
        return [
            InputPosition(partition, queue.next_offset(), queue.partition_time_ms)
            for partition, queue in self._queues.items()
        ]

    def ready(self, now_ms: int) -> bool:
        """Whether a record may be processed now. With several partitions it reads the next record of each, and raises
        as `RecordQueue.poll` does.
        """
        if self._only_queue is not None:
            return len(self._only_queue) > 0
        try:
            if self._idle:
                self._read_heads()
        finally:
            self.resume_partitions()  # bad records may have been dropped
        return not self._idle or self._may_skip_idle(now_ms)

    @property
    def waits_for_records(self) -> bool:
        """Whether the group is empty, and `ready` stays False until `add` is called.

        False if max.task.idle.ms is above 0: `ready` has to be called repeatedly, because the waiting time begins when
        a call finds that the log has no more records.
        """
        if self.paused:
            return False
        if self._only_queue is not None:
            return not len(self._only_queue)
        return self._max_task_idle_ms <= 0 and not len(self)

    def next_run(self, now_ms: int, max_records: int) -> RecordRun | None:
        """The next run, of `max_records` at most; None if the group is not `ready`. Raises as `ready` does.

        The caller calls `deliver` of the queue. With several partitions a run ends before the first record that another
        partition's record may precede.
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
        self._idle[queue.partition] = queue
        return queue, 1 + self._count_before_other_queues(queue, max_records - 1)

    def _count_before_other_queues(self, queue: RecordQueue, max_records: int) -> int:
        """Count the records after the next one of the queue that certainly precede the records of all other queues.

        Returns 0 if more than two other queues have records: each record that is taken moves its queue through the
        heap, which can change the order of queues with equal timestamps.
        """
        others = len(self._heap)
        if max_records < 1 or others > _MAX_OTHER_QUEUES:
            return 0
        lowest_other_ms = next(iter(self._heap))[0] if others else None
        return queue.count_before(lowest_other_ms, max_records)

    def clear(self) -> None:
        """Forget records, times, ends of the log, and which partitions are paused. The consumer keeps them paused."""
        self.paused.clear()
        for queue in self._queues.values():
            queue.clear()
        self._lags.clear()
        self.set_partitions(self._queues)

    def _may_skip_idle(self, now_ms: int) -> bool:
        if not len(self._heap):
            if self._max_task_idle_ms > 0:
                self._waited_enough(now_ms)  # starts the waiting time as soon as the log has no more records
            return False
        return self._max_task_idle_ms == MAX_TASK_IDLE_DISABLED or self._waited_enough(now_ms)

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
            elif now_ms < self._deadlines.setdefault(partition, now_ms + self._max_task_idle_ms):
                enough = False
        return enough
