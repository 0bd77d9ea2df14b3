"""What processors and stores ask of the active task they run in: where a record is from, the time, sending, schedules.

Rules: in a punctuation there is no input record. Stream time is the highest timestamp processed. Sending is work to be
committed. While the record cache of a store is flushed, each change has the record that made it.
Source: `ProcessorContextImpl`, `StreamTask.schedule`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assignor.types import TaskId
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Headers, Record, RecordContext, RecordMetadata
from streams_runtime.processors.api import Cancellable, PunctuationType, Punctuator
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.reporting.losses import TaskLosses
from streams_runtime.state_stores.base import StateStore
from streams_runtime.tasks.commit_state import CommitState
from streams_runtime.tasks.offset_metadata import UNKNOWN_TIME
from streams_runtime.tasks.punctuation_queue import PunctuationQueue, first_schedule
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.record_queue import RecordQueue

_Before = tuple[RecordContext | None, int, Headers]


class ProcessorRuntime:
    """Implements `TaskRuntime` for processors, and `RecordClock` and `RecordContexts` for stores.

    `RecordProcessing` sets its public attributes, and nobody else does, except for `stores`, which the task sets.
    `record`: the input record that is processed, None outside of that; `queue`: the queue it was polled from.
    `current_system_time_ms`: when the present run of records or the present punctuation began. `init_time_ms`: the
    wall-clock time while processors are initialised, else -1. `stores`: empty while they are not open.
    `when_node_failed`: decides about an error of a node; `when_record_failed`: about one of a record that is processed
    with others. `has_several`: a node has several input records as one batch; `record` is the last of them.
    `keeps_raw`: see `RecordContexts`.
    """

    __slots__ = (
        "_clock",
        "_collector",
        "_commits",
        "_current",
        "_flushed",
        "application_id",
        "current_system_time_ms",
        "has_several",
        "init_time_ms",
        "keeps_raw",
        "losses",
        "queue",
        "record",
        "stores",
        "stream_time_ms",
        "stream_time_punctuations",
        "system_time_punctuations",
        "task_id",
        "when_node_failed",
        "when_record_failed",
    )

    def __init__(
        self,
        task_id: TaskId,
        application_id: str,
        graph: ProcessorGraph,
        collector: RecordCollector,
        commits: CommitState,
        clock: Clock,
        losses: TaskLosses,
    ) -> None:
        self.task_id = task_id
        self.losses = losses
        self.application_id = application_id
        self.stores: dict[str, StateStore] = {}
        self.record: Record[Any, Any] | None = None
        self.queue: RecordQueue | None = None
        self.stream_time_ms = UNKNOWN_TIME
        self.init_time_ms = UNKNOWN_TIME
        self.current_system_time_ms = clock.now_ms()
        self.stream_time_punctuations = PunctuationQueue()
        self.system_time_punctuations = PunctuationQueue()
        self._current = graph.current
        self._collector = collector
        self._commits = commits
        self._clock = clock
        self._flushed: RecordContext | None = None
        self.keeps_raw = False
        self.has_several = False
        self.when_node_failed: Callable[[str, Exception], None] = _raise
        self.when_record_failed: Callable[[int, str, Exception], None] = _raise_of_record

    # --- TaskRuntime

    @property
    def record_metadata(self) -> RecordMetadata | None:
        if self._flushed is not None:
            return self._flushed.metadata
        if self.record is None or self.queue is None:
            return None
        return self.queue.polled_metadata()

    @property
    def headers(self) -> Headers:
        if self._flushed is not None:
            return self._flushed.headers
        return () if self.record is None else self.record.headers

    @property
    def current_stream_time_ms(self) -> int:
        return self.stream_time_ms

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
        if not self._commits.is_needed:  # `init` and `close` of processors may forward, too
            self._commits.begin_work()
        self._collector.send(topic, partition, key, value, timestamp_ms, headers)

    def settle(self) -> None:
        self._collector.settle()

    def schedule(
        self, node: str, interval_ms: int, type: PunctuationType, callback: Punctuator, start_time_ms: int | None
    ) -> Cancellable:
        """Raises StreamsRuntimeError for an interval under 1 ms, a start before the epoch, and what is no function."""
        if not callable(callback):
            raise StreamsRuntimeError(
                f"processor {node}: the callback of a punctuation must be a function, not {callback!r}", self.task_id
            )
        if interval_ms < 1:
            raise StreamsRuntimeError(
                f"processor {node}: the shortest interval of a punctuation is 1 ms, not {interval_ms}", self.task_id
            )
        if start_time_ms is not None and start_time_ms < 0:
            raise StreamsRuntimeError(
                f"processor {node}: a punctuation cannot start before the epoch, at {start_time_ms} ms", self.task_id
            )
        if type is PunctuationType.STREAM_TIME:
            queue, now_ms = self.stream_time_punctuations, self.stream_time_ms
        else:
            queue, now_ms = self.system_time_punctuations, self._clock.now_ms()
        schedule = first_schedule(node, interval_ms, type, callback, start_time_ms=start_time_ms, now_ms=now_ms)
        queue.add(schedule)
        return schedule

    def request_commit(self) -> None:
        self._commits.request()

    def node_failed(self, node: str, error: Exception) -> None:
        self.when_node_failed(node, error)

    def record_failed(self, place: int, node: str, error: Exception) -> None:
        self.when_record_failed(place, node, error)

    # --- RecordContexts

    def record_context(self) -> RecordContext:
        raw = None
        if self._flushed is not None:
            raw = self._flushed.raw
        elif self.keeps_raw and self.record is not None and self.queue is not None:
            raw = self.queue.polled_raw()
        return RecordContext(self.record_timestamp_ms, self._current.headers, self.record_metadata, raw)

    @property
    def is_flushing(self) -> bool:
        return self._flushed is not None

    def enter_context(self, context: RecordContext) -> _Before:
        current = self._current
        before = (self._flushed, current.timestamp_ms, current.headers)
        self._flushed = context
        current.timestamp_ms, current.headers = context.timestamp_ms, context.headers
        return before

    def leave_context(self, before: _Before) -> None:
        current = self._current
        self._flushed, current.timestamp_ms, current.headers = before

    # --- RecordClock

    @property
    def record_timestamp_ms(self) -> int:
        """The timestamp of what the current processor works on; in `init` the wall-clock time, as in Kafka."""
        timestamp_ms = self._current.timestamp_ms
        return timestamp_ms if timestamp_ms >= 0 else self.init_time_ms


def _raise(_node: str, error: Exception) -> None:
    raise error


def _raise_of_record(_place: int, _node: str, error: Exception) -> None:
    raise error
