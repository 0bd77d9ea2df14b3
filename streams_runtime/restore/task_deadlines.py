"""How long tasks have been waiting for the log, each against task.timeout.ms.

Rule: the first failure starts the time, success ends it, a failure after it is over is a TaskTimeout. What could not be
done is told apart: a task whose one changelog can be read is still late when the topic of the other is missing.
Source: `AbstractTask.maybeInitTaskTimeoutOrThrow`.
"""

from __future__ import annotations

from assignor.types import TaskId
from streams_runtime.clock import Clock
from streams_runtime.errors import TaskTimeout


class TaskDeadlines:
    def __init__(self, timeout_ms: int, clock: Clock) -> None:
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._deadlines_ms: dict[tuple[TaskId, str], int] = {}

    def failed(self, task_id: TaskId, what: str, cause: Exception) -> None:
        """`what`: the thing that could not be done, for the message. Raises TaskTimeout."""
        now_ms = self._clock.monotonic_ms()
        deadline_ms = self._deadlines_ms.setdefault((task_id, what), now_ms + self._timeout_ms)
        if now_ms > deadline_ms:
            late_ms = now_ms - deadline_ms + self._timeout_ms
            limit = f"task.timeout.ms is {self._timeout_ms}"
            raise TaskTimeout(f"could not {what} within {late_ms} ms ({limit}): {cause}", task_id) from cause

    def succeeded(self, task_id: TaskId, what: str) -> None:
        if self._deadlines_ms:
            self._deadlines_ms.pop((task_id, what), None)

    def forget(self, task_id: TaskId) -> None:
        for waiting in [each for each in self._deadlines_ms if each[0] == task_id]:
            del self._deadlines_ms[waiting]
