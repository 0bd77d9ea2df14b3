"""Which of a task's partitions gives the next record: the one whose next record has the lowest timestamp.

Rules of `max.task.idle.ms`, when a partition has nothing buffered: -1 takes what is there; 0 waits only for partitions
of which the log is known to have more (or of which nothing is known yet); above 0 waits that long beyond that for new
records, counted for each partition from when it was found to have no more. With nothing buffered at all there is
nothing to do. Among equal timestamps Java's heap decides, filled in the order in which partitions got records, so that
partitions mostly take turns. Source: `PartitionGroup` (KIP-695).

What the log has: as long as the consumer is behind the end that is known, the log is not asked; a partition that was
read up to that end is asked about again, but only once at one and the same time. A partition of which the log cannot
tell counts as having more. Source: `Consumer.currentLag` as `PartitionGroup` uses it.

Differs from Kafka: several partitions are waited for at the same time; there, one after the other, so that n of them
may take n times `max.task.idle.ms`. `clear` forgets how long was waited; there, that outlives the records. Kafka's
consumer learns the end of a partition with every fetch, and never has to ask.
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

RecordRun = tuple[RecordQueue, int]
"""The next records to process: so many of this queue's at most, in their order, with none of another queue between."""


class InputLags:
    """The end is that for READ_COMMITTED: no consumer gets stuck before it."""

    __slots__ = ("_asked_at_ms", "_consumer", "_ends", "_log")

    def __init__(self, log: Log, consumer: Consumer) -> None:
        self._log = log
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}
        self._asked_at_ms: dict[TopicPartition, int] = {}

    def behind(self, partitions: Collection[TopicPartition], now_ms: int) -> set[TopicPartition]:
        """Those of the partitions that have, or may have, records that were not read yet."""
        behind: set[TopicPartition] = set()
        ask: dict[TopicPartition, int] = {}
        for partition in partitions:
            position = self._consumer.position(partition)
            if position is None or position < self._ends.get(partition, -1):
                behind.add(partition)
            elif self._asked_at_ms.get(partition) != now_ms:
                ask[partition] = position
        if ask:
            behind |= self._ask(ask, now_ms)
        return behind

    def read_up_to_here(self, partition: TopicPartition) -> None:
        """What was buffered of it is processed: what was known of its end is old."""
        self._asked_at_ms.pop(partition, None)

    def clear(self) -> None:
        self._ends.clear()
        self._asked_at_ms.clear()

    def _ask(self, positions: dict[TopicPartition, int], now_ms: int) -> set[TopicPartition]:
        try:
            ends = self._log.end_offsets(positions)
        except LogTimeout:
            return set(positions)
        self._ends.update(ends)
        for partition in positions:
            self._asked_at_ms[partition] = now_ms
        return {partition for partition, position in positions.items() if position < ends[partition]}


class PartitionGroup:
    """The queues of one task. Those of one partition never wait, and no record is read before its turn."""

    __slots__ = ("_deadlines", "_heap", "_idle", "_lags", "_max_task_idle_ms", "_only", "_queues")

    def __init__(self, queues: Iterable[RecordQueue], lags: InputLags, max_task_idle_ms: int) -> None:
        self._lags = lags
        self._max_task_idle_ms = max_task_idle_ms
        self.set_queues(queues)

    def set_queues(self, queues: Iterable[RecordQueue]) -> None:
        """Other partitions; queues that stay keep their records."""
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
        """How many records of the partition are buffered now. KeyError for a partition that is not of the group."""
        queue = self._queues[batch.partition]
        if not len(queue):
            self._idle.pop(batch.partition, None)
            self._idle[batch.partition] = queue
        queue.add(batch)
        return len(queue)

    def ready(self, now_ms: int) -> bool:
        """Whether a record may be processed. Raises what reading a record raises, when there are several partitions."""
        if self._only is not None:
            return len(self._only) > 0
        if self._idle:
            self._look_at_heads()
        if not self._idle:
            return True
        if not len(self._heap):
            if self._max_task_idle_ms > 0:
                self._waited_enough(now_ms)  # the wait begins with the end of data, not with the next record elsewhere
            return False
        return self._max_task_idle_ms == MAX_TASK_IDLE_DISABLED or self._waited_enough(now_ms)

    def next_run(self, now_ms: int, max_records: int) -> RecordRun | None:
        """The next run, of `max_records` at most; None when not `ready`. Raises as `ready` does.

        Whoever takes it polls its records. With several partitions a run has one record, since the next one may be
        another partition's.
        """
        only = self._only
        if only is not None:
            return (only, max_records) if len(only) else None
        if not self.ready(now_ms):
            return None
        head = self._heap.poll()
        assert head is not None, "a group that is ready has a head"
        queue = head[1]
        self._idle[queue.partition] = queue
        return queue, 1

    def clear(self) -> None:
        """Forget records, times and what was known about the log."""
        for queue in self._queues.values():
            queue.clear()
        self._lags.clear()
        self.set_queues(self._queues.values())

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
