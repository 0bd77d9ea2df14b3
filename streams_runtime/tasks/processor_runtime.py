"""What processors and stores ask of the active task they run in: where a record is from, the time, sending, schedules.

Rules: in a punctuation there is no input record. Stream time is the highest timestamp processed. Sending is work to be
committed. While the record cache of a store is flushed, each change has the record that made it. An error of a node
goes to the handler of processing errors, with the input record, or with that of the change that is flushed.
Source: `ProcessorContextImpl`, `StreamTask.schedule`, `ProcessorNode.process`.
"""

from __future__ import annotations

from assignor.types import TaskId
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Headers, RawRecord, RecordContext, RecordMetadata
from streams_runtime.processors.api import Cancellable, PunctuationType, Punctuator
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.runtime import ABOUT_THE_TASK, RunPosition, Sender
from streams_runtime.reporting.losses import TaskLosses
from streams_runtime.state_stores.base import StateStore
from streams_runtime.state_stores.thread_cache import MadeBy
from streams_runtime.tasks.commit_state import CommitState
from streams_runtime.tasks.exception_handling import NO_RECORD, ExceptionHandling, FailedInputRecord
from streams_runtime.tasks.offset_metadata import UNKNOWN_TIME
from streams_runtime.tasks.punctuation_queue import PunctuationQueue, first_schedule
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.record_queue import RecordQueue

_Before = tuple[RecordContext | None, str | None, int, Headers]


class ProcessorRuntime:
    """Implements `TaskRuntime` for processors, and `RecordClock` and `RecordContexts` for stores.

    `RecordProcessing` sets its public attributes, and nobody else does, except for `stores`, which the task sets.
    `queue`: of the input record that is processed, None outside of that. `current_system_time_ms`: when the present run
    of records or the present punctuation began. `init_time_ms`: the wall-clock time while processors are initialised,
    else -1. `punctuated_ms`: the time of the punctuation that fires, else -1. `stores`: empty while they are not open.
    `keeps_raw`: whether contexts have the input record itself, because a handler of errors may ask for it.
    """

    __slots__ = (
        "_clock",
        "_collector",
        "_commits",
        "_current",
        "_flushed",
        "_handling",
        "_has_several",
        "application_id",
        "current_system_time_ms",
        "init_time_ms",
        "keeps_raw",
        "losses",
        "punctuated_ms",
        "queue",
        "stores",
        "stream_time_ms",
        "stream_time_punctuations",
        "system_time_punctuations",
        "task_id",
    )

    def __init__(
        self,
        task_id: TaskId,
        application_id: str,
        graph: ProcessorGraph,
        collector: RecordCollector,
        commits: CommitState,
        handling: ExceptionHandling,
        clock: Clock,
        losses: TaskLosses,
    ) -> None:
        self.task_id = task_id
        self.losses = losses
        self.application_id = application_id
        self.stores: dict[str, StateStore] = {}
        self.queue: RecordQueue | None = None
        self.stream_time_ms = UNKNOWN_TIME
        self.init_time_ms = self.punctuated_ms = UNKNOWN_TIME
        self.current_system_time_ms = clock.now_ms()
        self.stream_time_punctuations = PunctuationQueue()
        self.system_time_punctuations = PunctuationQueue()
        self._current = graph.current
        self._collector = collector
        self._commits = commits
        self._clock = clock
        self._flushed: RecordContext | None = None
        self._handling = handling
        self._has_several = False
        self.keeps_raw = handling.asks_for_raw

    # --- TaskRuntime

    @property
    def record_metadata(self) -> RecordMetadata | None:
        if self._flushed is not None:
            return self._flushed.metadata
        return None if self.queue is None else self.queue.polled_metadata()

    @property
    def headers(self) -> Headers:
        if self._flushed is not None:
            return self._flushed.headers
        return () if self.queue is None else self.queue.polled_headers()

    @property
    def current_stream_time_ms(self) -> int:
        return self.stream_time_ms

    def partitions_of(self, topic: str) -> int:
        return self._collector.partitions_of(topic)

    def sender(self, topic: str) -> Sender:
        return self._collector.sender(topic)

    @property
    def position(self) -> RunPosition | None:
        if self.queue is None or self._flushed is not None:
            return None
        return RunPosition(self.queue.polled_place, self.stream_time_ms, self._has_several)

    def move_to(self, position: RunPosition, *, several: bool) -> None:
        assert self.queue is not None, "only records of a run are collected"
        self.queue.place = position.place + 1
        self.stream_time_ms = position.stream_time_ms
        self._has_several = several

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

    def node_failed(self, node: str, error: Exception) -> bool:
        if isinstance(error, ABOUT_THE_TASK):
            return False
        if self._flushed is not None:
            context = self._flushed
            raw = context.raw or RawRecord(None, None, context.headers, context.timestamp_ms)
            failed = FailedInputRecord(self.task_id, context.metadata or NO_RECORD, node, *raw, error)
        elif self._has_several:
            return False
        elif self.queue is not None:
            failed = self.queue.failed(self.queue.polled_place, node, error)
        elif self.punctuated_ms != UNKNOWN_TIME:
            failed = FailedInputRecord(self.task_id, NO_RECORD, node, None, None, (), self.punctuated_ms, error)
        else:  # a processor forwards as it closes
            return False
        self._handling.processing_failed(failed)
        return True

    # --- RecordContexts

    def record_context(self) -> MadeBy:
        current, queue = self._current, self.queue
        timestamp_ms = current.timestamp_ms
        if timestamp_ms < 0:
            timestamp_ms = self.init_time_ms
        flushed = self._flushed
        if flushed is not None:
            metadata, raw = flushed.metadata, flushed.raw
            if metadata is None:
                return timestamp_ms, current.headers, None, -1, raw
            return timestamp_ms, current.headers, metadata[:2], metadata.offset, raw
        if queue is None:
            return timestamp_ms, current.headers, None, -1, None
        raw = queue.polled_raw() if self.keeps_raw else None
        return timestamp_ms, current.headers, queue.partition, queue.polled_offset(), raw

    def enter_context(self, context: RecordContext) -> _Before:
        current = self._current
        before = (self._flushed, current.name, current.timestamp_ms, current.headers)
        self._flushed = context
        current.works_on(context.timestamp_ms, context.headers)
        return before

    def leave_context(self, before: _Before) -> None:
        current = self._current
        self._flushed, current.name, current.timestamp_ms, current.headers = before

    # --- RecordClock

    @property
    def record_timestamp_ms(self) -> int:
        """The timestamp of what the current processor works on; in `init` the wall-clock time, as in Kafka."""
        timestamp_ms = self._current.timestamp_ms
        return timestamp_ms if timestamp_ms >= 0 else self.init_time_ms
