"""The tasks of one stream thread: the lists of tasks by state, the closing of tasks, and the report of their offsets.

Rules:
- A thread has a task id at most once, as active or as standby. Tasks change their own states; `refresh` has to be
  called after each change, so that each pass of the loop only reads lists.
- A running task sleeps while it has nothing to process, to punctuate or to commit. A sleeping task wakes when it gets
  records, when wall-clock time reaches its next punctuation, and with every `refresh`. A pass calls only tasks that are
  awake, so an idle thread costs the same with one task and with a thousand.
- The thread reports to the leader the progress of its copies of tasks, as one sum of offsets per task. Only a running
  active task with changelogs is reported as LATEST_OFFSET. A restoring task is reported with the sum of its restored
  offsets, like a standby, so that only a thread that runs a task counts as its previous owner.
- An open task is reported with its positions, a closed task on disk with its checkpoint. A task that is corrupt or has
  no checkpoint is not reported.
- Of the tasks on disk, the thread reports only those whose directories it could lock when the rebalance started, so
  that exactly one of several threads reports each task. When the rebalance is over, the thread unlocks the directories
  of tasks that it was not assigned. If another thread joins faster and is assigned a reported task earlier, that thread
  gets the task's directory at once.
- A sum larger than a Java long is reported as JAVA_LONG_MAX.

Source: `Tasks`, `TasksRegistry`, `TaskManager.taskOffsetSums`, `tryToLockAllNonEmptyTaskDirectories`,
`releaseLockedUnassignedTaskDirectories`. Differs from Kafka: there, each pass calls every task, and a thread waits for
a directory that another thread reports until this other thread gets its next assignment.
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
    """The tasks of one stream thread, by state. Lists are in the order of task ids.

    `awake`: the running tasks that do not sleep.
    """

    def __init__(self) -> None:
        self.active: dict[TaskId, StreamTask] = {}
        self.standby: dict[TaskId, StandbyTask] = {}
        self.to_initialise: tuple[AnyTask, ...] = ()
        self.restoring: tuple[StreamTask, ...] = ()
        self.running: tuple[StreamTask, ...] = ()
        self.awake: tuple[StreamTask, ...] = ()
        self.updating: tuple[StandbyTask, ...] = ()
        self.by_input: Mapping[TopicPartition, StreamTask] = {}
        self._alarms_ms: dict[TaskId, int] = {}  # next wall-clock punctuation of sleeping tasks

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
        """Remove the task from the lists. A task that is in no list is ignored."""
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
        """Wake these running tasks, because they may have something to do."""
        awake = {task.id for task in self.awake}
        waking = set(tasks) - awake
        if waking:
            for task in waking:
                self._alarms_ms.pop(task, None)
            awake |= waking
            self.awake = tuple(task for task in self.running if task.id in awake)

    def wake_due(self, now_ms: int) -> None:
        """Wake the tasks that have a punctuation due. `now_ms`: wall-clock time."""
        if self._alarms_ms:
            self.wake([task for task, alarm_ms in self._alarms_ms.items() if alarm_ms <= now_ms])

    def let_sleep(self) -> None:
        """Let awake tasks sleep if they have nothing left to do. Call `let_sleep` after all awake tasks have processed
        and punctuated.
        """
        awake = []
        for task in self.awake:
            if not task.may_sleep:
                awake.append(task)
            elif (next_ms := task.next_wall_clock_punctuation_ms()) is not None:
                self._alarms_ms[task.id] = next_ms
        self.awake = tuple(awake)

    def next_punctuation_ms(self) -> int | None:
        """The wall-clock time of the next punctuation of any running task; None if none is scheduled."""
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
    """Closes tasks of one stream thread and removes them from its lists, and restarts corrupt tasks.

    - A clean close is for a committed task. A clean close writes the checkpoint, closes the stores and unlocks the
      directory.
    - A dirty close follows an error or a migration. A dirty close makes no commit, raises no error, and deletes state
      on disk that may be wrong.
    - A task that is closed dirty and revived is restarted in this thread; if its state was corrupt, it is restored from
      the beginning of its changelogs.
    - The changelog reader stops reading into the stores of a task before they are closed.

    Source: `TaskManager.closeTaskClean`, `closeTaskDirty`, `closeDirtyAndRevive`.
    """

    def __init__(self, tasks: Tasks, reader: ChangelogReader, offset_report: OffsetReport) -> None:
        self._tasks = tasks
        self._reader = reader
        self._offset_report = offset_report

    def suspend(self, task: AnyTask) -> None:
        """Stop processing and restoring the task. Raises errors of the user's processors, which are closed here."""
        self._reader.unregister(task.changelog_partitions)
        task.suspend()

    def close_clean(self, tasks: Iterable[AnyTask], errors: dict[TaskId, Exception]) -> None:
        """Close committed tasks. A task whose close fails is closed dirty; its first error is put in `errors`."""
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
        """Close the task without a commit. Never raises."""
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
        """Restart these tasks in this thread. Never raises."""
        for task in tasks:
            self.close_dirty(task)
            task.revive()
            if task.type is TaskType.ACTIVE:
                self._tasks.active[task.id] = task  # type: ignore[assignment]  # an ACTIVE task is a StreamTask
            else:
                self._tasks.standby[task.id] = task  # type: ignore[assignment]  # a STANDBY task is a StandbyTask

    def remove(self, task: AnyTask) -> None:
        """Remove a task that is closed, or was never opened, from the lists, and unlock its directory."""
        self._tasks.remove(task)
        self._offset_report.unlock_directory(task.id)


