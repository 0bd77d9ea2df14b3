"""Runs records and punctuations of an active task through the task's processors. The processors use the class
`ProcessorRuntime` through the interface `TaskRuntime`.

The main methods of `ProcessorRuntime` are:
- `process` passes records through the processors. Consecutive records of one partition's batch form a run.
- `punctuate_stream_time` and `punctuate_system_time` fire the punctuations that are due.
- `flush` writes and forwards the changes in the record caches of the task's stores.
- `init_processors` and `close_processors` call `init` and `close` of every processor.

Rules:
- Stream time is the highest timestamp of the processed records.
- If a node raises an error, the processing handler gets the error and the input record. If the handler returns
  CONTINUE, only the failed node skips the record. The other branches of the graph still get the record.
- The errors in `TASK_ERRORS` do not go to a handler. After an error in `TASK_ERRORS`, the record is processed again
  later.
- A punctuation has no input record. The argument of a punctuation is the time at which it fires, not the time at which
  it was due. If a punctuation raises an error, the processing handler gets the error, the task and the node.
- A task has to commit after it has processed a record, fired a punctuation, sent a record or changed a store.
- If the log does not answer in time, a task under at-least-once tries again. If the log does not answer in time, a task
  under exactly-once raises TaskCorrupted. The stores of the task may already contain some changes of the record, so a
  second try could apply a change twice.
- When a record cache is flushed, each change is written and forwarded with the context of the input record that made
  it. If a node then fails, the handler gets this input record, as it would without a record cache.

Source: `StreamTask.process`, `punctuate`, `initializeTopology`, `flush` and `schedule`, `ProcessorContextImpl`,
`ProcessorNode.process`.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import ProcessingFailed, StreamsRuntimeError, TaskCorrupted
from streams_runtime.common.losses import TaskLosses
from streams_runtime.common.records import Headers, RawRecord, Record
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.processors.api import Cancellable, FailedRecord, PunctuationType, Punctuator
from streams_runtime.processors.context import Receiver
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.runtime import TASK_ERRORS, RunPosition, SinkSettings
from streams_runtime.state_stores.state_store import CommitLoggingStore, StateStore, logs_at_commit
from streams_runtime.state_stores.thread_cache import TaskCache, ThreadCache
from streams_runtime.tasks.current_record import CurrentRecord
from streams_runtime.tasks.exception_handling import NO_RECORD, ExceptionHandling, failed_output
from streams_runtime.tasks.input_offsets import InputOffsets
from streams_runtime.tasks.partition_group import PartitionGroup
from streams_runtime.tasks.punctuation_queue import PunctuationQueue, PunctuationSchedule, first_schedule
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.record_queue import UNKNOWN_TIME, RecordQueue


@dataclass(eq=False, repr=False)
class ProcessorRuntime(CurrentRecord):
    """Runs the processors of one active task on the records of `buffer`.

    `ProcessorRuntime` has more than a dozen public methods, because three kinds of callers use it. Processors use the
    interface `TaskRuntime`. Stores use the interfaces `RecordClock` and `RecordContexts`. The task itself calls the
    methods that process records and fire punctuations.

    `stores`: the open stores, which the task sets; empty while the stores are closed. `cache`: the record cache, or
    None if the task has none. `current_system_time_ms`: the wall-clock time of the present call of `process` or of the
    present punctuation.
    """

    graph: ProcessorGraph
    _buffer: PartitionGroup
    _offsets: InputOffsets
    collector: RecordCollector
    _handling: ExceptionHandling
    losses: TaskLosses
    configs: InitVar[StreamsConfig]
    _clock: Clock
    thread_cache: InitVar[ThreadCache | None]
    global_stores: Mapping[str, StateStore] = field(default_factory=dict)

    def __post_init__(self, configs: StreamsConfig, thread_cache: ThreadCache | None) -> None:
        super().__init__(self.graph.current, keeps_raw=self._handling.needs_raw_record)
        self.task_id = self.collector.task_id
        self.application_id, self.default_serdes = configs.application_id, configs.default_serdes
        self.cache = None if thread_cache is None else TaskCache(thread_cache, self)
        self.stores: dict[str, StateStore] = {}
        self._logging_at_commit: Sequence[CommitLoggingStore] = ()
        self.stream_time_ms = UNKNOWN_TIME
        self.current_system_time_ms = self._clock.now_ms()
        self._exactly_once = configs.exactly_once
        self._stream_time_punctuations = PunctuationQueue()
        self._system_time_punctuations = PunctuationQueue()
        self._in_batch = False  # True while a node processes several records of the run at once.
        self._punctuated_ms = UNKNOWN_TIME  # The time of the punctuation that is running.
        self._must_punctuate = False
        self._stream_time_before_ms = UNKNOWN_TIME  # The stream time at which the present run began.

    # --- processors

    def init_processors(self) -> None:
        """Call `init` of every processor. If an `init` raises an error, closes all processors again and raises
        StreamsRuntimeError. If the cause of this error is one of `TASK_ERRORS`, raises the cause instead.
        """
        self.init_time_ms = self.current_system_time_ms = self._clock.now_ms()
        self._logging_at_commit = [store for store in self.stores.values() if logs_at_commit(store)]
        try:
            with self._noting_work():
                self.graph.init(self)
        except Exception as error:
            # The next try initialises all processors again, so all of them are closed here.
            with contextlib.suppress(StreamsRuntimeError):
                self.close_processors()
            self.clear_punctuations()
            if isinstance(error.__cause__, TASK_ERRORS):
                raise error.__cause__ from error  # an error in TASK_ERRORS is not an error of the processor
            raise
        finally:
            self.init_time_ms = UNKNOWN_TIME

    def close_processors(self) -> None:
        """Call `close` of every processor. If processors raise errors, closes the other processors as well, and then
        raises a StreamsRuntimeError for the last error.
        """
        with self._noting_work():
            self.graph.close()

    @contextlib.contextmanager
    def _noting_work(self) -> Iterator[None]:
        """Call `begin_work` if the `with` block sends a record or changes a store. Also call `begin_work` for a change
        that is only in the record cache.
        """
        with self.collector.call_if_sent(self._offsets.begin_work):
            yield
        if self.cache is not None and self.cache.is_dirty:
            self._offsets.begin_work()

    # --- records

    def is_ready(self, now_ms: int) -> bool:
        """Returns True if `process` has a record to process, or if an earlier call could not send all output records.
        Raises the errors of `process`.
        """
        try:
            return bool(self.collector.pending) or self._buffer.ready(now_ms)
        except LogTimeout as error:
            raise self._timed_out(error) from error

    def process(self, now_ms: int, max_records: int) -> int:
        """Run up to `max_records` records through the processors. Returns the number of records processed.

        If the graph has nodes that process batches, `process` stops after a record that makes a stream-time punctuation
        due.

        Raises ProcessingFailed, TaskMigrated, StreamsRuntimeError. Under exactly-once, raises TaskCorrupted if the log
        does not answer in time. Under at-least-once, raises LogTimeout if no record was processed and the log does not
        answer in time. The next call of `process` sends the remaining output records.
        """
        buffer, collector = self._buffer, self.collector
        self.current_system_time_ms = now_ms
        self._must_punctuate = False
        processed = 0
        try:
            if collector.pending:  # output records that an earlier call could not send
                collector.send_rows()
            while processed < max_records and not self._must_punctuate:
                run = buffer.next_run(now_ms, max_records - processed)
                if run is None:
                    break
                queue, run_limit = run
                before = queue.handed_out
                try:
                    self._process_run(queue, run_limit)
                finally:
                    processed += queue.handed_out - before
            if collector.pending:
                collector.send_rows()
        except LogTimeout as error:
            if self._exactly_once or processed == 0:
                raise self._timed_out(error) from error
        except ProcessingFailed:
            self._send_rows_if_possible()
            raise
        finally:
            if self.queue is not None:
                self.queue = None
                self.graph.current.clear()
            if buffer.paused:
                buffer.resume_partitions()
        return processed

    def _process_run(self, queue: RecordQueue, max_records: int) -> None:
        # A run may have only one record. To save time, `begin_work` is called only once between two commits.
        if not self._offsets.commit_needed:
            self._offsets.begin_work()
        self.queue = queue
        if not self.graph.collecting:
            queue.deliver(max_records, self, self._record_failed)
            return
        # No punctuation may fire inside a batch, so the run ends after the record that makes a punctuation due.
        due_ms = self._next_punctuation_ms()
        self._stream_time_before_ms = self.stream_time_ms
        queue.deliver(max_records, self, self._record_failed, until_ms=due_ms)
        self._run_collected(queue)
        self._must_punctuate = self.stream_time_ms >= due_ms

    def _next_punctuation_ms(self) -> int:
        """Returns the stream time of the next punctuation. Returns JAVA_LONG_MAX if no punctuation is scheduled, or if
        the next punctuation is already due.
        """
        next_ms = self._stream_time_punctuations.next_time_ms()
        return next_ms if next_ms is not None and next_ms > self.stream_time_ms else JAVA_LONG_MAX

    def _run_collected(self, queue: RecordQueue) -> None:
        """Pass the collected records of a run to the nodes that process batches. If a node raises an error, the whole
        run is processed again later.
        """
        try:
            self.graph.run_collected()
        except BaseException:
            self.graph.forget_collected()
            queue.rewind_run()
            self.stream_time_ms = self._stream_time_before_ms
            raise

    def _record_failed(self, queue: RecordQueue, error: Exception) -> None:
        """Let the handler decide about the next record of the queue. Returns normally if the task can continue without
        the record; otherwise raises an error.
        """
        self._run_collected(queue)  # the earlier records of the run are processed before the failed record is handled
        if isinstance(error, TASK_ERRORS):
            raise error
        self._handling.processing_failed(queue.failed(queue.place, self.graph.failed_node(error), error))

    # --- punctuations

    def punctuate_stream_time(self) -> bool:
        """Fire the stream-time punctuations that are due. No stream-time punctuation is due before the first record.
        Returns True if a punctuation fired. Raises the errors of `process`.
        """
        time_ms = self.stream_time_ms
        return time_ms != UNKNOWN_TIME and self._punctuate(self._stream_time_punctuations, time_ms)

    def punctuate_system_time(self, now_ms: int) -> bool:
        """Fire the wall-clock punctuations that are due. Returns True if a punctuation fired. Raises the errors of
        `process`.
        """
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
            self.collector.send_rows()
        except ProcessingFailed:
            self._send_rows_if_possible()
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
        except TASK_ERRORS:
            raise
        except Exception as error:
            node = self.graph.failed_node(error) or schedule.node
            self._handling.processing_failed(self._failed_punctuation(node, error))

    def _failed_punctuation(self, node: str, error: Exception) -> FailedRecord:
        return FailedRecord(self.task_id, NO_RECORD, node, None, None, (), self._punctuated_ms, error)

    # --- flush

    def flush(self) -> None:
        """Flush the record cache, log the changes of stores that log at a commit, and pass all collected output records
        to the producer. Raises the errors of `process`. If a call of `flush` fails, the next call flushes the remaining
        changes.
        """
        try:
            if self.cache is not None:
                self.cache.flush()
            for store in self._logging_at_commit:
                store.log_changes()
            self.collector.send_rows()
        except LogTimeout as error:
            raise self._timed_out(error) from error

    def _send_rows_if_possible(self) -> None:
        """Send the output of the records before the failed record. Ignores errors, because the caller raises the error
        of the failed record.
        """
        with contextlib.suppress(StreamsRuntimeError, LogTimeout):
            self.collector.send_rows()

    def _timed_out(self, error: LogTimeout) -> Exception:
        if not self._exactly_once:
            return error
        return TaskCorrupted([self.task_id], f"the log was away in the middle of a transaction ({error})", damaged=())

    # --- TaskRuntime

    @property
    def processor_metadata(self) -> dict[str, int]:
        return self._offsets.processor_metadata

    @property
    def position(self) -> RunPosition | None:
        if self.queue is None or self.flush_context is not None:
            return None
        return RunPosition(self.queue.polled_place, self.stream_time_ms, self._in_batch)

    def move_to(self, position: RunPosition, *, in_batch: bool) -> None:
        """See `TaskRuntime.move_to`."""
        assert self.queue is not None, "only records of a run are collected"
        self.queue.place = position.place + 1  # the field `place` of a queue is the index after its current record
        self.stream_time_ms = position.stream_time_ms
        self._in_batch = in_batch

    def sink(self, node: str, topic: str, settings: SinkSettings) -> Receiver:
        """See `TaskRuntime.sink`."""
        send, handling = self.collector.sink(node, topic, settings), self._handling
        if not handling.calls_production_handler:
            return send

        def handled(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                send(key, value, timestamp_ms, headers)
            except Exception as error:
                output = failed_output(topic, Record(key, value, timestamp_ms, headers), error)
                failed = None if output is None else self._failed_record(node, error)
                if output is None or failed is None or not handling.production_failed(failed, output):
                    raise

        return handled

    def schedule(
        self, node: str, interval_ms: int, type: PunctuationType, callback: Punctuator, start_time_ms: int | None
    ) -> Cancellable:
        """The caller, `NodeContext.schedule`, has checked the arguments."""
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
        """See `TaskRuntime.node_failed`."""
        failed = None if isinstance(error, TASK_ERRORS) else self._failed_record(node, error)
        if failed is None:
            return False
        self._handling.processing_failed(failed)
        return True

    def _failed_record(self, node: str, error: Exception) -> FailedRecord | None:
        """Returns the current input record or punctuation for a handler. Returns None if the error belongs to several
        records of a batch, or to a record that was forwarded in `init` or `close`.
        """
        if self.flush_context is not None:
            timestamp_ms, headers, _, _, raw, _ = self.flush_context
            raw = raw or RawRecord(None, None, headers, timestamp_ms)
            return FailedRecord(self.task_id, self.record_metadata or NO_RECORD, node, *raw, error)
        if self._in_batch:
            return None
        if self.queue is not None:
            return self.queue.failed(self.queue.polled_place, node, error)
        return None if self._punctuated_ms == UNKNOWN_TIME else self._failed_punctuation(node, error)
