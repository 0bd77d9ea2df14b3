"""The hot path of an active task: from what was polled to the processors.

Rules: with more than buffered.records.per.partition a partition is paused until it is down to that again; stream time
is the highest timestamp processed; a record that fails goes to the handler, and one that could not be finished for
another reason is neither committed nor lost: it comes first the next time. Source: `StreamTask.process`, `addRecords`.
"""

from __future__ import annotations

from typing import Any

from assignor.types import TopicPartition
from streams_runtime.clock import Clock
from streams_runtime.configs import StreamsConfig
from streams_runtime.errors import StreamsRuntimeError
from streams_runtime.logs.base import Consumer, Log, RecordBatch
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.records import Record
from streams_runtime.tasks.exception_handling import ExceptionHandling, FailedInputRecord
from streams_runtime.tasks.input_lags import InputLags
from streams_runtime.tasks.partition_group import PartitionGroup
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.record_queue import RecordQueue
from streams_runtime.tasks.stream_task_runtime import ABOUT_THE_TASK, StreamTaskRuntime
from streams_runtime.tasks.streams_producer import StreamsProducer
from streams_runtime.tasks.task import TaskState
from streams_runtime.tasks.task_lifecycle import TaskLifecycle


class RecordProcessing(StreamTaskRuntime):
    """The part of `StreamTask` that buffers and processes; never used alone."""

    def __init__(
        self,
        lifecycle: TaskLifecycle,
        input_partitions: frozenset[TopicPartition],
        graph: ProcessorGraph,
        collector: RecordCollector,
        handling: ExceptionHandling,
        *,
        log: Log,
        consumer: Consumer,
        producer: StreamsProducer,
        configs: StreamsConfig,
        clock: Clock,
    ) -> None:
        super().__init__(lifecycle.task_id, graph, collector, handling, producer, configs, clock)
        self._lifecycle = lifecycle
        self._consumer = consumer
        self._max_buffered = configs.buffered_records_per_partition
        self._paused: set[TopicPartition] = set()
        self._unfinished: tuple[RecordQueue, Record[Any, Any]] | None = None
        self._processed = 0
        self._group = PartitionGroup(
            [self._queue(partition) for partition in input_partitions],
            InputLags(log, consumer),
            configs.max_task_idle_ms,
        )

    @property
    def buffered_records(self) -> int:
        return len(self._group)

    @property
    def dropped_records(self) -> int:
        """Records with errors or negative timestamps that it went on without."""
        return self._handling.dropped_records + sum(queue.dropped_records for queue in self._group.queues())

    def add_records(self, batch: RecordBatch) -> None:
        """Buffer what was polled, of an input partition.

        Of a task that does not run it is dropped: it is read again when the task does.
        """
        if self._lifecycle.state is not TaskState.RUNNING:
            return
        if self._group.add(batch) > self._max_buffered and batch.partition not in self._paused:
            self._paused.add(batch.partition)
            self._consumer.pause((batch.partition,))

    def is_process_ready(self, now_ms: int) -> bool:
        """Whether `process` would process a record. Raises as it does."""
        if self._lifecycle.state is not TaskState.RUNNING or self._commit_pending:
            return False
        if self._unfinished is not None:
            return True
        try:
            return self._group.ready(now_ms)
        except LogTimeout as error:
            raise self._timed_out(error) from error
        finally:
            if self._paused:
                self._resume_partitions()

    def process(self, now_ms: int, max_records: int) -> int:
        """Run up to so many records through the processors; how many were.

        Raises ProcessingFailed, TaskMigrated, StreamsRuntimeError, and when the log is away LogTimeout (at-least-once;
        it may be tried again; after other records were processed it waits for the next call) or TaskCorrupted
        (exactly-once).
        """
        if self._lifecycle.state is not TaskState.RUNNING or self._commit_pending:
            return 0
        self._now_ms = now_ms
        self._processed = 0
        try:
            if self._unfinished is not None:
                self._finish()
            if self._group.only is not None:
                self._process_one_partition(self._group.only, max_records)
            else:
                self._process_by_time(now_ms, max_records)
        except LogTimeout as error:
            if self._exactly_once or self._processed == 0:
                raise self._timed_out(error) from error
        finally:
            self._record = None
            if self._paused:
                self._resume_partitions()
        return self._processed

    def _process_one_partition(self, queue: RecordQueue, max_records: int) -> None:
        """The fast path: nothing to choose from, so no timestamp has to be known before a record's turn."""
        if not len(queue):
            return
        self._work_begins()
        self._polled = queue
        poll, process = queue.poll, queue.process
        done = self._processed
        try:
            while done < max_records:
                record = poll()
                if record is None:
                    break
                self._record = record
                if record[2] > self._stream_time_ms:
                    self._stream_time_ms = record[2]
                try:
                    process(record)
                except Exception as error:
                    self._processing_failed(queue, record, error)
                done += 1
        finally:
            self._processed = done

    def _process_by_time(self, now_ms: int, max_records: int) -> None:
        group = self._group
        while self._processed < max_records:
            record = group.poll(now_ms)
            if record is None:
                break
            assert group.polled is not None
            self._process_record(group.polled, record)

    def _process_record(self, queue: RecordQueue, record: Record[Any, Any]) -> None:
        self._work_begins()
        self._polled = queue
        self._record = record
        if record[2] > self._stream_time_ms:
            self._stream_time_ms = record[2]
        try:
            queue.process(record)
        except Exception as error:
            self._processing_failed(queue, record, error)
        self._processed += 1

    def _finish(self) -> None:
        assert self._unfinished is not None
        (queue, record), self._unfinished = self._unfinished, None
        self._process_record(queue, record)

    def _processing_failed(self, queue: RecordQueue, record: Record[Any, Any], error: Exception) -> None:
        """Returns when the task may go on without the record."""
        self._unfinished = (queue, record)  # whatever happens now, its offset is not committed
        if isinstance(error, ABOUT_THE_TASK):
            raise error
        self._handling.processing_failed(queue.polled_failed(self._graph.current_node, error))
        self._unfinished = None

    def _reading_failed(self, failed: FailedInputRecord) -> None:
        self._work_begins()  # the record is consumed, and there may be a dead letter
        self._handling.deserialization_failed(failed)

    def _resume_partitions(self) -> None:
        resumed = {partition for partition in self._paused if len(self._group[partition]) <= self._max_buffered}
        if resumed:
            self._consumer.resume(resumed)
            self._paused -= resumed

    def _queue(self, partition: TopicPartition) -> RecordQueue:
        source = self._graph.sources.get(partition.topic)
        if source is None:
            raise StreamsRuntimeError(
                f"has no source for topic {partition.topic}; do all instances run the same topology?", self._task_id
            )
        return RecordQueue(self._task_id, partition, source, self._reading_failed)

    def _drop_records(self) -> None:
        self._unfinished = None
        self._paused.clear()
        self._group.clear()
