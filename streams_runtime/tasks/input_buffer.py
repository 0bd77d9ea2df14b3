"""Holds the records of a task's input that the thread has polled and the task has not processed.

    add         takes a batch of one partition, as columns
    next_run    gives the next records to process: consecutive ones of one partition

Rule: when a partition has more than buffered.records.per.partition records, the consumer pauses it until enough of
them were taken.
Source: `StreamTask.addRecords`, `PartitionGroup`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Consumer, Log, RecordBatch
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.reporting.losses import TaskLosses
from streams_runtime.tasks.exception_handling import FailedInputRecord
from streams_runtime.tasks.partition_group import InputLags, PartitionGroup, RecordRun
from streams_runtime.tasks.record_queue import RecordQueue


class InputPosition(NamedTuple):
    """Where a task stands in one partition. `next_offset`: of the first record that it has not finished, None when none
    is buffered. `partition_time_ms`: the highest timestamp it has taken, -1 before the first.
    """

    partition: TopicPartition
    next_offset: int | None
    partition_time_ms: int


class InputBuffer:
    """One per active task, which alone uses it.

    `sources`: by topic. `on_failure` gets each record that cannot be read; it raises, or lets the record be dropped.
    Raises StreamsRuntimeError for a partition of a topic that no source reads. `next_run`: see `PartitionGroup`.
    """

    __slots__ = (
        "_consumer",
        "_group",
        "_losses",
        "_max_buffered",
        "_on_failure",
        "_paused",
        "_sources",
        "_task_id",
        "next_run",
    )

    def __init__(
        self,
        task_id: TaskId,
        partitions: Collection[TopicPartition],
        sources: Mapping[str, SourceRunner],
        log: Log,
        consumer: Consumer,
        configs: StreamsConfig,
        on_failure: Callable[[FailedInputRecord], None],
        losses: TaskLosses | None = None,
    ) -> None:
        self._task_id = task_id
        self._sources = sources
        self._consumer = consumer
        self._on_failure = on_failure
        self._losses = losses
        self._max_buffered = configs.buffered_records_per_partition
        self._paused: set[TopicPartition] = set()
        self._group = PartitionGroup(
            [self._queue(partition) for partition in partitions], InputLags(log, consumer), configs.max_task_idle_ms
        )
        self.next_run: Callable[[int, int], RecordRun | None] = self._group.next_run  # spares a call for each run

    def __len__(self) -> int:
        """Records buffered."""
        return len(self._group)

    # --- in

    def add(self, batch: RecordBatch) -> None:
        """Buffer a batch; pause its partition when that is too much. KeyError: not one of the partitions."""
        if self._group.add(batch) > self._max_buffered and batch.partition not in self._paused:
            self._paused.add(batch.partition)
            self._consumer.pause((batch.partition,))

    def set_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Buffer these partitions from now on; those that stay keep their records. Raises StreamsRuntimeError."""
        kept = {queue.partition: queue for queue in self._group.queues() if queue.partition in partitions}
        self._group.set_queues([kept.get(partition) or self._queue(partition) for partition in partitions])

    def set_partition_times(self, times_ms: Mapping[TopicPartition, int]) -> None:
        """Set the partition times at which an earlier owner of the task stopped."""
        for partition, time_ms in times_ms.items():
            self._group[partition].partition_time_ms = time_ms

    # --- out

    def is_ready(self, now_ms: int) -> bool:
        """Whether there is a record to process now. Raises what `on_failure` does."""
        try:
            return self._group.ready(now_ms)
        finally:
            self.resume_partitions()

    @property
    def waits_for_records(self) -> bool:
        """Whether nothing is left to process, and only `add` changes what `is_ready` says."""
        return not self._paused and self._group.waits_for_records

    def resume_partitions(self) -> None:
        """Have the consumer read paused partitions again of which enough records were taken."""
        if not self._paused:
            return
        resumed = {partition for partition in self._paused if len(self._group[partition]) <= self._max_buffered}
        if resumed:
            self._consumer.resume(resumed)
            self._paused -= resumed

    def positions(self) -> Iterator[InputPosition]:
        """Where the task stands in every partition."""
        for queue in self._group.queues():
            yield InputPosition(queue.partition, queue.next_offset(), queue.partition_time_ms)

    def clear(self) -> None:
        """Forget all records and times, and which partitions are paused; the consumer keeps those paused."""
        self._paused.clear()
        self._group.clear()

    def _queue(self, partition: TopicPartition) -> RecordQueue:
        source = self._sources.get(partition.topic)
        if source is None:
            raise StreamsRuntimeError(
                f"has no source for topic {partition.topic}; do all instances run the same topology?", self._task_id
            )
        return RecordQueue(self._task_id, partition, source, self._on_failure, self._losses)
