"""The output of an assignor: the tasks of each process, and the time at which the process should request the next
rebalance.

Source: `KafkaStreamsAssignment`, `TaskAssignor.TaskAssignment`, `TaskAssignmentUtils.identityAssignment`,
`validateTaskAssignment`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from assignor.assignment.application_state import ApplicationState
from assignor.errors import IllegalArgumentError, IllegalStateError
from assignor.java.hash_codes import task_hash
from assignor.java.hash_map import JavaHashMap
from assignor.task_assignors.base import AssignmentError
from assignor.types import JAVA_LONG_MAX, ProcessId, TaskId


class AssignedTaskType(Enum):
    """Source: `AssignedTask.Type`."""

    ACTIVE = "ACTIVE"
    STANDBY = "STANDBY"


class AssignedTask(NamedTuple):
    id: TaskId
    type: AssignedTaskType

    @classmethod
    def active(cls, task: TaskId) -> AssignedTask:
        return cls(task, AssignedTaskType.ACTIVE)

    @classmethod
    def standby(cls, task: TaskId) -> AssignedTask:
        return cls(task, AssignedTaskType.STANDBY)


class KafkaStreamsAssignment:
    """The tasks of one process, with at most one copy of each task. The object is mutable.

    As in Kafka, the tasks are in the order of a HashMap. This order also depends on the largest number of tasks that
    the process has had.
    """

    __slots__ = ("_followup_rebalance_deadline_ms", "_process_id", "_tasks")

    def __init__(self, process_id: ProcessId, tasks: Iterable[AssignedTask] = ()) -> None:
        """Raises IllegalStateError if `tasks` contains an active copy and a standby of one task."""
        self._process_id = process_id
        self._followup_rebalance_deadline_ms: int | None = None
        copies: dict[TaskId, AssignedTask] = {}
        for task in tasks:
            if copies.setdefault(task.id, task) != task:
                raise IllegalStateError(f"Duplicate key {task.id}: it cannot be both active and standby on one client")
        self._tasks = JavaHashMap(copies.items(), hash_of=task_hash)

    @property
    def process_id(self) -> ProcessId:
        return self._process_id

    @property
    def tasks(self) -> Mapping[TaskId, AssignedTask]:
        return MappingProxyType(self._tasks)

    @property
    def followup_rebalance_deadline_ms(self) -> int | None:
        return self._followup_rebalance_deadline_ms

    def assign_task(self, task: AssignedTask) -> None:
        """Adds a copy of a task. The copy replaces the process's present copy of this task, if there is one."""
        self._tasks[task.id] = task

    def remove_task(self, task: AssignedTask) -> None:
        """Removes the process's copy of the task, active or standby, if there is one."""
        self._tasks.pop(task.id, None)

    def with_followup_rebalance(self, deadline_ms: int) -> KafkaStreamsAssignment:
        """Returns a new assignment of this process, with a deadline for the next rebalance. The returned object shares
        its tasks with this object, so a change of the tasks affects both objects. The process requests a rebalance at
        `deadline_ms` (milliseconds since 1970), or immediately if `deadline_ms` is 0. Only the returned assignment has
        the deadline. Raises IllegalArgumentError if `deadline_ms` does not fit 64 bits.
        """
        if not -JAVA_LONG_MAX - 1 <= deadline_ms <= JAVA_LONG_MAX:
            raise IllegalArgumentError(f"a deadline has to be a 64-bit number of milliseconds, not {deadline_ms}")
        other = KafkaStreamsAssignment(self._process_id)
        other._tasks = self._tasks
        other._followup_rebalance_deadline_ms = deadline_ms
        return other

    def has(self, task: TaskId, type: AssignedTaskType) -> bool:
        found = self._tasks.get(task)
        return found is not None and found.type is type

    def __repr__(self) -> str:
        tasks = ", ".join(f"{task.type.value} {task.id}" for task in self._tasks.values())
        return f"KafkaStreamsAssignment({self._process_id}, [{tasks}], {self._followup_rebalance_deadline_ms})"


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """The assignments of all processes. A process without tasks has an empty assignment. If a process has several
    assignments, the last of these assignments is used.
    """

    assignment: Collection[KafkaStreamsAssignment]


def identity_assignment(application_state: ApplicationState) -> dict[ProcessId, KafkaStreamsAssignment]:
    """Returns an assignment in which every process keeps its previous tasks, in the order of the clients. The
    assignment includes previous tasks that no longer exist.

    Source: `TaskAssignmentUtils.identityAssignment`.
    """
    return {
        process: KafkaStreamsAssignment(
            process,
            [
                *map(AssignedTask.active, state.previous_active_tasks),
                *map(AssignedTask.standby, state.previous_standby_tasks),
            ],
        )
        for process, state in application_state.kafka_streams_states().items()
    }


def add_missing_clients(
    application_state: ApplicationState, assignments: dict[ProcessId, KafkaStreamsAssignment]
) -> None:
    """Adds an empty assignment for each process that has no assignment.
    Source: `TaskAssignmentUtils.initializeAssignmentsForAllClients`.
    """
    for process in application_state.kafka_streams_states():
        if process not in assignments:
            assignments[process] = KafkaStreamsAssignment(process)


def validate_task_assignment(application_state: ApplicationState, task_assignment: TaskAssignment) -> AssignmentError:
    """Checks the assignment as Kafka does. Returns the first error of the assignment, or NONE. As in Kafka, it is not
    an error if no process runs a task.
    """
    tasks = frozenset(application_state.problem.tasks)
    active: set[TaskId] = set()
    standby: set[TaskId] = set()
    for assignment in task_assignment.assignment:
        runs = {task.id for task in assignment.tasks.values() if task.type is AssignedTaskType.ACTIVE}
        if not assignment.tasks.keys() <= tasks or not runs.isdisjoint(active):
            return _first_in_java_order(assignment, tasks, active)
        active |= runs
        standby.update(assignment.tasks.keys() - runs)
    if not all(application_state.is_stateful(task) for task in standby):
        return AssignmentError.INVALID_STANDBY_TASK
    known = application_state.problem.clients.keys()
    answered = {assignment.process_id for assignment in task_assignment.assignment}
    if not known <= answered:
        return AssignmentError.MISSING_PROCESS_ID
    return AssignmentError.NONE if answered <= known else AssignmentError.UNKNOWN_PROCESS_ID


def _first_in_java_order(
    assignment: KafkaStreamsAssignment, tasks: Set[TaskId], active: Set[TaskId]
) -> AssignmentError:
    """Returns the first error that Kafka finds in a client's tasks. Kafka checks the tasks in HashMap order."""
    unknown = next(
        task not in tasks
        for task in assignment.tasks
        if task not in tasks or (assignment.has(task, AssignedTaskType.ACTIVE) and task in active)
    )
    return AssignmentError.UNKNOWN_TASK_ID if unknown else AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES
