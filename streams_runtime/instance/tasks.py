"""The tasks of one stream thread: what it can do with them now, how they are closed, and what it reports of them.

Rules:
- A task id is here once, as active or as standby. Tasks change their own states; `refresh` has to be called after each
  change, so that each pass of the loop only reads lists.
- A running task sleeps once it has nothing to process, to punctuate or to commit. It wakes when it gets records, when
  wall-clock time reaches its next punctuation, and with every `refresh`. A pass asks only tasks that are awake, so an
  idle thread costs the same with one task and with a thousand.
- The thread reports to the leader how far its copies of tasks have come, as one sum of offsets per task. Only a running
  active task with changelogs is reported as LATEST_OFFSET. A task that is restoring is reported by what it has
  restored, as a standby is, so that only a thread that really runs a task counts as its previous owner.
- It reports an open task by its positions, and a closed task on disk by its checkpoint. It does not report a task that
  is corrupt or has no checkpoint.
- Of the tasks on disk, it reports only those whose directories it could lock when the rebalance started, so that
  exactly one of several threads reports each. When the rebalance is over, it unlocks those it was not assigned. A
  thread that is assigned such a task earlier, because it joins faster, gets the directory at once.
- A sum larger than a Java long is reported as JAVA_LONG_MAX.

Source: `Tasks`, `TasksRegistry`, `TaskManager.taskOffsetSums`, `tryToLockAllNonEmptyTaskDirectories`,
`releaseLockedUnassignedTaskDirectories`. Differs from Kafka: there, each pass asks every task, and a thread waits for a
directory that another thread reports until that one is assigned again.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping

from assignor.errors import IllegalStateError
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, TaskId, TopicPartition
from streams_runtime.common.errors import LockError
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.instance.restore.changelog_reader import ChangelogReader
from streams_runtime.tasks.checkpoint_file import next_offsets
from streams_runtime.tasks.standby_task import StandbyTask
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.stream_task import StreamTask
from streams_runtime.tasks.task import Task, with_task

AnyTask = StreamTask | StandbyTask

_logger = logging.getLogger(__name__)


class Tasks:
    """Every list is in the order of task ids. `awake`: the running tasks that do not sleep."""

    def __init__(self) -> None:
        self.active: dict[TaskId, StreamTask] = {}
        self.standby: dict[TaskId, StandbyTask] = {}
        self.to_initialise: tuple[AnyTask, ...] = ()
        self.restoring: tuple[StreamTask, ...] = ()
        self.running: tuple[StreamTask, ...] = ()
        self.awake: tuple[StreamTask, ...] = ()
        self.updating: tuple[StandbyTask, ...] = ()
        self.by_input: Mapping[TopicPartition, StreamTask] = {}
        self._alarms_ms: dict[TaskId, int] = {}  # of sleeping tasks: the wall-clock time of the next punctuation

    def __iter__(self) -> Iterator[AnyTask]:
        yield from (self.active[task] for task in sorted(self.active))
        yield from (self.standby[task] for task in sorted(self.standby))

    def __len__(self) -> int:
        return len(self.active) + len(self.standby)

    def __contains__(self, task: object) -> bool:
        return task in self.active or task in self.standby

    def get(self, task: TaskId) -> AnyTask | None:
        return self.active.get(task) or self.standby.get(task)

    def add_active(self, task: StreamTask) -> None:
        self._check_new(task)
        self.active[task.id] = task

    def add_standby(self, task: StandbyTask) -> None:
        self._check_new(task)
        self.standby[task.id] = task

    def remove(self, task: Task) -> None:
        """Does nothing if the task is not here."""
        if task.type is TaskType.ACTIVE:
            self.active.pop(task.id, None)
        else:
            self.standby.pop(task.id, None)

    def refresh(self) -> None:
        """Sort the tasks by their present states."""
        active = [self.active[task] for task in sorted(self.active)]
        standby = [self.standby[task] for task in sorted(self.standby)]
        every: list[AnyTask] = [*active, *standby]
        self.to_initialise = tuple(task for task in every if task.state is TaskState.CREATED)
        self.restoring = tuple(task for task in active if task.state is TaskState.RESTORING)
        self.running = tuple(task for task in active if task.state is TaskState.RUNNING)
        self.updating = tuple(task for task in standby if task.state is TaskState.RUNNING)
        self.by_input = {partition: task for task in self.running for partition in task.input_partitions}
        self.awake = self.running
        self._alarms_ms.clear()

    # --- sleeping tasks

    def wake(self, tasks: Iterable[TaskId]) -> None:
        """These running tasks may have something to do."""
        awake = {task.id for task in self.awake}
        waking = set(tasks) - awake
        if waking:
            for task in waking:
                self._alarms_ms.pop(task, None)
            awake |= waking
            self.awake = tuple(task for task in self.running if task.id in awake)

    def wake_due(self, now_ms: int) -> None:
        """Wake the tasks of which a punctuation is due. `now_ms`: wall-clock time."""
        if self._alarms_ms:
            self.wake([task for task, alarm_ms in self._alarms_ms.items() if alarm_ms <= now_ms])

    def let_sleep(self) -> None:
        """Let awake tasks that have nothing left to do sleep. Every awake task was processed and punctuated before."""
        awake = []
        for task in self.awake:
            if not task.may_sleep:
                awake.append(task)
            elif (next_ms := task.next_wall_clock_punctuation_ms()) is not None:
                self._alarms_ms[task.id] = next_ms
        self.awake = tuple(awake)

    def next_punctuation_ms(self) -> int | None:
        """When wall-clock time reaches the next punctuation of any running task; None when none is scheduled."""
        of_awake = (task.next_wall_clock_punctuation_ms() for task in self.awake)
        return min((*self._alarms_ms.values(), *(each for each in of_awake if each is not None)), default=None)

    def initialised(self) -> Mapping[TaskId, Task]:
        """The tasks whose stores are open, so that changelogs may be read into them."""
        initialised: list[AnyTask] = [*self.running, *self.restoring, *self.updating]
        return {task.id: task for task in initialised}

    def _check_new(self, task: Task) -> None:
        if task.id in self:
            raise IllegalStateError(f"task {task.id} is here already, as {self.get(task.id)}")


class TaskCloser:
    """Closes tasks of one stream thread and removes them from its lists, and lets corrupt tasks start over.

    - A clean close is for a task that was committed. It writes the checkpoint, closes the stores and unlocks the
      directory.
    - A dirty close follows an error or a migration. It commits nothing, raises nothing, and deletes state on disk that
      cannot be trusted any more.
    - A task that is closed dirty and revived starts over in this thread; if its state was corrupt, from the beginning
      of its changelogs.
    - The changelog reader stops reading into a task's stores before they are closed.

    Source: `TaskManager.closeTaskClean`, `closeTaskDirty`, `closeDirtyAndRevive`.
    """

    def __init__(self, tasks: Tasks, reader: ChangelogReader, offset_report: OffsetReport) -> None:
        self._tasks = tasks
        self._reader = reader
        self._offset_report = offset_report

    def suspend(self, task: AnyTask) -> None:
        """Stop processing and restoring. Raises what the user's processors raise when they are closed."""
        self._reader.unregister(task.changelog_partitions)
        task.suspend()

    def close_clean(self, tasks: Iterable[AnyTask], errors: dict[TaskId, Exception]) -> None:
        """Close committed tasks. A task that fails is closed dirty, and its first error is kept in `errors`."""
        for task in tasks:
            try:
                self.suspend(task)
                if task.type is TaskType.STANDBY:
                    task.post_commit(enforce_checkpoint=True)
                task.close_clean()
            except Exception as error:
                _logger.exception("task %s could not be closed cleanly", task.id)
                errors.setdefault(task.id, with_task(error, task.id))
                self.close_dirty(task)
            else:
                self.remove(task)

    def close_dirty(self, task: AnyTask) -> None:
        """Never raises."""
        if task.state is not TaskState.CLOSED:
            try:
                self.suspend(task)
            except Exception:
                _logger.warning("task %s could not be suspended and is closed dirty", task.id, exc_info=True)
            task.close_dirty()
        self.remove(task)

    def mark_corrupt(self, tasks: Iterable[AnyTask]) -> None:
        """Let the next close of these tasks delete their state. Never raises."""
        for task in tasks:
            try:
                task.state_manager.mark_corrupted()
            except Exception:
                _logger.warning("the changelogs of task %s could not be marked as corrupt", task.id, exc_info=True)

    def close_dirty_and_revive(self, tasks: Iterable[AnyTask]) -> None:
        """Let these tasks start over in this thread. Never raises."""
        for task in tasks:
            self.close_dirty(task)
            task.revive()
            if task.type is TaskType.ACTIVE:
                self._tasks.active[task.id] = task  # type: ignore[assignment]  # an ACTIVE task is a StreamTask
            else:
                self._tasks.standby[task.id] = task  # type: ignore[assignment]  # and a STANDBY task a StandbyTask

    def remove(self, task: AnyTask) -> None:
        """Remove a task that is closed, or was never opened, from the lists, and unlock its directory."""
        self._tasks.remove(task)
        self._offset_report.unlock_directory(task.id)


