"""The tasks of one stream thread, by type and by what the thread can do with them now.

Rule: a task id is here once, as active or as standby. Tasks change their own states; `refresh` has to be called after
each change, so that each pass of the loop only reads lists. Source: `Tasks`, `TasksRegistry`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assignor.errors import IllegalStateError
from assignor.types import TaskId, TopicPartition
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.tasks.standby_task import StandbyTask
from streams_runtime.tasks.stream_task import StreamTask
from streams_runtime.tasks.task import Task

AnyTask = StreamTask | StandbyTask


class Tasks:
    """Every list is in the order of task ids."""

    def __init__(self) -> None:
        self.active: dict[TaskId, StreamTask] = {}
        self.standby: dict[TaskId, StandbyTask] = {}
        self.to_initialise: tuple[AnyTask, ...] = ()
        self.restoring: tuple[StreamTask, ...] = ()
        self.running: tuple[StreamTask, ...] = ()
        self.updating: tuple[StandbyTask, ...] = ()
        self.by_input: Mapping[TopicPartition, StreamTask] = {}

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
        """Nothing happens when the task is not here."""
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

    def initialised(self) -> Mapping[TaskId, Task]:
        """The tasks whose stores are open, so that changelogs may be read into them."""
        initialised: list[AnyTask] = [*self.running, *self.restoring, *self.updating]
        return {task.id: task for task in initialised}

    def _check_new(self, task: Task) -> None:
        if task.id in self:
            raise IllegalStateError(f"task {task.id} is here already, as {self.get(task.id)}")
