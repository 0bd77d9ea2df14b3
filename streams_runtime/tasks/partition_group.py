"""Chooses which of a task's partitions gives the next record: the one whose next record has the lowest timestamp.

Rules of `max.task.idle.ms`, for a partition that has nothing buffered:
- -1: the task takes what the others have.
- 0: the task waits as long as the log has, or may have, more records of the partition.
- Above 0: the task waits as with 0, and then so long for new records, counted from when the log had no more.

Among equal timestamps Java's heap decides. It is filled in the order in which partitions got records, so that they
mostly take turns. Source: `PartitionGroup` (KIP-695).

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

from collections.abc import Collection, Iterable
from operator import itemgetter

from assignor.java.priority_queue import JavaPriorityQueue
from assignor.types import TopicPartition
from streams_runtime.logs.base import Consumer, Log, RecordBatch
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.tasks.record_queue import RecordQueue

MAX_TASK_IDLE_DISABLED = -1
ASK_AGAIN_MS = 10
_MOST_OTHERS = 2

RecordRun = tuple[RecordQueue, int]
"""The next records to process: the first ones of this queue, so many at most, before those of any other queue."""


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
    """The queues of one task. With one partition it never waits, and reads no record before its turn."""

    __slots__ = ("_deadlines", "_heap", "_idle", "_lags", "_max_task_idle_ms", "_only", "_queues")

    def __init__(self, queues: Iterable[RecordQueue], lags: InputLags, max_task_idle_ms: int) -> None:
        self._lags = lags
        self._max_task_idle_ms = max_task_idle_ms
        self.set_queues(queues)

    def set_queues(self, queues: Iterable[RecordQueue]) -> None:
        """Use these queues from now on; those that stay keep their records."""
        self._queues = {queue.partition: queue for queue in sorted(queues, key=lambda queue: queue.partition)}
        self._only = next(iter(self._queues.values())) if len(self._queues) == 1 else None
        # a queue is in the heap with its head's timestamp, or idle: empty, or its head has not been looked at; idle
        # ones are in the order in which they get into the heap
        self._heap: JavaPriorityQueue[tuple[int, RecordQueue]] = JavaPriorityQueue(itemgetter(0))
        self._idle = dict(self._queues)
        self._deadlines: dict[TopicPartition, int] = {}

    def queues(self) -> list[RecordQueue]:
        return list(self._queues.values())

    def __getitem__(self, partition: TopicPartition) -> RecordQueue:
        return self._queues[partition]

    def __len__(self) -> int:
        """Records buffered."""
        return sum(map(len, self._queues.values()))

    def add(self, batch: RecordBatch) -> int:
        """Buffer a batch; how many records of its partition are buffered now. KeyError: not one of the partitions."""
        queue = self._queues[batch.partition]
        if not len(queue):
            self._idle.pop(batch.partition, None)
            self._idle[batch.partition] = queue
        queue.add(batch)
        return len(queue)

    def ready(self, now_ms: int) -> bool:
        """Whether a record may be processed now. With several partitions it reads records, and raises as that does."""
        if self._only is not None:
            return len(self._only) > 0
        if self._idle:
            self._look_at_heads()
        return not self._idle or self._may_go_on_without_idle(now_ms)

    @property
    def waits_for_records(self) -> bool:
        """Whether it is empty, and only `add` changes what `ready` says.

        A group that waits max.task.idle.ms is asked again and again: the wait begins when the log has no more.
        """
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
        """Forget records, times and what is known about the log."""
        for queue in self._queues.values():
            queue.clear()
        self._lags.clear()
        self.set_queues(self._queues.values())

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
