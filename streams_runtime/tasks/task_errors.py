"""Several tasks failed in one step: which of the errors the thread gets to see.

Rule: what ends the thread goes first, then a migration (all tasks are lost anyway), then all corruptions as one.
Source: `TaskManager.maybeThrowTaskExceptions`.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignor.types import TaskId
from streams_runtime.errors import StreamsRuntimeError, TaskCorrupted, TaskMigrated


def raise_most_severe(errors: Mapping[TaskId, Exception]) -> None:
    """Do nothing when there are none."""
    corrupted: set[TaskId] = set()
    migrated: TaskMigrated | None = None
    fatal: Exception | None = None
    for task, error in errors.items():
        if isinstance(error, TaskMigrated):
            migrated = error
        elif isinstance(error, TaskCorrupted):
            corrupted |= error.tasks
        else:
            fatal = with_task(error, task)
    if fatal is not None:
        raise fatal
    if migrated is not None:
        raise migrated
    if corrupted:
        raise TaskCorrupted(corrupted)


def with_task(error: Exception, task: TaskId) -> Exception:
    """The error with the task named: the runtime's own as it is, any other as the cause of one."""
    if isinstance(error, StreamsRuntimeError):
        if error.task_id is None:
            error.task_id = task
        return error
    wrapped = StreamsRuntimeError(f"failed: {type(error).__name__}: {error}", task)
    wrapped.__cause__ = error
    return wrapped
