"""Has running tasks process records, punctuate, and commit.

Rules:
- One pass processes for `record.pass.ms` at most. Tasks take turns, so none waits until another has no more records.
  The number of records in a turn depends on how long records take.
- Records that tasks have sent are written without a commit: at once when no record is left to process, else `linger.ms`
  after the last time. That is looked at between turns, and no turn is interrupted. Under exactly-once it is seen at the
  commit.
- Under exactly-once, one transaction commits all tasks that need it. Under at-least-once, offsets never move before
  everything was written. A checkpoint follows its commit and never goes before it.
- When the log is slow or away (LogTimeout), the thread tries again, and the time counts against `task.timeout.ms` of
  the tasks concerned.
- Commits go on during a rebalance. Differs from Kafka: there, the group would refuse the generation in the commit;
  here, a claim says who may commit, and a revoked task is closed before another thread claims it.

- Until a transaction whose commit timed out has ended, no task of the thread processes or punctuates: the log may be
  about to end it, and a record that is sent meanwhile would be lost, with its offset committed later.

- A record that the brokers refuse after `send` has taken it makes the tasks of the commit start over.

Source: `TaskExecutor`. Differs from Kafka: a transaction whose commit timed out is committed again. Kafka cannot know
whether the commit happened and wipes the tasks; these logs say so when they are asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from assignor.types import TaskId
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted, TaskMigrated
from streams_runtime.common.metrics import ThreadMetrics
from streams_runtime.common.states import TaskType
from streams_runtime.configs import StreamsConfig
from streams_runtime.instance.tasks import AnyTask
from streams_runtime.instance.thread_listener import ThreadListener
from streams_runtime.logs.log_errors import LogTimeout, RecordsRefused
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.stream_task import StreamTask
from streams_runtime.tasks.task import with_task

MOST_RECORDS_A_TURN = 1_000
_TURNS_A_PASS = 4
_MOST_REFUSALS = 3
"""In a row. An application may make another record at each try, which cannot be recognised."""


class TaskExecutor:
    """One per stream thread. It raises errors of user code as StreamsRuntimeError, with the task named.

    `processed`: by task, the number of input records since it was assigned to this thread. `commit_is_late`: the last
    commit timed out. `ran_out`: the last pass ended because no task had a record left that it could process.
    """

    def __init__(
        self,
        producer: StreamsProducer,
        configs: StreamsConfig,
        clock: Clock,
        listener: ThreadListener,
        metrics: ThreadMetrics,
    ) -> None:
        self.processed: dict[TaskId, int] = {}
        self.commit_is_late = False
        self.ran_out = True
        self._producer = producer
        self._exactly_once = configs.exactly_once
        self._pass_ms = configs.record_pass_ms
        self._linger_ms = configs.linger_ms
        self._clock = clock
        self._sent_ms = clock.monotonic_ms()
        self._send_is_late = False
        self._listener = listener
        self._metrics = metrics
        self._records_a_turn = 1
        self._refusals = 0

    def forget(self, task: TaskId) -> None:
        """The task was assigned again, and has processed nothing since."""
        self.processed.pop(task, None)

    def process(self, tasks: Sequence[StreamTask]) -> int:
        """Process buffered records in turns, until none is ready or the pass is over; the number of records.

        Raises what tasks raise, and as `send` does.
        """
        self.ran_out = True
        if self.transaction_is_ending:
            return 0
        deadline_ms = self._clock.monotonic_ms() + self._pass_ms
        total = 0
        while True:
            turns_started_ms = self._clock.monotonic_ms()
            processed = 0
            now_ms = self._clock.now_ms()
            for running in tasks:
                of_turn = self._turn(running, now_ms)
                if of_turn:
                    processed += of_turn
                    self.send(tasks, at_once=False)  # not only at the end of the pass: each turn may be slow
            total += processed
            ended_ms = self._clock.monotonic_ms()
            if processed == 0:
                return total
            if ended_ms >= deadline_ms:
                self.ran_out = False
                return total
            self._adapt(ended_ms - turns_started_ms)

    def punctuate(self, tasks: Iterable[StreamTask]) -> int:
        """Fire punctuations that are due, stream time first; in how many cases any fired."""
        if self.transaction_is_ending:
            return 0
        fired = 0
        for task in tasks:
            try:
                fired += task.maybe_punctuate_stream_time()
                fired += task.maybe_punctuate_system_time(self._clock.now_ms())
            except StreamsRuntimeError:
                raise
            except Exception as error:
                raise with_task(error, task.id) from error
        return fired

    def send(self, tasks: Sequence[StreamTask], *, at_once: bool) -> None:
        """Have what the tasks have sent written: `at_once`, or once `linger.ms` have passed since the last time.

        After a LogTimeout the next call tries again. Raises as `commit` does.
        """
        now_ms = self._clock.monotonic_ms()
        if not at_once and now_ms - self._sent_ms < self._linger_ms:
            return
        try:
            self._producer.send_now()
        except LogTimeout as timeout:
            self._send_is_late = True
            self._timed_out([task for task in tasks if task.commit_needed()], timeout)
            return
        except TaskMigrated:
            raise
        except StreamsRuntimeError as error:
            sent = ", ".join(str(task.id) for task in tasks if task.commit_needed())
            raise StreamsRuntimeError(f"what tasks [{sent}] have sent cannot be written: {error}") from error
        self._sent_ms = now_ms
        if self._send_is_late:
            self._send_is_late = False
            for task in tasks:
                task.clear_task_timeout()

    @property
    def transaction_is_ending(self) -> bool:
        """A commit timed out, and the log may have made it: what is sent now would be in no transaction at all."""
        return self._exactly_once and self.commit_is_late

    def commit(self, tasks: Iterable[AnyTask]) -> int:
        """Commit and checkpoint the tasks that need it; how many did. After a LogTimeout the next call tries again.

        Raises TaskMigrated, TaskTimeout, and what tasks raise.
        """
        needing = [task for task in tasks if task.commit_needed()]
        self.commit_is_late = False
        if not needing:
            return 0
        try:
            self.commit_together(needing)
        except LogTimeout as timeout:
            self.commit_is_late = True
            self._timed_out(needing, timeout)
            return 0
        for task in needing:
            task.clear_task_timeout()
            task.post_commit(enforce_checkpoint=False)
        return len(needing)

    def commit_together(self, tasks: Sequence[AnyTask]) -> None:
        """The commit itself, without checkpoints. Raises LogTimeout when nothing of it has happened."""
        offsets = []
        for task in tasks:
            task.prepare_commit()
            if (
                task.type is TaskType.ACTIVE
            ):  # also one that only punctuated: without its claim it must not write either
                active = cast("StreamTask", task)
                offsets.append((active.claim, active.offsets_to_commit()))
        if offsets or self._producer.transaction_in_flight:
            try:
                self._producer.commit(offsets)
            except StreamsRuntimeError as error:
                if not isinstance(error.__cause__, RecordsRefused):
                    raise
                raise self._refused(tasks, error) from error
            self._refusals = 0

    def _refused(self, tasks: Iterable[AnyTask], error: StreamsRuntimeError) -> StreamsRuntimeError:
        """The tasks do their work again, and find the record refused where it is handed over: so the handler of
        processing errors is asked, with the input record. If that helps nothing, the error ends the thread.
        """
        self._refusals += 1
        if self._refusals > _MOST_REFUSALS:
            return error
        return TaskCorrupted([task.id for task in tasks if task.type is TaskType.ACTIVE], str(error))

    def _turn(self, task: StreamTask, now_ms: int) -> int:
        try:
            if not task.is_process_ready(now_ms):
                return 0
            processed = task.process(now_ms, self._records_a_turn)
            if processed:
                self._count(task, processed)
            return processed
        except LogTimeout as timeout:
            task.maybe_init_task_timeout_or_throw(self._clock.monotonic_ms(), timeout)
            return 0
        except StreamsRuntimeError:
            raise
        except Exception as error:
            raise with_task(error, task.id) from error

    def _timed_out(self, tasks: Iterable[AnyTask], timeout: LogTimeout) -> None:
        now_ms = self._clock.monotonic_ms()
        for task in tasks:
            task.maybe_init_task_timeout_or_throw(now_ms, timeout)

    def _count(self, task: StreamTask, processed: int) -> None:
        task.clear_task_timeout()
        before = self.processed.get(task.id)
        if before is None:
            self._listener.processed_first(task.id, self._clock.now_ms())
        self.processed[task.id] = processed + (before or 0)
        self._metrics.task_processed(task.id, processed)

    def _adapt(self, turns_took_ms: int) -> None:
        # shorter turns than a pass has time for where linger.ms is shorter, because it is kept between turns
        if turns_took_ms * _TURNS_A_PASS > min(self._pass_ms, self._linger_ms):
            self._records_a_turn = max(1, self._records_a_turn // 2)
        else:
            self._records_a_turn = min(MOST_RECORDS_A_TURN, self._records_a_turn * 2)
