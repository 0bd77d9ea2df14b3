"""Kafka's check of what an assignor answers. Source: `TaskAssignmentUtils.validateTaskAssignment`."""

from __future__ import annotations

from collections.abc import Set

from assignor.assignment.application_state import ApplicationState
from assignor.assignment.task_assignment import AssignedTaskType, KafkaStreamsAssignment, TaskAssignment
from assignor.java.hash_codes import task_hash
from assignor.java.order import hash_set_order
from assignor.task_assignors.base import AssignmentError
from assignor.types import TaskId


def validate_task_assignment(application_state: ApplicationState, task_assignment: TaskAssignment) -> AssignmentError:
    """The first error, or NONE. As in Kafka, a task that nobody runs is no error."""
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
    """Of a client that has tasks of both errors, the one that Kafka meets first in its HashMap."""
    unknown = next(
        task not in tasks
        for task in hash_set_order(assignment.tasks, task_hash)
        if task not in tasks or (assignment.has(task, AssignedTaskType.ACTIVE) and task in active)
    )
    return AssignmentError.UNKNOWN_TASK_ID if unknown else AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES
