"""The tasks of one stream thread, by type and by what the thread can do with them now, and how they are closed.

Rules:
- A task id is here once, as active or as standby. Tasks change their own states; `refresh` has to be called after each
  change, so that each pass of the loop only reads lists.
- A running task sleeps once it has nothing to process, to punctuate or to commit. It wakes when it gets records, when
  wall-clock time reaches its next punctuation, and with every `refresh`. A pass asks only tasks that are awake, so an
  idle thread costs the same with one task and with a thousand.

Source: `Tasks`, `TasksRegistry`. Differs from Kafka: there, each pass asks every task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from assignor.errors import IllegalStateError
from assignor.types import TaskId, TopicPartition
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.restore.changelog_reader import ChangelogReader
from streams_runtime.tasks.offset_sums import OffsetReport
from streams_runtime.tasks.standby_task import StandbyTask
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
