"""What processors and stores ask of the active task they run in: where the record is from, time, sending, punctuation.

Rules: a punctuation has no input record; it marks the task as needing a commit; an error in it goes to the handler of
processing errors, named with task and node. Times of punctuations are those at which they fire.
Source: `ProcessorContextImpl`, `StreamTask.punctuate`, `StreamTask.schedule`.
"""

from __future__ import annotations

import contextlib
from typing import Any

from assignor.types import TaskId
from streams_runtime.clock import Clock
from streams_runtime.configs import StreamsConfig
from streams_runtime.errors import (
    ProcessingFailed,
    ProcessorStateError,
    StreamsRuntimeError,
    TaskCorrupted,
    TaskMigrated,
    TaskTimeout,
)
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.processors.api import Cancellable, PunctuationType, Punctuator
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.records import Headers, Record, RecordMetadata
from streams_runtime.state_stores.base import StateStore
from streams_runtime.tasks.exception_handling import NO_RECORD, ExceptionHandling, FailedInputRecord
from streams_runtime.tasks.offset_metadata import UNKNOWN_TIME
from streams_runtime.tasks.punctuation_queue import PunctuationQueue, PunctuationSchedule, first_schedule
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.record_queue import RecordQueue
from streams_runtime.tasks.streams_producer import StreamsProducer

ABOUT_THE_TASK = (LogTimeout, TaskMigrated, TaskCorrupted, TaskTimeout, ProcessorStateError, ProcessingFailed)
"""Errors that say nothing about the record they came up with: no handler is asked."""


