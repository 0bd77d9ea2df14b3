"""Kafka's check of what an assignor answers. Source: `TaskAssignmentUtils.validateTaskAssignment`."""

from __future__ import annotations

from assignor.assignment.application_state import ApplicationState
from assignor.assignment.task_assignment import AssignedTaskType, TaskAssignment
from assignor.task_assignors.base import AssignmentError
from assignor.types import TaskId


def validate_task_assignment(application_state: ApplicationState, task_assignment: TaskAssignment) -> AssignmentError:
    """The first error, or NONE. As in Kafka, a task that nobody runs is no error."""
    tasks = frozenset(application_state.problem.tasks)
    active: set[TaskId] = set()
    standby: set[TaskId] = set()
    for assignment in task_assignment.assignment:
        for task in assignment.tasks.values():
            if task.id not in tasks:
                return AssignmentError.UNKNOWN_TASK_ID
            if task.type is not AssignedTaskType.ACTIVE:
                standby.add(task.id)
            elif task.id in active:
                return AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES
            else:
                active.add(task.id)
    if not all(application_state.is_stateful(task) for task in standby):
        return AssignmentError.INVALID_STANDBY_TASK
    known = application_state.problem.clients.keys()
    answered = {assignment.process_id for assignment in task_assignment.assignment}
    if not known <= answered:
        return AssignmentError.MISSING_PROCESS_ID
    return AssignmentError.NONE if answered <= known else AssignmentError.UNKNOWN_PROCESS_ID
