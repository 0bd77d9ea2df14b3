"""Several tasks failed in one step: which of their errors is raised.

Rule: an error that ends the thread goes first, then a migration (which loses all tasks anyway), then all corruptions
as one.
Source: `TaskManager.maybeThrowTaskExceptions`.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted, TaskMigrated, error_text


def raise_most_severe(errors: Mapping[TaskId, Exception]) -> None:
    """Raise the most severe error; nothing happens when there is none."""
    corrupted: set[TaskId] = set()
    reasons: dict[str, None] = {}  # in order, each once
    migrated: TaskMigrated | None = None
    fatal: Exception | None = None
    for task, error in errors.items():
        if isinstance(error, TaskMigrated):
            migrated = error
        elif isinstance(error, TaskCorrupted):
            corrupted |= error.tasks
            reasons[error.reason] = None
        else:
            fatal = with_task(error, task)
    if fatal is not None:
        raise fatal
    if migrated is not None:
        raise migrated
    if corrupted:
        raise TaskCorrupted(corrupted, "; ".join(reasons))


def with_task(error: Exception, task: TaskId) -> Exception:
    """The error, with the task named: an error of the runtime itself, or one of which `error` is the cause."""
    if isinstance(error, StreamsRuntimeError):
        if error.task_id is None:
            error.task_id = task
        return error
    wrapped = StreamsRuntimeError(f"failed: {type(error).__name__}: {error_text(error)}", task)
    wrapped.__cause__ = error
    return wrapped
