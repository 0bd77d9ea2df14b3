"""Initialises assigned Streams tasks, restores them while other tasks run, and starts them.

Rules:
- Before a Streams task starts, the thread claims the task's input partitions in the log. Only the thread with the
  newest claim on a partition may commit offsets of this partition. One call claims the input of all tasks of an
  assignment. In each pass, one call looks up the committed offsets for all tasks that were just restored
  (`TaskInputs`). So the number of calls to the log does not depend on the number of tasks.
- If another thread has locked a task's directory, the next pass tries the task again. The next pass also tries a task
  again if the log did not answer in time. Time-outs count against `task.timeout.ms`. A missing topic counts as a
  time-out, because the leader of the group may still create the topic.
- A pass restores only for a short time, because the running tasks of the thread have to wait meanwhile. Standbys are
  updated only if no active task has to be restored.
- A restored task starts at once, and does not wait for other tasks. The consumer reads only the input of running tasks.

Source: `TaskManager.tryToCompleteRestoration`, `addTaskToStateUpdater`, `transitRestoredTaskToRunning`.
Differs from Kafka: a locked directory is tried again in the next pass, so a task moves quickly between two threads of a
process. Kafka waits a second before it tries a locked directory again. The stream thread itself restores tasks, as in
older versions of Kafka without a state updater.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import LockError, TaskCorrupted
from streams_runtime.common.states import RestoreOrigin, TaskState, TaskType
from streams_runtime.instance.restore.changelog_reader import ChangelogReader
from streams_runtime.instance.tasks import AnyTask, Tasks
from streams_runtime.instance.thread_listener import TaskRestored, ThreadListener
from streams_runtime.logs.base import CommittedOffsets, Consumer, Log
from streams_runtime.logs.log_errors import LogTimeout, UnknownTopicOrPartition
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.stream_task import StreamTask
from streams_runtime.tasks.task import Task, raise_most_severe, with_task

OneTask = TypeVar("OneTask", bound=AnyTask)

_logger = logging.getLogger(__name__)
_TRY_AGAIN = (LogTimeout, UnknownTopicOrPartition)


@dataclass(slots=True)
class _Arrival:
    """An active task that was assigned but is not RUNNING yet. `at_ms`: the time of the assignment. `origin`: the kind
    of state that the task had before its restore; None until the task is initialised.
    """

    at_ms: int
    origin: RestoreOrigin | None


class TaskInputs:
    """Claims the input of a thread's active tasks in the log, and looks up the group's committed offsets of this input.

    - Each method makes one call to the log for all given tasks. On Kafka, each call needs two or three round trips to
      the brokers, and fences a previous owner once. If each task made its own call, the last task would wait for the
      calls of all other tasks.
    - After a call that claims the input of many tasks, each task has a separate claim on its own partitions. The thread
      can release each of these claims separately.
    - The thread looks up committed offsets after the claim, because a previous owner cannot commit after the claim.

    Each stream thread has its own `TaskInputs`, which no other thread uses. `producer`: the producer of the thread. The
    transactional id of this producer is the owner of the claims.

    Source: `KafkaConsumer.committed`, which looks up all partitions of an assignment in one call. Kafka has no claims.
    """

    def __init__(self, log: Log, group_id: str, producer: StreamsProducer) -> None:
        self._log = log
        self._group_id = group_id
        self._producer = producer

    def claim(self, tasks: Iterable[StreamTask]) -> None:
        """Claim the input of the tasks that have no claim yet. The caller first has to lock the directories of these
        tasks. Raises LogTimeout.
        """
        needing = [task for task in tasks if task.needs_claim]
        if not needing:
            return
        self._producer.initialize()
        partitions = frozenset[TopicPartition]().union(*(task.input_partitions for task in needing))
        claim = self._log.claim(self._group_id, partitions, self._producer.transactional_id)
        for task in needing:
            task.take_claim(claim.part(task.input_partitions))

    def release(self, tasks: Iterable[StreamTask]) -> None:
        """Release the claims of these tasks, so that other threads can claim the input without fencing this thread.
        A task with uncommitted work keeps its claim.
        """
        claims = [claim for task in tasks if (claim := task.mark_claim_released()) is not None]
        if claims:
            self._log.release(*claims)

    def committed(self, tasks: Iterable[StreamTask]) -> CommittedOffsets:
        """Returns the group's committed offsets of the tasks' input partitions. Raises LogTimeout."""
        partitions = [partition for task in tasks for partition in task.input_partitions]
        return self._log.committed_offsets(self._group_id, partitions) if partitions else {}


@dataclass(eq=False, repr=False)
class Restoration:
    """Restores and starts the tasks of one stream thread. No other thread uses the `Restoration`.

    `waits_for_lock`: True if the directory of a task was locked by another thread in the last pass. `waits_for_log`:
    True if the log did not answer a call for a task in the last pass.
    """

    _tasks: Tasks
    _reader: ChangelogReader
    _inputs: TaskInputs
    _consumer: Consumer
    _clock: Clock
    _listener: ThreadListener
    _arrivals: dict[TaskId, _Arrival] = field(default_factory=dict, init=False)
    _restored: dict[TaskId, int] = field(default_factory=dict, init=False)
    waits_for_lock: bool = field(default=False, init=False)
    waits_for_log: bool = field(default=False, init=False)

    def assigned(self, task: TaskId, *, recycled: bool) -> None:
        """Call this method when an active task is assigned. `recycled`: True if the task was made from a standby with
        open stores.
        """
        self._arrivals[task] = _Arrival(self._clock.monotonic_ms(), RestoreOrigin.STANDBY if recycled else None)

    def register(self, task: AnyTask) -> None:
        """Register the task's changelogs with the changelog reader."""
        for partition in task.changelog_partitions:
            self._reader.register(partition, task.state_manager)

    def refresh(self) -> None:
        """Sort the tasks by state, and assign the input partitions of the running tasks to the consumer. Call this
        method after a task was added or removed, or has changed its state.
        """
        self._tasks.refresh()
        wanted = self._tasks.by_input.keys()
        if self._consumer.assignment() != wanted:
            self._consumer.assign(wanted)
        for task in [task for task in self._arrivals if task not in self._tasks.active]:
            del self._arrivals[task]
        for task in [task for task in self._restored if task not in self._tasks.active]:
            del self._restored[task]

    @property
    def is_done(self) -> bool:
        """Returns True if every task is initialised and no active task is restoring."""
        return not self._tasks.to_initialise and not self._tasks.restoring

    def restored(self, task: AnyTask) -> int:
        """Returns the number of changelog records that were applied to the task's stores since its assignment."""
        reading = sum(self._reader.restored_records(partition) for partition in task.changelog_partitions)
        return self._restored.get(task.id, 0) + reading

    def initialise_and_restore(self, *, paused: bool = False) -> int:
        """Run one pass: initialise, restore and start tasks. Returns the number of applied changelog records. `paused`:
        True if no records may be applied.

        Raises TaskCorrupted, StreamsRuntimeError.
        """
        self.waits_for_lock = self.waits_for_log = False
        if self._tasks.to_initialise:
            self._initialise()
        restored = 0 if paused else self._restore()
        if self._tasks.restoring:
            self._start_restored()
        return restored

    def _initialise(self) -> None:
        errors: dict[TaskId, Exception] = {}
        created = self._tasks.to_initialise
        active = [task for task in self._tasks.active.values() if task.state is TaskState.CREATED]
        locked = self._attempt(active, StreamTask.lock, errors)
        claimed: Collection[StreamTask] = ()
        with self._trying(locked, errors):
            self._inputs.claim(locked)
            claimed = locked
        held_up = {task.id for task in active if task not in claimed}
        self._attempt([task for task in created if task.id not in held_up], self._initialise_one, errors)
        self.refresh()
        self._raise(errors)

    def _attempt(
        self, tasks: Iterable[OneTask], step: Callable[[OneTask], None], errors: dict[TaskId, Exception]
    ) -> list[OneTask]:
        """Call `step` for each task. Returns the tasks for which `step` raised no error. `errors`: the mapping to which
        an error is added if the next pass cannot try the step again.
        """
        succeeded = []
        for task in tasks:
            with self._trying([task], errors):
                step(task)
                succeeded.append(task)
        return succeeded

    @contextmanager
    def _trying(self, tasks: Iterable[AnyTask], errors: dict[TaskId, Exception]) -> Iterator[None]:
        """Handles the errors of the `with` block, in which these tasks carry out a step. If the next pass cannot try
        the step again, adds the error to `errors`.
        """
        try:
            yield
        except LockError as locked:
            self.waits_for_lock = True
            _logger.debug("tasks wait for their directories: %s", locked)
        except _TRY_AGAIN as timeout:
            for task in tasks:
                self._timed_out_once_more(task, timeout, errors)
        except Exception as error:
            errors.update((task.id, with_task(error, task.id)) for task in tasks)

    def _initialise_one(self, task: AnyTask) -> None:
        if task.state is TaskState.CREATED:
            task.initialize_if_needed()
            arrival = self._arrivals.get(task.id)
            if task.type is TaskType.ACTIVE and arrival is not None and arrival.origin is None:
                arrival.origin = _origin(task)
        self.register(task)
        task.clear_task_timeout()

    def _restore(self) -> int:
        tasks = self._tasks
        if self._reader.is_empty():
            return 0
        if tasks.restoring:
            self._reader.enforce_restore_active()
        else:
            self._reader.transit_to_update_standby()
        return self._reader.restore(tasks.initialised(), others_run=bool(tasks.running))

    def _start_restored(self) -> None:
        completed = self._reader.completed_changelogs()
        restored = [task for task in self._tasks.restoring if task.changelog_partitions <= completed]
        if not restored:
            return
        errors: dict[TaskId, Exception] = {}
        with self._trying(restored, errors):
            self._inputs.claim(restored)  # a suspension during the restore may have released a claim
            committed = self._inputs.committed(restored)
            self._attempt(restored, lambda task: self._start(task, committed), errors)
        self.refresh()
        self._raise(errors)

    def _start(self, task: StreamTask, committed: CommittedOffsets) -> None:
        self._consumer.assign(self._consumer.assignment() | task.input_partitions)
        arrival = self._arrivals.get(task.id)
        if arrival is not None and task.changelog_partitions:
            origin = arrival.origin or RestoreOrigin.BEGINNING
            took_ms = self._clock.monotonic_ms() - arrival.at_ms
            restored: TaskRestored | None = TaskRestored(task.id, origin, self.restored(task), took_ms)
        else:
            restored = None
        task.complete_restoration(committed)
        task.clear_task_timeout()
        self._restored[task.id] = self.restored(task)
        self._reader.unregister(task.changelog_partitions)
        self._arrivals.pop(task.id, None)
        if restored is not None:
            self._listener.restored(restored)

    def _timed_out_once_more(self, task: AnyTask, timeout: Exception, errors: dict[TaskId, Exception]) -> None:
        self.waits_for_log = True
        _logger.debug("task %s has to wait for the log: %s", task.id, timeout)
        try:
            task.maybe_init_task_timeout_or_throw(self._clock.monotonic_ms(), timeout)
        except Exception as over:
            errors[task.id] = with_task(over, task.id)

    def _raise(self, errors: dict[TaskId, Exception]) -> None:
        for error in errors.values():
            if isinstance(error, TaskCorrupted):
                for task in error.damaged & self._arrivals.keys():
                    self._arrivals[task].origin = RestoreOrigin.BEGINNING
        raise_most_severe(errors)


def _origin(task: Task) -> RestoreOrigin:
    started_from_disk = any(offset > 0 for offset in task.changelog_offsets().values())
    return RestoreOrigin.CHECKPOINT if started_from_disk else RestoreOrigin.BEGINNING
