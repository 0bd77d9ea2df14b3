"""Runs records and punctuations of an active task through its processors: the hot path.

    process                runs a number of records, run by run of one partition
    punctuate_...          fires what stream time or wall-clock time has reached
    flush                  writes and forwards what the record caches of the task's stores hold back
    init_processors, close_processors

Rules: stream time is the highest timestamp processed. An error of a node goes to the handler of processing errors, with
the input record; when that goes on, only this node is left out, and other branches still get the record. A record that
could not be finished for another reason goes back to the buffer. A punctuation has no input record; its
time is the time at which it fires; an error in it goes to the same handler, with task and node. All of this is work to
be committed. When the log is away, the task tries again under at-least-once. Under exactly-once half a record may be
in the state, and a second try would count it twice, so the task is TaskCorrupted. An error of a node that a flush
forwards to goes to that handler as well, with the input record of the change, as it would without a record cache.
Source: `StreamTask.process`, `StreamTask.punctuate`, `StreamTask.initializeTopology`, `StreamTask.flush`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Literal

from assignor.types import TaskId
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import ProcessingFailed, StreamsRuntimeError, TaskCorrupted
from streams_runtime.common.records import RawRecord, Record
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.processors.fused_loop import FusedLoop
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.runtime import ABOUT_THE_TASK
from streams_runtime.state_stores.task_cache import TaskCache
from streams_runtime.tasks.commit_state import CommitState
from streams_runtime.tasks.exception_handling import NO_RECORD, ExceptionHandling, FailedInputRecord
from streams_runtime.tasks.input_buffer import InputBuffer
from streams_runtime.tasks.offset_metadata import UNKNOWN_TIME
from streams_runtime.tasks.processor_runtime import ProcessorRuntime
from streams_runtime.tasks.punctuation_queue import PunctuationQueue, PunctuationSchedule
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.record_queue import QueuedColumns, RecordQueue


class RecordProcessing:
    """One per active task. It takes records from `buffer`; `runtime` answers what processors ask meanwhile."""

    __slots__ = (
        "_buffer",
        "_cache",
        "_clock",
        "_collector",
        "_commits",
        "_exactly_once",
        "_graph",
        "_handling",
        "_has_fused_flushes",
        "_must_punctuate",
        "_processed",
        "_punctuated_ms",
        "_task_id",
        "runtime",
    )

    def __init__(
        self,
        task_id: TaskId,
        graph: ProcessorGraph,
        buffer: InputBuffer,
        runtime: ProcessorRuntime,
        collector: RecordCollector,
        handling: ExceptionHandling,
        commits: CommitState,
        clock: Clock,
        cache: TaskCache,
        *,
        exactly_once: bool,
    ) -> None:
        self.runtime = runtime
        runtime.when_node_failed = self._node_failed
        runtime.when_record_failed = self._record_of_batch_failed
        runtime.keeps_raw = handling.asks_for_raw
        self._cache = cache
        self._task_id = task_id
        self._graph = graph
        self._buffer = buffer
        self._collector = collector
        self._handling = handling
        self._commits = commits
        self._clock = clock
        self._exactly_once = exactly_once
        self._processed = 0
        self._must_punctuate = False
        self._punctuated_ms = UNKNOWN_TIME  # the time of the punctuation that fires now
        self._has_fused_flushes = False  # since the processors were initialised

    # --- processors

    def init_processors(self) -> None:
        """Raises StreamsRuntimeError for an error in a processor's `init`; then all of them are closed again."""
        runtime = self.runtime
        runtime.init_time_ms = runtime.current_system_time_ms = self._clock.now_ms()
        self._has_fused_flushes = False
        try:
            with self._watched():
                self._graph.init(runtime)
        except Exception as error:
            # so that the next try begins from the start
            with contextlib.suppress(StreamsRuntimeError):
                self.close_processors()
            self.clear_punctuations()
            if isinstance(error.__cause__, ABOUT_THE_TASK):
                raise error.__cause__ from error
            raise
        finally:
            runtime.init_time_ms = UNKNOWN_TIME

    def continue_at(self, stream_time_ms: int) -> None:
        """Set the stream time at which an earlier owner of the task stopped; -1 when not known."""
        self.runtime.stream_time_ms = stream_time_ms

    def close_processors(self) -> None:
        """Raises StreamsRuntimeError for the last error in a processor's `close`, when all were called."""
        with self._watched():
            self._graph.close()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """What processors put into stores is work to be committed, even if it is still in a cache."""
        with self._collector.watched(self._commits.begin_work):
            yield
        if self._cache.is_dirty:
            self._commits.begin_work()

    # --- records

    def is_ready(self, now_ms: int) -> bool:
        """Whether `process` would process a record, or give the log what it did not take. Raises as it does."""
        try:
            return self._collector.has_rows or self._buffer.is_ready(now_ms)
        except LogTimeout as error:
            raise self._timed_out(error) from error

    def process(self, now_ms: int, max_records: int) -> int:
        """Run up to so many records through the processors; how many were processed. It stops early where a node takes
        batches and a punctuation of stream time has become due.

        Raises ProcessingFailed, TaskMigrated, StreamsRuntimeError. When the log is away, raises TaskCorrupted under
        exactly-once, else LogTimeout, after which the next call tries again; but returns when it has processed some.
        """
        buffer, next_run = self._buffer, self._buffer.next_run
        self.runtime.current_system_time_ms = now_ms
        self._processed = 0
        self._must_punctuate = False
        try:
            self._collector.settle()  # what the log did not take in the last turn
            if (unfinished := buffer.take_unfinished()) is not None:
                self._process_again(*unfinished)
            while self._processed < max_records:
                run = next_run(now_ms, max_records - self._processed)
                if run is None:
                    break
                self._process_run(*run)
                if self._must_punctuate:
                    break
            self._collector.settle()
        except LogTimeout as error:
            if self._exactly_once or self._processed == 0:
                raise self._timed_out(error) from error
        except ProcessingFailed:
            self._settle_if_possible()
            raise
        finally:
            self.runtime.record = None
            buffer.resume_partitions()
        return self._processed

    def _process_run(self, queue: RecordQueue, max_records: int) -> None:
        if not self._commits.is_needed:  # spares a call for each run, which may have one record only
            self._commits.begin_work()
        self.runtime.queue = queue
        loop = queue.loop
        if loop is None:
            loop = queue.loop = self._fused(queue)
        if loop is False:
            self._process_one_by_one(queue, max_records)
            return
        due_ms = self._due_ms() if loop.takes_batches else None
        if queue.has_head:  # it was read for its timestamp
            self._process_one_by_one(queue, 1)
            max_records -= 1
        if max_records and (due_ms is None or self.runtime.stream_time_ms < due_ms):
            columns = queue.columns(max_records)
            if columns is None:
                self._process_one_by_one(queue, max_records if due_ms is None else 1)
            else:
                self._process_columns(loop, queue, columns if due_ms is None else _up_to(due_ms, columns))
        if due_ms is not None:
            self._must_punctuate = self.runtime.stream_time_ms >= due_ms

    def _due_ms(self) -> int | None:
        """The stream time at which a punctuation becomes due that is not due yet."""
        next_ms = self.runtime.stream_time_punctuations.next_time_ms()
        return next_ms if next_ms is not None and next_ms > self.runtime.stream_time_ms else None

    def _process_one_by_one(self, queue: RecordQueue, max_records: int) -> None:
        runtime = self.runtime
        poll, process = queue.poll, queue.process
        stream_time_ms = runtime.stream_time_ms
        done = self._processed
        end = done + max_records
        try:
            while done < end:
                record = poll()
                if record is None:
                    break
                runtime.record = record
                if record[2] > stream_time_ms:
                    runtime.stream_time_ms = stream_time_ms = record[2]
                try:
                    process(record)
                except Exception as error:
                    self._processing_failed(queue, record, error)
                done += 1
        finally:
            self._processed = done

    def _fused(self, queue: RecordQueue) -> FusedLoop | Literal[False]:
        """Raises LogTimeout. False as well when a topic is not there: the first record that needs it then fails."""
        try:
            if not self._has_fused_flushes:
                self._graph.fuse_flushes(self.runtime, self._collector)
                self._has_fused_flushes = True
            source = queue.source
            return source.fused(self.runtime, self._collector, *queue.readers, queue.column_readers) or False
        except LogTimeout:
            raise
        except StreamsRuntimeError:
            return False

    def _process_columns(self, loop: FusedLoop, queue: RecordQueue, columns: QueuedColumns) -> None:
        """All of them, or all up to one that failed and that the task may go on without."""
        loop.left_out = 0
        try:
            loop.run(queue, *columns)
        except Exception as error:
            at = loop.at
            queue.passed(columns, at)
            self._processed += at - columns.start - loop.left_out
            self._failed_at(loop, queue, columns, error)
            return
        except BaseException:
            queue.passed(columns, loop.at)
            raise
        queue.passed(columns, columns.stop)
        self._processed += columns.stop - columns.start - loop.left_out

    def _failed_at(self, loop: FusedLoop, queue: RecordQueue, columns: QueuedColumns, error: Exception) -> None:
        at = loop.at
        if loop.was_reading:
            queue.unreadable(at, error)
        else:
            record = queue.record_at(columns, at)
            queue.passed(columns, at + 1)
            self._processing_failed(queue, record, error)
            self._processed += 1

    def _process_again(self, queue: RecordQueue, record: Record[Any, Any]) -> None:
        """Process a record that was taken before and not finished. It counts in stream time already."""
        self._commits.begin_work()
        self.runtime.queue = queue
        self.runtime.record = record
        try:
            queue.process(record)
        except Exception as error:
            self._processing_failed(queue, record, error)
        self._processed += 1

    def _processing_failed(self, queue: RecordQueue, record: Record[Any, Any], error: Exception) -> None:
        """Returns when the task may go on without the record."""
        self._buffer.keep_unfinished(queue, record)  # so that its offset is not committed if this raises
        if isinstance(error, ABOUT_THE_TASK):
            raise error
        self._handling.processing_failed(queue.polled_failed(self._graph.current_node, error))
        self._buffer.forget_unfinished()

    def _node_failed(self, node: str, error: Exception) -> None:
        """Returns when the others may go on with the record that is processed, or with the change that is flushed."""
        runtime = self.runtime
        is_idle = runtime.record is None and self._punctuated_ms == UNKNOWN_TIME  # a processor forwards as it closes
        if isinstance(error, ABOUT_THE_TASK) or (not runtime.is_flushing and (is_idle or runtime.has_several)):
            raise error
        context = runtime.record_context()
        if context.metadata is None and not runtime.is_flushing:
            raw = RawRecord(None, None, (), self._punctuated_ms)
        else:
            raw = context.raw or RawRecord(None, None, context.headers, context.timestamp_ms)
        self._handling.processing_failed(
            FailedInputRecord(self._task_id, context.metadata or NO_RECORD, node, *raw, error)
        )

    def _record_of_batch_failed(self, place: int, node: str, error: Exception) -> None:
        """Returns when the task may go on without the record."""
        if isinstance(error, ABOUT_THE_TASK):
            raise error
        queue = self.runtime.queue
        assert queue is not None, "a batch is of the records of a queue"
        self._handling.processing_failed(queue.failed(place, node, error))

    # --- punctuations

    def punctuate_stream_time(self) -> bool:
        """Whether anything fired; nothing does before the first record. Raises as `process` does."""
        time_ms = self.runtime.stream_time_ms
        if time_ms == UNKNOWN_TIME:
            return False
        return self._punctuate(self.runtime.stream_time_punctuations, time_ms)

    def punctuate_system_time(self, now_ms: int) -> bool:
        """Whether anything fired. Raises as `process` does."""
        return self._punctuate(self.runtime.system_time_punctuations, now_ms)

    def next_wall_clock_punctuation_ms(self) -> int | None:
        return self.runtime.system_time_punctuations.next_time_ms()

    def clear_punctuations(self) -> None:
        self.runtime.stream_time_punctuations.clear()
        self.runtime.system_time_punctuations.clear()

    # --- what is held back

    def flush(self) -> None:
        """Give the producer everything. Raises as `process` does; what was not given by then, the next call gives."""
        try:
            self._cache.flush()
            self._collector.settle()
        except LogTimeout as error:
            raise self._timed_out(error) from error

    def _punctuate(self, queue: PunctuationQueue, time_ms: int) -> bool:
        def punctuate(schedule: PunctuationSchedule) -> None:
            self._commits.begin_work()
            self.runtime.current_system_time_ms = self._clock.now_ms()
            self._punctuated_ms = time_ms
            try:
                schedule.callback(time_ms)
            except ABOUT_THE_TASK:
                raise
            except Exception as error:
                node = self._graph.current_node or schedule.node
                failed = FailedInputRecord(self._task_id, NO_RECORD, node, None, None, (), time_ms, error)
                self._handling.processing_failed(failed)
            finally:
                self._punctuated_ms = UNKNOWN_TIME

        try:
            has_fired = queue.maybe_punctuate(time_ms, punctuate)
            if has_fired:
                self._collector.settle()
            return has_fired
        except ProcessingFailed:
            self._settle_if_possible()
            raise
        except LogTimeout as error:
            raise self._timed_out(error) from error

    def _settle_if_possible(self) -> None:
        """What came of earlier records was as good as sent."""
        with contextlib.suppress(StreamsRuntimeError, LogTimeout):
            self._collector.settle()

    def _timed_out(self, error: LogTimeout) -> Exception:
        if not self._exactly_once:
            return error
        return TaskCorrupted([self._task_id], f"the log was away in the middle of a transaction ({error})")


def _up_to(due_ms: int, columns: QueuedColumns) -> QueuedColumns:
    """The records up to the first one that reaches this time."""
    times_ms = columns.timestamps_ms
    reached = (index for index in range(columns.start, columns.stop) if times_ms[index] >= due_ms)
    return columns._replace(stop=next(reached, columns.stop - 1) + 1)