class StreamTaskRuntime:
    """Implements `TaskRuntime` for processors and `RecordClock` for stores. Base of `StreamTask`, never used alone."""

    _commit_needed: bool
    _commit_requested: bool
    _commit_pending: bool  # prepared under exactly-once: the transaction is about to end

    def __init__(
        self,
        task_id: TaskId,
        graph: ProcessorGraph,
        collector: RecordCollector,
        handling: ExceptionHandling,
        producer: StreamsProducer,
        configs: StreamsConfig,
        clock: Clock,
    ) -> None:
        self._task_id = task_id
        self._application_id = configs.application_id
        self._graph = graph
        self._collector = collector
        self._handling = handling
        self._clock = clock
        self._producer = producer
        self._exactly_once = configs.exactly_once
        self._stores: dict[str, StateStore] = {}
        self._record: Record[Any, Any] | None = None  # the input record that is processed, from the queue `_polled`
        self._polled: RecordQueue | None = None
        self._now_ms = clock.now_ms()
        self._init_time_ms = UNKNOWN_TIME
        self._stream_time_ms = UNKNOWN_TIME
        self._stream_time_punctuations = PunctuationQueue()
        self._system_time_punctuations = PunctuationQueue()
        self._aborted_before = 0
        self._clear_commit_statuses()

    # --- TaskRuntime

    @property
    def application_id(self) -> str:
        return self._application_id

    @property
    def task_id(self) -> TaskId:
        return self._task_id

    @property
    def stores(self) -> dict[str, StateStore]:
        """Empty while they are not open."""
        return self._stores

    @property
    def record_metadata(self) -> RecordMetadata | None:
        if self._record is None or self._polled is None:
            return None
        return self._polled.polled_metadata()

    @property
    def headers(self) -> Headers:
        return () if self._record is None else self._record.headers

    @property
    def current_stream_time_ms(self) -> int:
        return self._stream_time_ms

    @property
    def current_system_time_ms(self) -> int:
        return self._now_ms

    def partitions_of(self, topic: str) -> int:
        return self._collector.partitions_of(topic)

    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        if not self._commit_needed:  # `init` and `close` of processors may forward, too
            self._work_begins()
        self._collector.send(topic, partition, key, value, timestamp_ms, headers)

    def schedule(
        self, node: str, interval_ms: int, type: PunctuationType, callback: Punctuator, start_time_ms: int | None
    ) -> Cancellable:
        """Raises StreamsRuntimeError for an interval under 1 ms and for a start before the epoch."""
        if interval_ms < 1:
            raise StreamsRuntimeError(
                f"processor {node}: the shortest interval of a punctuation is 1 ms, not {interval_ms}", self._task_id
            )
        if start_time_ms is not None and start_time_ms < 0:
            raise StreamsRuntimeError(
                f"processor {node}: a punctuation cannot start before the epoch, at {start_time_ms} ms", self._task_id
            )
        if type is PunctuationType.STREAM_TIME:
            queue, now_ms = self._stream_time_punctuations, self._stream_time_ms
        else:
            queue, now_ms = self._system_time_punctuations, self._clock.now_ms()
        schedule = first_schedule(node, interval_ms, type, callback, start_time_ms=start_time_ms, now_ms=now_ms)
        queue.add(schedule)
        return schedule

    def request_commit(self) -> None:
        self._commit_requested = True

    # --- RecordClock

    @property
    def record_timestamp_ms(self) -> int:
        """Of what the current processor works on; in `init` the wall-clock time, as in Kafka."""
        timestamp_ms = self._graph.record_timestamp_ms
        return timestamp_ms if timestamp_ms >= 0 else self._init_time_ms

    @property
    def stream_time_ms(self) -> int:
        return self._stream_time_ms

    # --- for the task

    def next_wall_clock_punctuation_ms(self) -> int | None:
        """When the thread has to call at the latest; None when nothing is scheduled."""
        return self._system_time_punctuations.next_time_ms()

    def _init_processors(self) -> None:
        self._init_time_ms = self._now_ms = self._clock.now_ms()
        try:
            with self._collector.watched(self._work_begins):
                self._graph.init(self)
        except Exception as error:
            # the next try begins from the start
            with contextlib.suppress(StreamsRuntimeError):
                self._close_processors()
            self._clear_punctuations()
            if isinstance(error.__cause__, ABOUT_THE_TASK):
                raise error.__cause__ from error
            raise
        finally:
            self._init_time_ms = UNKNOWN_TIME

    def _close_processors(self) -> None:
        with self._collector.watched(self._work_begins):
            self._graph.close()

    def _clear_punctuations(self) -> None:
        self._stream_time_punctuations.clear()
        self._system_time_punctuations.clear()

    def _punctuate_stream_time(self) -> bool:
        time_ms = self._stream_time_ms
        if time_ms == UNKNOWN_TIME:
            return False
        return self._punctuate(self._stream_time_punctuations, time_ms)

    def _punctuate_system_time(self, now_ms: int) -> bool:
        return self._punctuate(self._system_time_punctuations, now_ms)

    def _punctuate(self, queue: PunctuationQueue, time_ms: int) -> bool:
        def punctuate(schedule: PunctuationSchedule) -> None:
            self._work_begins()
            self._now_ms = self._clock.now_ms()
            try:
                schedule.callback(time_ms)
            except ABOUT_THE_TASK:
                raise
            except Exception as error:
                node = self._graph.current_node or schedule.node
                failed = FailedInputRecord(self._task_id, NO_RECORD, node, None, None, (), time_ms, error)
                self._handling.processing_failed(failed)

        try:
            return queue.maybe_punctuate(time_ms, punctuate)
        except LogTimeout as error:
            raise self._timed_out(error) from error

    def _work_begins(self) -> None:
        """From now on there is something to commit."""
        if not self._commit_needed:
            self._commit_needed = True
            self._aborted_before = self._producer.aborted

    def _clear_commit_statuses(self) -> None:
        self._commit_needed = False
        self._commit_requested = False
        self._commit_pending = False

    def _timed_out(self, error: LogTimeout) -> Exception:
        """Under exactly-once half a record may be in the state, which a second try would take in twice."""
        if not self._exactly_once:
            return error
        return TaskCorrupted([self._task_id], f"the log was away in the middle of a transaction ({error})")
