"""How long tasks have made no progress, each against task.timeout.ms.

Rule: the first failure starts the time, a success ends it, and a failure after the time is over raises TaskTimeout.
Source: `AbstractTask.maybeInitTaskTimeoutOrThrow`.
"""

from __future__ import annotations

from assignor.types import TaskId
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import TaskTimeout


class TaskDeadline:
    """The deadline of one thing that one task tries to do; `what` names it in the message."""

    __slots__ = ("_deadline_ms", "_task_id", "_timeout_ms", "_what")

    def __init__(self, task_id: TaskId, timeout_ms: int, what: str = "make progress") -> None:
        self._task_id = task_id
        self._timeout_ms = timeout_ms
        self._what = what
        self._deadline_ms: int | None = None

    def failed(self, now_ms: int, cause: Exception | None) -> None:
        """It failed again at `now_ms` (monotonic). Raises TaskTimeout."""
        if self._deadline_ms is None:
            self._deadline_ms = now_ms + self._timeout_ms
        elif now_ms > self._deadline_ms:
            took_ms = now_ms - self._deadline_ms + self._timeout_ms
            limit = f"task.timeout.ms is {self._timeout_ms}"
            raise TaskTimeout(
                f"could not {self._what} within {took_ms} ms ({limit}): {cause}", self._task_id
            ) from cause

    def succeeded(self) -> None:
        self._deadline_ms = None


class TaskDeadlines:
    """Deadlines of several tasks.

    Each thing that a task tries has a deadline of its own: a task that can read one of its changelogs is still late
    when the topic of the other one is missing.
    """

    def __init__(self, timeout_ms: int, clock: Clock) -> None:
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._deadlines: dict[tuple[TaskId, str], TaskDeadline] = {}

    def failed(self, task_id: TaskId, what: str, cause: Exception) -> None:
        """The task could not do `what`. Raises TaskTimeout."""
        deadline = self._deadlines.get((task_id, what))
        if deadline is None:
            deadline = self._deadlines[task_id, what] = TaskDeadline(task_id, self._timeout_ms, what)
        deadline.failed(self._clock.monotonic_ms(), cause)

    def succeeded(self, task_id: TaskId, what: str) -> None:
        if self._deadlines:
            self._deadlines.pop((task_id, what), None)

    def forget(self, task_id: TaskId) -> None:
        for waiting in [each for each in self._deadlines if each[0] == task_id]:
            del self._deadlines[waiting]
