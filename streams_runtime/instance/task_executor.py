"""Makes the running Streams tasks of a thread process records, punctuate, and commit.

Rules:
- One pass of the thread processes records for `record.pass.ms` at most. Tasks take turns, so that a task with many
  records does not delay other tasks. The executor measures the duration of turns, and adapts the number of records in a
  turn.
- Records that tasks have sent are written without waiting for a commit. If no record is left to process, the sent
  records are written at once. If records are left to process, the sent records are written `linger.ms` after the last
  write. Records are written only between two turns. Under exactly-once, consumers see the written records only after
  the commit.
- Under exactly-once, one transaction commits all tasks that need a commit. Under at-least-once, offsets are committed
  only after all records were written. A checkpoint is written only after its commit.
- After LogTimeout, the thread tries again until `task.timeout.ms` is over for one of the waiting tasks.
- Tasks are also committed during a rebalance. Differs from Kafka: in Kafka, the group refuses a commit from a member of
  an earlier generation. In this project, a thread claims the input partitions of its tasks in the log. Only the thread
  with the newest claim on a partition may commit offsets of this partition. A revoked task is suspended before another
  thread claims its input.
- If the commit of a transaction has timed out, the log may later commit or abort the transaction. Until the transaction
  has ended, no task of the thread processes or punctuates. Otherwise, a record that a task sends before the end of this
  transaction could be lost, and its input would count as processed.
- The brokers may refuse a record that `send` has accepted. After a refusal by the brokers, the active tasks in the
  commit are restarted from their changelogs.

Source: `TaskExecutor`. Differs from Kafka: if a commit has timed out, the thread repeats it, and the log returns the
result of the first commit. Kafka cannot find out the result of a commit that has timed out, so it deletes the state of
the tasks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
"""After this number of refused commits in a row, the next refused commit ends the thread. Without this limit, the
restarts could go on for ever. An application may send a slightly different record after each restart. The producer then
does not recognise the record that was refused before.
"""


@dataclass(eq=False, repr=False)
class TaskExecutor:
    """Runs the tasks of one stream thread. An error of user code is raised as a StreamsRuntimeError with the task's id.

    `processed`: for each task, the number of input records processed since the task was assigned to this thread.
    `commit_is_late`: True if the last commit timed out. `ran_out`: True if no task had more records to process at the
    end of the last call of `process`.
    """

    _producer: StreamsProducer
    _configs: StreamsConfig
    _clock: Clock
    _listener: ThreadListener
    _metrics: ThreadMetrics
    processed: dict[TaskId, int] = field(default_factory=dict, init=False)
    commit_is_late: bool = field(default=False, init=False)
    ran_out: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self._sent_ms = self._clock.monotonic_ms()
        self._send_is_late = False
        self._records_a_turn = 1
        self._refusals = 0

    def forget(self, task: TaskId) -> None:
        """Reset the number of processed records of this task, which was assigned again."""
        self.processed.pop(task, None)

    def process(self, tasks: Sequence[StreamTask]) -> int:
        """Process buffered records in turns, until no record is ready or the time of the pass is over. Returns the
        number of processed records.

        Raises the errors of tasks and of `send`.
        """
        self.ran_out = True
        if self.transaction_is_ending:
            return 0
        deadline_ms = self._clock.monotonic_ms() + self._configs.record_pass_ms
        total = 0
        while True:
            turns_started_ms = self._clock.monotonic_ms()
            processed = 0
            now_ms = self._clock.now_ms()
            for running in tasks:
                of_turn = self._turn(running, now_ms)
                if of_turn:
                    processed += of_turn
                    # the time is checked after each turn, because a turn may take longer than linger.ms
                    self.send(tasks, at_once=False)
            total += processed
            ended_ms = self._clock.monotonic_ms()
            if processed == 0:
                return total
            if ended_ms >= deadline_ms:
                self.ran_out = False
                return total
            self._adapt(ended_ms - turns_started_ms)

    def punctuate(self, tasks: Iterable[StreamTask]) -> int:
        """Fire the punctuations that are due. For each task, stream-time punctuations fire first. Returns the number of
        tasks that fired stream-time punctuations, plus the number of tasks that fired wall-clock punctuations.
        """
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
        """Write the records that tasks have sent. If `at_once` is False and the last write was less than `linger.ms`
        ago, does nothing. After a LogTimeout, the next call tries again. Raises the errors of `commit`.
        """
        now_ms = self._clock.monotonic_ms()
        if not at_once and now_ms - self._sent_ms < self._configs.linger_ms:
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
        """True under exactly-once if the last commit timed out. The log may have already committed the transaction, and
        a record that is sent now would then belong to no transaction.
        """
        return self._configs.exactly_once and self.commit_is_late

    def commit(self, tasks: Iterable[AnyTask]) -> int:
        """Commit the tasks that need a commit, and write their checkpoints. Returns the number of committed tasks.
        After a LogTimeout, the next call tries again. Raises TaskMigrated, TaskTimeout, and the errors of tasks.
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
        """Commit these tasks together, without checkpoints. Raises LogTimeout if the log does not answer in time. Even
        after LogTimeout, the log may have committed the tasks.
        """
        offsets = []
        for task in tasks:
            task.prepare_commit()
            # The commit also includes tasks that have only punctuated and have no new offset. The log checks the claims
            # of these tasks, because only the owner of a claim may write.
            if task.type is TaskType.ACTIVE:
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
        """Returns the error to raise after the brokers have refused records of these tasks. Usually the returned error
        is TaskCorrupted: the tasks are restarted and process their input again. If a task sends the refused record
        again, `send` refuses it at once, and the processing handler gets the input record. After too many refusals in a
        row, returns the given error, which ends the thread.
        """
        self._refusals += 1
        if self._refusals > _MOST_REFUSALS:
            return error
        return TaskCorrupted([task.id for task in tasks if task.type is TaskType.ACTIVE], str(error), damaged=())

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
        # Sent records are written only between turns. So turns have to be short if `linger.ms` is short.
        if turns_took_ms * _TURNS_A_PASS > min(self._configs.record_pass_ms, self._configs.linger_ms):
            self._records_a_turn = max(1, self._records_a_turn // 2)
        else:
            self._records_a_turn = min(MOST_RECORDS_A_TURN, self._records_a_turn * 2)
