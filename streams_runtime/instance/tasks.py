"""Lists the Streams tasks of one thread by state, closes tasks, and reports their offsets.

Rules:
- A thread has at most one task of each id: an active task or a standby. After the state of a task has changed, the
  caller has to call `refresh`, which sorts the tasks into lists. So a pass of the thread's loop only reads lists.
- A running task sleeps while it has no record to process, no due punctuation and nothing to commit. A sleeping task
  wakes when it gets records, when its next wall-clock punctuation is due, and when `refresh` is called. A pass calls
  only awake tasks. So the duration of an idle pass does not depend on the number of tasks.
- The thread reports the progress of each of its tasks to the group's leader, as one sum of offsets. A running active
  task with changelogs is reported as LATEST_OFFSET. For a restoring task or a standby, the thread reports the sum of
  its restored offsets. So the leader recognises the previous owner of a task: the thread that runs the task.
- For a task with open stores, the sum contains the positions in its changelogs. For a task that is not open but has
  state on disk, the sum contains the offsets in its stores and in its checkpoint file. A task is not reported if it is
  corrupt or has no offsets.
- At the start of a rebalance, a thread tries to lock the directories of tasks that are not open. If a task is not open,
  the thread reports it only after it has locked the task's directory. So each task is reported by only one thread of
  the process. After the rebalance, the thread unlocks the directories of the tasks that were not assigned to it. If a
  task that is not open is assigned to another thread of the process, that other thread can lock the directory at once.
- A sum that is larger than the largest Java long is reported as JAVA_LONG_MAX.

Source: `Tasks`, `TasksRegistry`, `TaskManager.taskOffsetSums`, `tryToLockAllNonEmptyTaskDirectories`,
`releaseLockedUnassignedTaskDirectories`. Differs from Kafka: in Kafka, each pass calls every task. In Kafka, a thread
unlocks the directories of reported tasks only when it gets its next assignment.
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
    """The tasks of one stream thread, by state. Each list is in the order of task ids.

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
        self._alarms_ms: dict[TaskId, int] = {}  # the time of each sleeping task's next wall-clock punctuation

    def __iter__(self) -> Iterator[AnyTask]:
        yield from (self.active[task] for task in sorted(self.active))
        yield from (self.standby[task] for task in sorted(self.standby))

    def add_active(self, task: StreamTask) -> None:
        self._check_new(task)
        self.active[task.id] = task

    def add_standby(self, task: StandbyTask) -> None:
        self._check_new(task)
        self.standby[task.id] = task

    def remove(self, task: Task) -> None:
        """Remove the task. Does nothing if this thread does not have the task."""
        if task.type is TaskType.ACTIVE:
            self.active.pop(task.id, None)
        else:
            self.standby.pop(task.id, None)

    def refresh(self) -> None:
        """Put each task into the list of its present state."""
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

    # --- Methods for sleeping tasks.

    def wake(self, tasks: Iterable[TaskId]) -> None:
        """Wake these running tasks, which may have work to do."""
        awake = {task.id for task in self.awake}
        waking = set(tasks) - awake
        if waking:
            for task in waking:
                self._alarms_ms.pop(task, None)
            awake |= waking
            self.awake = tuple(task for task in self.running if task.id in awake)

    def wake_due(self, now_ms: int) -> None:
        """Wake the tasks that have a due punctuation. `now_ms`: wall-clock time."""
        if self._alarms_ms:
            self.wake([task for task, alarm_ms in self._alarms_ms.items() if alarm_ms <= now_ms])

    def let_sleep(self) -> None:
        """Put awake tasks to sleep if they have nothing to do. Call this method after all awake tasks have processed
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
        """Returns the time of the earliest wall-clock punctuation of all running tasks, or None if no punctuation is
        scheduled.
        """
        of_awake = (task.next_wall_clock_punctuation_ms() for task in self.awake)
        return min((*self._alarms_ms.values(), *(each for each in of_awake if each is not None)), default=None)

    def initialised(self) -> Mapping[TaskId, Task]:
        """Returns the tasks with open stores. The changelog reader may apply records to open stores."""
        initialised: list[AnyTask] = [*self.running, *self.restoring, *self.updating]
        return {task.id: task for task in initialised}

    def _check_new(self, task: Task) -> None:
        held = self.active.get(task.id) or self.standby.get(task.id)
        if held is not None:
            raise IllegalStateError(f"task {task.id} is here already, as {held}")


class TaskCloser:
    """Closes tasks of one stream thread, removes closed tasks from the thread's lists, and restarts corrupt tasks.

    - A task has to be committed before a clean close. A clean close writes the checkpoint, closes the stores and
      unlocks the directory.
    - A task is closed dirty after an error or after TaskMigrated. A dirty close does not commit and raises no error. If
      the state on disk may be wrong, a dirty close deletes it.
    - After a dirty close, a task can be revived: it then restarts in the same thread. If the state of a revived task
      was corrupt, the task is restored from the beginning of its changelogs.
    - Before `TaskCloser` closes the stores of a task, it unregisters their changelogs from the changelog reader.

    Source: `TaskManager.closeTaskClean`, `closeTaskDirty`, `closeDirtyAndRevive`.
    """

    def __init__(self, tasks: Tasks, reader: ChangelogReader, offset_report: OffsetReport) -> None:
        self._tasks = tasks
        self._reader = reader
        self._offset_report = offset_report

    def suspend(self, task: AnyTask) -> None:
        """Stop processing and restoring the task, and close its processors. Raises the errors of the processors."""
        self._reader.unregister(task.changelog_partitions)
        task.suspend()

    def close_clean(self, tasks: Iterable[AnyTask], errors: dict[TaskId, Exception]) -> None:
        """Close committed tasks. If a task cannot be closed clean, it is closed dirty, and its first error is added to
        `errors`.
        """
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
        """Mark the state of these tasks as corrupt. The next close of a corrupt task deletes its state. Never
        raises.
        """
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
            # Every task of the type ACTIVE is a StreamTask, and every other task is a StandbyTask.
            if task.type is TaskType.ACTIVE:
                self._tasks.active[task.id] = task  # type: ignore[assignment]
            else:
                self._tasks.standby[task.id] = task  # type: ignore[assignment]

    def remove(self, task: AnyTask) -> None:
        """Remove a task that is closed, or that was never opened. Also unlocks the directory of the task."""
        self._tasks.remove(task)
        self._offset_report.unlock_directory(task.id)


class OffsetReport:
    """Reports the offset sums of one stream thread, and locks the directories of the reported tasks. No other thread
    uses the `OffsetReport`. `changelogs`: the changelog topics of the topology. A directory may also have stores of an
    earlier version of the application, whose offsets must not be reported.
    """

    def __init__(self, directory: StateDirectory, changelogs: Container[str]) -> None:
        self._directory = directory
        self._changelogs = changelogs
        self._locked: dict[TaskId, Mapping[TopicPartition, int]] = {}

    @property
    def holds_directories(self) -> bool:
        """True if this thread has locked directories to report their tasks. If a reported task is assigned to another
        thread, that thread may take the lock of its directory at any time.
        """
        return bool(self._locked)

    def lock_directories(self, initialised: Container[TaskId]) -> None:
        """Lock every task directory that has state and that no other thread has locked. Called at the start of a
        rebalance. Idempotent.

        `initialised`: the open tasks. The directories of open tasks are already locked, and `sums` uses the present
        offsets of these tasks instead of the offsets on disk.
        """
        for task in self._directory.non_empty_task_directories():
            if task in initialised or self._reports(task) or not self._lock(task):
                continue
            if self._directory.is_empty(task):  # the clean-up has deleted the state before the directory was locked
                self._directory.unlock(task)
            else:
                stored = self._directory.stored_offsets(task)
                self._locked[task] = next_offsets({p: at for p, at in stored.items() if p.topic in self._changelogs})

    def release_directories(self, own: Iterable[Task]) -> None:
        """Unlock the directories of tasks that were not assigned to this thread. Call this method when the rebalance is
        over.
        """
        kept = {task.id for task in own}
        for task in [task for task in self._locked if task not in kept]:
            self._directory.unlock(task)
        self._locked.clear()  # the locks of the other directories now belong to the assigned tasks

    def unlock_directory(self, task: TaskId) -> None:
        """Unlock the directory of a task that is closed, or was never opened."""
        self._locked.pop(task, None)
        self._directory.unlock(task)

    def sums(self, tasks: Iterable[Task]) -> dict[TaskId, int]:
        """Returns the offset sum of each task. Leaves out tasks without changelogs. If a task is not open and its
        directory has no offsets, the task is also left out.
        """
        reported: dict[TaskId, int] = {
            task: sum_of(offsets) for task, offsets in self._locked.items() if offsets and self._reports(task)
        }
        for task in tasks:
            if task.state in (TaskState.CREATED, TaskState.CLOSED) or not task.changelog_partitions:
                continue  # the task is not open; if it has offsets on disk, `reported` already has their sum
            if task.type is TaskType.ACTIVE and task.state is TaskState.RUNNING:
                reported[task.id] = LATEST_OFFSET
            else:
                reported[task.id] = sum_of(task.changelog_offsets())
        return reported

    def _reports(self, task: TaskId) -> bool:
        """Returns True if this thread has locked the directory to report its task, and has not lost the lock. A thread
        loses the lock when the task is assigned to another thread.
        """
        return task in self._locked and self._directory.holds(task)

    def _lock(self, task: TaskId) -> bool:
        try:
            return self._directory.lock(task, to_report=True)
        except LockError:  # another process has locked the directory, and reports the task
            return False


def sum_of(offsets: Mapping[TopicPartition, int]) -> int:
    """Returns the sum of the offsets, at most JAVA_LONG_MAX. If an offset is negative, it is unknown, and the sum
    contains 0 for it.
    """
    return min(sum(offset for offset in offsets.values() if offset > 0), JAVA_LONG_MAX)