class OffsetReport:
    """One per stream thread, which alone uses it."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._locked: dict[TaskId, Mapping[TopicPartition, int]] = {}

    @property
    def holds_directories(self) -> bool:
        """Whether it reports tasks on disk. Another thread may take one of their directories at any time."""
        return bool(self._locked)

    def lock_directories(self, initialised: Container[TaskId]) -> None:
        """A rebalance starts: lock every directory with state that no other thread has locked. Idempotent.

        `initialised`: tasks that have locked their own directories. They are newer than their checkpoints on disk.
        """
        for task in self._directory.non_empty_task_directories():
            if task in initialised or self._reports(task) or not self._lock(task):
                continue
            if self._directory.is_empty(task):  # the cleaner deleted the state between the two calls
                self._directory.unlock(task)
            else:
                self._locked[task] = next_offsets(self._directory.checkpointed_offsets(task))

    def release_directories(self, own: Iterable[Task]) -> None:
        """The rebalance is over: unlock directories of tasks that were not assigned to this thread."""
        kept = {task.id for task in own}
        for task in [task for task in self._locked if task not in kept]:
            self._directory.unlock(task)
        self._locked.clear()  # from here on the tasks hold the locks

    def unlock_directory(self, task: TaskId) -> None:
        """Unlock the directory of a task that is closed, or was never opened."""
        self._locked.pop(task, None)
        self._directory.unlock(task)

    def sums(self, tasks: Iterable[Task]) -> dict[TaskId, int]:
        """The sum of each task; a task without known offsets is left out."""
        reported: dict[TaskId, int] = {
            task: sum_of(offsets) for task, offsets in self._locked.items() if offsets and self._reports(task)
        }
        for task in tasks:
            if task.state in (TaskState.CREATED, TaskState.CLOSED) or not task.changelog_partitions:
                continue  # it has read nothing yet, and its checkpoint was reported above
            if task.type is TaskType.ACTIVE and task.state is TaskState.RUNNING:
                reported[task.id] = LATEST_OFFSET
            else:
                reported[task.id] = sum_of(task.changelog_offsets())
        return reported

    def _reports(self, task: TaskId) -> bool:
        """Whether this thread still holds the directory: another thread may have taken it for the task."""
        return task in self._locked and self._directory.holds(task)

    def _lock(self, task: TaskId) -> bool:
        try:
            return self._directory.lock(task, to_report=True)
        except LockError:  # another process has it, and reports it
            return False


def sum_of(offsets: Mapping[TopicPartition, int]) -> int:
    """A negative offset is unknown, and counts as 0."""
    return min(sum(offset for offset in offsets.values() if offset > 0), JAVA_LONG_MAX)