class OffsetReport:
    """Reports the offset sums of one stream thread, which alone uses it, and locks the directories that it reports."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._locked: dict[TaskId, Mapping[TopicPartition, int]] = {}

    @property
    def holds_directories(self) -> bool:
        """True if this thread reports tasks whose state is on disk. Another thread may lock the directory of a reported
        task at any time.
        """
        return bool(self._locked)

    def lock_directories(self, initialised: Container[TaskId]) -> None:
        """Lock every directory with state that no other thread has locked, because a rebalance starts. Idempotent.

        `initialised`: the open tasks, which have locked their directories and are ahead of their checkpoints on disk.
        """
        for task in self._directory.non_empty_task_directories():
            if task in initialised or self._reports(task) or not self._lock(task):
                continue
            if self._directory.is_empty(task):  # the cleaner deleted the state before the lock was taken
                self._directory.unlock(task)
            else:
                self._locked[task] = next_offsets(self._directory.checkpointed_offsets(task))

    def release_directories(self, own: Iterable[Task]) -> None:
        """Unlock the directories of tasks that were not assigned to this thread. Call `release_directories` when the
        rebalance is over.
        """
        kept = {task.id for task in own}
        for task in [task for task in self._locked if task not in kept]:
            self._directory.unlock(task)
        self._locked.clear()  # from now on the tasks hold the locks

    def unlock_directory(self, task: TaskId) -> None:
        """Unlock the directory of a task that is closed, or was never opened."""
        self._locked.pop(task, None)
        self._directory.unlock(task)

    def sums(self, tasks: Iterable[Task]) -> dict[TaskId, int]:
        """Returns the offset sum of each task. A task without known offsets is left out."""
        reported: dict[TaskId, int] = {
            task: sum_of(offsets) for task, offsets in self._locked.items() if offsets and self._reports(task)
        }
        for task in tasks:
            if task.state in (TaskState.CREATED, TaskState.CLOSED) or not task.changelog_partitions:
                continue  # the task has read nothing yet; its checkpoint was reported above
            if task.type is TaskType.ACTIVE and task.state is TaskState.RUNNING:
                reported[task.id] = LATEST_OFFSET
            else:
                reported[task.id] = sum_of(task.changelog_offsets())
        return reported

    def _reports(self, task: TaskId) -> bool:
        """True if this thread still holds the directory. A thread that is assigned the task takes the directory from
        this thread.
        """
        return task in self._locked and self._directory.holds(task)

    def _lock(self, task: TaskId) -> bool:
        try:
            return self._directory.lock(task, to_report=True)
        except LockError:  # another process has locked the directory, and reports the task
            return False


def sum_of(offsets: Mapping[TopicPartition, int]) -> int:
    """Returns the sum of the offsets, at most JAVA_LONG_MAX. A negative offset is unknown and counts as 0."""
    return min(sum(offset for offset in offsets.values() if offset > 0), JAVA_LONG_MAX)
