"""The records of a task's input that the thread has polled and the task has not processed, and which goes next.

    add         takes a batch of one partition, as columns
    next_run    gives the next records to process: consecutive ones of one partition

The next record is that of the partition whose next record has the lowest timestamp. When a partition has more than
buffered.records.per.partition records, the consumer pauses it until enough of them were taken.

Rules of `max.task.idle.ms`, for a partition that has nothing buffered:
- -1: the task takes what the others have.
- 0: the task waits as long as the log has, or may have, more records of the partition.
- Above 0: the task waits as with 0, and then so long for new records, counted from when the log had no more.

Among equal timestamps Java's heap decides. It is filled in the order in which partitions got records, so that they
mostly take turns. Source: `PartitionGroup` (KIP-695), `StreamTask.addRecords`.

Whether the log has more: while the consumer is behind the known end of a partition, nobody is asked. When the consumer
has reached it, the consumer is asked whether it knows the end, else the log, but not again within ten milliseconds if
nothing was read meanwhile. A partition counts as having more when the log cannot tell. Source: `Consumer.currentLag` as
`PartitionGroup` uses it.

Differs from Kafka: the task waits for several partitions at the same time; in Kafka it waits for one after the other,
so that n of them may take n times `max.task.idle.ms`. `clear` forgets how long the task has waited; in Kafka that
outlives the records. Kafka takes the end that the last fetch told, however old that is; here the log is asked when more
may have come since.
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
_MOST_OTHERS = 2

RecordRun = tuple[RecordQueue, int]
"""The next records to process: the first ones of this queue, so many at most, before those of any other queue."""


class InputPosition(NamedTuple):
    """Where a task stands in one partition. `next_offset`: of the first record that it has not finished, None when none
    is buffered. `partition_time_ms`: the highest timestamp it has taken, -1 before the first.
    """

    partition: TopicPartition
    next_offset: int | None
    partition_time_ms: int


class InputLags:
    """How far the consumer is behind the log. The end is that for READ_COMMITTED, which every consumer can reach."""

    __slots__ = ("_asked_at_ms", "_consumer", "_ends", "_log")

    def __init__(self, log: Log, consumer: Consumer) -> None:
        self._log = log
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}
        self._asked_at_ms: dict[TopicPartition, int] = {}

    def behind(self, partitions: Collection[TopicPartition], now_ms: int) -> set[TopicPartition]:
        """Those of the partitions of which the log has, or may have, records that were not read yet."""
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

    def read_up_to_here(self, partition: TopicPartition) -> None:
        """New records of the partition are buffered: what was known of its end is old."""
        self._asked_at_ms.pop(partition, None)

    def clear(self) -> None:
        self._ends.clear()
        self._asked_at_ms.clear()

    def _ask(self, positions: dict[TopicPartition, int], now_ms: int) -> set[TopicPartition]:
        told = {partition: self._consumer.known_end(partition) for partition in positions}
        ends = {partition: end for partition, end in told.items() if end is not None}
        unknown = positions.keys() - ends.keys()
        silent: set[TopicPartition] = set()
        if unknown:
            try:
                ends.update(self._log.end_offsets(unknown))
            except LogTimeout:
                silent = unknown
        self._ends.update(ends)
        for partition in ends:
            self._asked_at_ms[partition] = now_ms
        return silent | {partition for partition, end in ends.items() if positions[partition] < end}


class PartitionGroup:
    """The queues of one task, which alone uses it. With one partition it never waits, and reads no record before its
    turn. `new_queue`: makes the queue of a partition, and raises StreamsRuntimeError for one that no source reads.
    `consumer`: reads the partitions. `paused`: those that it does not read, because they have too many records here.
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
        "_only",
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
        """Buffer these partitions from now on; those that stay keep their records. Raises as `new_queue` does."""
        self._queues = {
            partition: self._queues.get(partition) or self._new_queue(partition) for partition in sorted(partitions)
        }
        self.partitions = frozenset(self._queues)
        self.paused &= self.partitions
        self._only = next(iter(self._queues.values())) if len(self._queues) == 1 else None
        # a queue is in the heap with its head's timestamp, or idle: empty, or its head has not been looked at; idle
        # ones are in the order in which they get into the heap
        self._heap: JavaPriorityQueue[tuple[int, RecordQueue]] = JavaPriorityQueue(itemgetter(0))
        self._idle = dict(self._queues)
        self._deadlines: dict[TopicPartition, int] = {}

    def set_partition_times(self, times_ms: Mapping[TopicPartition, int]) -> None:
        """Set the partition times at which an earlier owner of the task stopped."""
        for partition, time_ms in times_ms.items():
            self._queues[partition].partition_time_ms = time_ms

    def __len__(self) -> int:
        """Records buffered."""
        return sum(map(len, self._queues.values()))

    def add(self, batch: RecordBatch) -> int:
        """Buffer a batch; pause its partition when that is too much. How many records of the partition are buffered
        now. KeyError: not one of the partitions.
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
        """Have the consumer read paused partitions again of which enough records were taken."""
        resumed = {partition for partition in self.paused if len(self._queues[partition]) <= self._max_buffered}
        if resumed:
            self._consumer.resume(resumed)
            self.paused -= resumed

    def positions(self) -> list[InputPosition]:
        """Where the task stands in every partition."""
        return [
            InputPosition(partition, queue.next_offset(), queue.partition_time_ms)
            for partition, queue in self._queues.items()
        ]

    def ready(self, now_ms: int) -> bool:
        """Whether a record may be processed now. With several partitions it reads records, and raises as that does."""
        if self._only is not None:
            return len(self._only) > 0
        try:
            if self._idle:
                self._look_at_heads()
        finally:
            self.resume_partitions()  # bad records may have been dropped
        return not self._idle or self._may_go_on_without_idle(now_ms)

    @property
    def waits_for_records(self) -> bool:
        """Whether it is empty, and only `add` changes what `ready` says.

        A group that waits max.task.idle.ms is asked again and again: the wait begins when the log has no more.
        """
        if self.paused:
            return False
        if self._only is not None:
            return not len(self._only)
        return self._max_task_idle_ms <= 0 and not len(self)

    def next_run(self, now_ms: int, max_records: int) -> RecordRun | None:
        """The next run, of `max_records` at most; None when not `ready`. Raises as `ready` does.

        The caller has the queue deliver the records. With several partitions a run ends before a record that may be
        another partition's turn.
        """
        only = self._only
        if only is not None:
            return (only, max_records) if len(only) else None
        if self._idle:
            self._look_at_heads()
            if self._idle and not self._may_go_on_without_idle(now_ms):
                return None
        head = self._heap.poll()
        assert head is not None, "a group that is ready has a head"
        queue = head[1]
        self._idle[queue.partition] = queue
        return queue, 1 + self._before_others(queue, max_records - 1)

    def _before_others(self, queue: RecordQueue, most: int) -> int:
        """How many records behind the head of the queue come before those of any other queue, in any case.

        With more than two others, taking one record after the other could change the turns of those with equal times.
        """
        others = len(self._heap)
        if most < 1 or others > _MOST_OTHERS:
            return 0
        return queue.count_before(next(iter(self._heap))[0] if others else None, most)

    def clear(self) -> None:
        """Forget records, times, what is known about the log, and which partitions are paused; the consumer keeps those
        paused.
        """
        self.paused.clear()
        for queue in self._queues.values():
            queue.clear()
        self._lags.clear()
        self.set_partitions(self._queues)

    def _may_go_on_without_idle(self, now_ms: int) -> bool:
        if not len(self._heap):
            if self._max_task_idle_ms > 0:
                self._waited_enough(now_ms)  # the wait begins with the end of data, not with another partition's record
            return False
        return self._max_task_idle_ms == MAX_TASK_IDLE_DISABLED or self._waited_enough(now_ms)

    def _look_at_heads(self) -> None:
        for partition, queue in list(self._idle.items()):
            timestamp_ms = queue.head_timestamp_ms()
            if timestamp_ms is None:
                continue
            self._heap.offer((timestamp_ms, queue))
            del self._idle[partition]
            self._deadlines.pop(partition, None)
            self._lags.read_up_to_here(partition)

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
