"""Runs records and punctuations of an active task through its processors, and answers what they ask meanwhile.

    process                runs a number of records, run by run of one partition's batch
    punctuate_...          fires what stream time or wall-clock time has reached
    flush                  writes and forwards what the record caches of the task's stores hold back
    init_processors, close_processors

Rules: stream time is the highest timestamp processed. An error of a node goes to the handler of processing errors, with
the input record; when that goes on, only this node is left out, and other branches still get the record. A record that
could not be finished for another reason stays the next one of its partition. A punctuation has no input record; its
time is the time at which it fires; an error in it goes to the same handler, with task and node. All of this, and
sending, is work to be committed. When the log is away, the task tries again under at-least-once. Under exactly-once
half a record may be in the state, and a second try would count it twice, so the task is TaskCorrupted. While the record
cache of a store is flushed, each change has the record that made it, and an error of a node that the flush forwards to
goes to the handler with that record, as it would without a record cache.
Source: `StreamTask.process`, `punctuate`, `initializeTopology`, `flush` and `schedule`, `ProcessorContextImpl`,
`ProcessorNode.process`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import ProcessingFailed, StreamsRuntimeError, TaskCorrupted
from streams_runtime.common.records import Headers, RawRecord, RecordMetadata
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.processors.api import Cancellable, PunctuationType, Punctuator
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.runtime import ABOUT_THE_TASK, RunPosition, Sender
from streams_runtime.reporting.losses import TaskLosses
from streams_runtime.state_stores.base import StateStore
from streams_runtime.state_stores.thread_cache import ContextTuple, TaskCache, ThreadCache
from streams_runtime.tasks.exception_handling import NO_RECORD, ExceptionHandling, FailedInputRecord
from streams_runtime.tasks.input_offsets import InputOffsets
from streams_runtime.tasks.partition_group import PartitionGroup
from streams_runtime.tasks.punctuation_queue import PunctuationQueue, PunctuationSchedule, first_schedule
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.record_queue import UNKNOWN_TIME, RecordQueue

_Before = tuple[ContextTuple | None, str | None, int, Headers]


class ProcessorRuntime:
    """One per active task. It takes records from `buffer`, and is what three sides see of the task: `TaskRuntime` for
    processors, `RecordClock` and `RecordContexts` for stores, and runs and punctuations for the task. So it has more
    methods than others, and all parts that these need.

    `stores`: the open ones, empty while they are not open; the task sets it. `cache`: None: nothing is held back.
    `current_system_time_ms`: when the present run of records or the present punctuation began. `keeps_raw`:
    whether contexts have the input record itself, because a handler of errors may ask for it.
    """

    __slots__ = (
        "_buffer",
        "_clock",
        "_current",
        "_exactly_once",
        "_flushed",
        "_handling",
        "_has_several",
        "_must_punctuate",
        "_offsets",
        "_punctuated_ms",
        "_stream_time_before_ms",
        "_stream_time_punctuations",
        "_system_time_punctuations",
        "application_id",
        "cache",
        "collector",
        "current_system_time_ms",
        "graph",
        "init_time_ms",
        "keeps_raw",
        "losses",
        "queue",
        "stores",
        "stream_time_ms",
        "task_id",
    )

    def __init__(
        self,
        graph: ProcessorGraph,
        buffer: PartitionGroup,
        offsets: InputOffsets,
        collector: RecordCollector,
        handling: ExceptionHandling,
        losses: TaskLosses,
        *,
        configs: StreamsConfig,
        clock: Clock,
        cache: ThreadCache | None,
    ) -> None:
        self.task_id = collector.task_id
        self.application_id = configs.application_id
        self.graph = graph
        self.collector = collector
        self.losses = losses
        self.cache = None if cache is None else TaskCache(cache, self)
        self.stores: dict[str, StateStore] = {}
        self.stream_time_ms = UNKNOWN_TIME
        self.current_system_time_ms = clock.now_ms()
        self.keeps_raw = handling.asks_for_raw
        self._exactly_once = configs.exactly_once
        self._buffer = buffer
        self._offsets = offsets
        self._handling = handling
        self._clock = clock
        self._current = graph.current
        self._stream_time_punctuations = PunctuationQueue()
        self._system_time_punctuations = PunctuationQueue()
        self.queue: RecordQueue | None = None  # of the input record that is processed, None outside of that
        self._flushed: ContextTuple | None = None  # of the change that is flushed
        self._has_several = False
        self.init_time_ms = UNKNOWN_TIME  # the wall-clock time while processors are initialised
        self._punctuated_ms = UNKNOWN_TIME  # the time of the punctuation that fires
        self._must_punctuate = False
        self._stream_time_before_ms = UNKNOWN_TIME  # before the present run

    # --- processors

    def init_processors(self) -> None:
        """Raises StreamsRuntimeError for an error in a processor's `init`; then all of them are closed again."""
        self.init_time_ms = self.current_system_time_ms = self._clock.now_ms()
        try:
            with self._watched():
                self.graph.init(self)
        except Exception as error:
            # so that the next try begins from the start
            with contextlib.suppress(StreamsRuntimeError):
                self.close_processors()
            self.clear_punctuations()
            if isinstance(error.__cause__, ABOUT_THE_TASK):
                raise error.__cause__ from error
            raise
        finally:
            self.init_time_ms = UNKNOWN_TIME

    def close_processors(self) -> None:
        """Raises StreamsRuntimeError for the last error in a processor's `close`, when all were called."""
        with self._watched():
            self.graph.close()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """What processors put into stores is work to be committed, even if it is still in a cache."""
        with self.collector.watched(self._offsets.begin_work):
            yield
        if self.cache is not None and self.cache.is_dirty:
            self._offsets.begin_work()

    # --- records

    def is_ready(self, now_ms: int) -> bool:
        """Whether `process` would process a record, or give the log what it did not take. Raises as it does."""
        try:
            return bool(self.collector.pending) or self._buffer.ready(now_ms)
        except LogTimeout as error:
            raise self._timed_out(error) from error

    def process(self, now_ms: int, max_records: int) -> int:
        """Run up to so many records through the processors; how many were processed. It stops early where a node takes
        batches and a punctuation of stream time has become due.

        Raises ProcessingFailed, TaskMigrated, StreamsRuntimeError. When the log is away, raises TaskCorrupted under
        exactly-once, else LogTimeout, after which the next call tries again; but returns when it has processed some.
        """
        buffer, collector = self._buffer, self.collector
        self.current_system_time_ms = now_ms
        self._must_punctuate = False
        processed = 0
        try:
            if collector.pending:  # what the log did not take in the last turn
                collector.settle()
            while processed < max_records and not self._must_punctuate:
                run = buffer.next_run(now_ms, max_records - processed)
                if run is None:
                    break
                queue, most = run
                before = queue.handed_out
                try:
                    self._process_run(queue, most)
                finally:
                    processed += queue.handed_out - before
            if collector.pending:
                collector.settle()
        except LogTimeout as error:
            if self._exactly_once or processed == 0:
                raise self._timed_out(error) from error
        except ProcessingFailed:
            self._settle_if_possible()
            raise
        finally:
            if self.queue is not None:
                self.queue = None
                self._current.clear()
            if buffer.paused:
                buffer.resume_partitions()
        return processed

    def _process_run(self, queue: RecordQueue, most: int) -> None:
        if not self._offsets.is_needed:  # spares a call for each run, which may have one record only
            self._offsets.begin_work()
        self.queue = queue
        if not self.graph.collecting:
            queue.deliver(most, self, self._record_failed)
            return
        due_ms = self._due_ms()
        self._stream_time_before_ms = self.stream_time_ms
        queue.deliver(most, self, self._record_failed, until_ms=due_ms)
        self._run_collected(queue)
        self._must_punctuate = self.stream_time_ms >= due_ms

    def _due_ms(self) -> int:
        """The stream time at which a punctuation becomes due that is not due yet."""
        next_ms = self._stream_time_punctuations.next_time_ms()
        return next_ms if next_ms is not None and next_ms > self.stream_time_ms else JAVA_LONG_MAX

    def _run_collected(self, queue: RecordQueue) -> None:
        """Nodes that take batches get those of the run. When that raises, the whole run comes again."""
        try:
            self.graph.run_collected()
        except BaseException:
            self.graph.forget_collected()
            queue.take_run_back()
            self.stream_time_ms = self._stream_time_before_ms
            raise

    def _record_failed(self, queue: RecordQueue, error: Exception) -> None:
        """Returns when the task may go on without the record at the queue's place."""
        self._run_collected(queue)  # records before this one
        if isinstance(error, ABOUT_THE_TASK):
            raise error
        self._handling.processing_failed(queue.failed(queue.place, self.graph.failed_node(error), error))

    # --- punctuations

    def punctuate_stream_time(self) -> bool:
        """Whether anything fired; nothing does before the first record. Raises as `process` does."""
        time_ms = self.stream_time_ms
        return time_ms != UNKNOWN_TIME and self._punctuate(self._stream_time_punctuations, time_ms)

    def punctuate_system_time(self, now_ms: int) -> bool:
        """Whether anything fired. Raises as `process` does."""
        return self._punctuate(self._system_time_punctuations, now_ms)

    def next_wall_clock_punctuation_ms(self) -> int | None:
        return self._system_time_punctuations.next_time_ms()

    def clear_punctuations(self) -> None:
        self._stream_time_punctuations.clear()
        self._system_time_punctuations.clear()

    def _punctuate(self, queue: PunctuationQueue, time_ms: int) -> bool:
        if time_ms < queue.due_ms:
            return False
        self._punctuated_ms = time_ms
        try:
            has_fired = queue.maybe_punctuate(time_ms, self._fire)
            self.collector.settle()
        except ProcessingFailed:
            self._settle_if_possible()
            raise
        except LogTimeout as error:
            raise self._timed_out(error) from error
        finally:
            self._punctuated_ms = UNKNOWN_TIME
        return has_fired

    def _fire(self, schedule: PunctuationSchedule) -> None:
        self._offsets.begin_work()
        self.current_system_time_ms = self._clock.now_ms()
        try:
            schedule.callback(self._punctuated_ms)
        except ABOUT_THE_TASK:
            raise
        except Exception as error:
            node = self.graph.failed_node(error) or schedule.node
            self._handling.processing_failed(self._failed_punctuation(node, error))

    def _failed_punctuation(self, node: str, error: Exception) -> FailedInputRecord:
        return FailedInputRecord(self.task_id, NO_RECORD, node, None, None, (), self._punctuated_ms, error)

    # --- what is held back

    def flush(self) -> None:
        """Give the producer everything. Raises as `process` does; what was not given by then, the next call gives."""
        try:
            if self.cache is not None:
                self.cache.flush()
            self.collector.settle()
        except LogTimeout as error:
            raise self._timed_out(error) from error

    def _settle_if_possible(self) -> None:
        """Send what earlier records have written. Ignores errors: the caller raises its own."""
        with contextlib.suppress(StreamsRuntimeError, LogTimeout):
            self.collector.settle()

    def _timed_out(self, error: LogTimeout) -> Exception:
        if not self._exactly_once:
            return error
        return TaskCorrupted([self.task_id], f"the log was away in the middle of a transaction ({error})")

    # --- TaskRuntime

    @property
    def record_metadata(self) -> RecordMetadata | None:
        if self._flushed is not None:
            _, _, partition, offset, _ = self._flushed
            return None if partition is None else RecordMetadata(*partition, offset)
        return None if self.queue is None else self.queue.polled_metadata()

    @property
    def headers(self) -> Headers:
        if self._flushed is not None:
            return self._flushed[1]
        return () if self.queue is None else self.queue.polled_headers()

    @property
    def current_stream_time_ms(self) -> int:
        return self.stream_time_ms

    def partitions_of(self, topic: str) -> int:
        return self.collector.partitions_of(topic)

    def sender(self, topic: str, suffix_bytes: int = 0) -> Sender:
        return self.collector.sender(topic, suffix_bytes)

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
        """`NodeContext.schedule` has checked the arguments."""
        if type is PunctuationType.STREAM_TIME:
            queue, now_ms = self._stream_time_punctuations, self.stream_time_ms
        else:
            queue, now_ms = self._system_time_punctuations, self._clock.now_ms()
        schedule = first_schedule(node, interval_ms, type, callback, start_time_ms=start_time_ms, now_ms=now_ms)
        queue.add(schedule)
        return schedule

    def request_commit(self) -> None:
        self._offsets.request()

    def node_failed(self, node: str, error: Exception) -> bool:
        if isinstance(error, ABOUT_THE_TASK):
            return False
        if self._flushed is not None:
            timestamp_ms, headers, _, _, raw = self._flushed
            raw = raw or RawRecord(None, None, headers, timestamp_ms)
            failed = FailedInputRecord(self.task_id, self.record_metadata or NO_RECORD, node, *raw, error)
        elif self._has_several:
            return False
        elif self.queue is not None:
            failed = self.queue.failed(self.queue.polled_place, node, error)
        elif self._punctuated_ms != UNKNOWN_TIME:
            failed = self._failed_punctuation(node, error)
        else:  # a processor forwards as it closes
            return False
        self._handling.processing_failed(failed)
        return True

    # --- RecordContexts

    def record_context(self) -> ContextTuple:
        current, queue = self._current, self.queue
        timestamp_ms = current.timestamp_ms
        if timestamp_ms < 0:
            timestamp_ms = self.init_time_ms
        flushed = self._flushed
        if flushed is not None:
            _, _, partition, offset, raw = flushed
            return timestamp_ms, current.headers, partition, offset, raw
        if queue is None:
            return timestamp_ms, current.headers, None, -1, None
        raw = queue.polled_raw() if self.keeps_raw else None
        return timestamp_ms, current.headers, queue.partition, queue.offsets[queue.place - 1], raw

    def begin_flush(self) -> _Before:
        current = self._current
        return self._flushed, current.name, current.timestamp_ms, current.headers

    def set_context(self, made_by: ContextTuple) -> None:
        self._flushed = made_by
        self._current.timestamp_ms, self._current.headers, _, _, _ = made_by

    def end_flush(self, before: _Before) -> None:
        current = self._current
        self._flushed, current.name, current.timestamp_ms, current.headers = before

    # --- RecordClock

    @property
    def record_timestamp_ms(self) -> int:
        """The timestamp of what the current processor works on; in `init` the wall-clock time, as in Kafka."""
        timestamp_ms = self._current.timestamp_ms
        return timestamp_ms if timestamp_ms >= 0 else self.init_time_ms
