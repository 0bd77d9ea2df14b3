"""Runs records and punctuations of an active task through its processors: the hot path.

    process                runs a number of records, run by run of one partition's batch
    punctuate_...          fires what stream time or wall-clock time has reached
    flush                  writes and forwards what the record caches of the task's stores hold back
    init_processors, close_processors

Rules: stream time is the highest timestamp processed. An error of a node goes to the handler of processing errors, with
the input record; when that goes on, only this node is left out, and other branches still get the record. A record that
could not be finished for another reason stays the next one of its partition. A punctuation has no input record; its
time is the time at which it fires; an error in it goes to the same handler, with task and node. All of this is work to
be committed. When the log is away, the task tries again under at-least-once. Under exactly-once half a record may be
in the state, and a second try would count it twice, so the task is TaskCorrupted. An error of a node that a flush
forwards to goes to that handler as well, with the input record of the change, as it would without a record cache.
Source: `StreamTask.process`, `StreamTask.punctuate`, `StreamTask.initializeTopology`, `StreamTask.flush`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from assignor.types import JAVA_LONG_MAX, TaskId
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import ProcessingFailed, StreamsRuntimeError, TaskCorrupted
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.runtime import ABOUT_THE_TASK
from streams_runtime.state_stores.thread_cache import TaskCache
from streams_runtime.tasks.commit_state import CommitState
from streams_runtime.tasks.exception_handling import NO_RECORD, ExceptionHandling, FailedInputRecord
from streams_runtime.tasks.input_buffer import InputBuffer
from streams_runtime.tasks.offset_metadata import UNKNOWN_TIME
from streams_runtime.tasks.processor_runtime import ProcessorRuntime
from streams_runtime.tasks.punctuation_queue import PunctuationQueue, PunctuationSchedule
from streams_runtime.tasks.record_collector import RecordCollector
from streams_runtime.tasks.record_queue import RecordQueue


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
        "_must_punctuate",
        "_stream_time_before_ms",
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
        self._cache = cache
        self._task_id = task_id
        self._graph = graph
        self._buffer = buffer
        self._collector = collector
        self._handling = handling
        self._commits = commits
        self._clock = clock
        self._exactly_once = exactly_once
        self._must_punctuate = False
        self._stream_time_before_ms = UNKNOWN_TIME  # before the present run

    # --- processors

    def init_processors(self) -> None:
        """Raises StreamsRuntimeError for an error in a processor's `init`; then all of them are closed again."""
        runtime = self.runtime
        runtime.init_time_ms = runtime.current_system_time_ms = self._clock.now_ms()
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
        buffer, runtime = self._buffer, self.runtime
        runtime.current_system_time_ms = now_ms
        processed = 0
        self._must_punctuate = False
        try:
            self._collector.settle()  # what the log did not take in the last turn
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
            self._collector.settle()
        except LogTimeout as error:
            if self._exactly_once or processed == 0:
                raise self._timed_out(error) from error
        except ProcessingFailed:
            self._settle_if_possible()
            raise
        finally:
            runtime.queue = None
            self._graph.current.clear()
            buffer.resume_partitions()
        return processed

    def _process_run(self, queue: RecordQueue, most: int) -> None:
        if not self._commits.is_needed:  # spares a call for each run, which may have one record only
            self._commits.begin_work()
        runtime = self.runtime
        runtime.queue = queue
        if not self._graph.collecting:
            queue.deliver(most, runtime, self._record_failed)
            return
        due_ms = self._due_ms()
        self._stream_time_before_ms = runtime.stream_time_ms
        queue.deliver(most, runtime, self._record_failed, until_ms=due_ms)
        self._run_collected(queue)
        self._must_punctuate = runtime.stream_time_ms >= due_ms

    def _due_ms(self) -> int:
        """The stream time at which a punctuation becomes due that is not due yet."""
        next_ms = self.runtime.stream_time_punctuations.next_time_ms()
        return next_ms if next_ms is not None and next_ms > self.runtime.stream_time_ms else JAVA_LONG_MAX

    def _run_collected(self, queue: RecordQueue) -> None:
        """Nodes that take batches get those of the run. When that raises, the whole run comes again."""
        try:
            self._graph.run_collected()
        except BaseException:
            self._graph.forget_collected()
            queue.take_run_back()
            self.runtime.stream_time_ms = self._stream_time_before_ms
            raise

    def _record_failed(self, queue: RecordQueue, error: Exception) -> None:
        """Returns when the task may go on without the record at the queue's place."""
        self._run_collected(queue)  # records before this one
        if isinstance(error, ABOUT_THE_TASK):
            raise error
        self._handling.processing_failed(queue.failed(queue.place, self._graph.failed_node(error), error))

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
            self.runtime.punctuated_ms = time_ms
            try:
                schedule.callback(time_ms)
            except ABOUT_THE_TASK:
                raise
            except Exception as error:
                node = self._graph.failed_node(error) or schedule.node
                failed = FailedInputRecord(self._task_id, NO_RECORD, node, None, None, (), time_ms, error)
                self._handling.processing_failed(failed)
            finally:
                self.runtime.punctuated_ms = UNKNOWN_TIME

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
        """Send what earlier records have written. Ignores errors: the caller raises its own."""
        with contextlib.suppress(StreamsRuntimeError, LogTimeout):
            self._collector.settle()

    def _timed_out(self, error: LogTimeout) -> Exception:
        if not self._exactly_once:
            return error
        return TaskCorrupted([self._task_id], f"the log was away in the middle of a transaction ({error})")
