"""When every task runs, how long it ran, how long it ran nowhere, and how far its changelogs have grown meanwhile.

A task runs from the moment its owner has restored it. That moment is known when the task is handed out, and is dropped
when the task is taken away earlier. Times are milliseconds since the recorded rebalance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.types import JAVA_LONG_MAX, TaskId


@dataclass(slots=True)
class TaskRuns:
    """`unowned_since`: for a task that does not run, when it stopped. `unowned_ms`, `longest_ms`: over all times
    without an owner that have ended; `finish` adds those that have not.
    """

    unowned_since: dict[TaskId, int]
    unowned_ms: int = 0
    longest_ms: int = 0
    longest_task: TaskId | None = None
    _runs_from: dict[TaskId, int] = field(default_factory=dict)
    _ran_ms: dict[TaskId, int] = field(default_factory=dict)

    def starts(self, task: TaskId, at_ms: int) -> None:
        """`at_ms` may lie in the future."""
        self._runs_from[task] = at_ms

    def stops(self, task: TaskId, at_ms: int) -> None:
        """Its owner gives the task up, whether it ran already or was still being restored."""
        runs_from = self._runs_from.pop(task)
        if runs_from > at_ms:
            return
        self._count(task, runs_from)
        self._ran_ms[task] = self._ran_ms.get(task, 0) + at_ms - runs_from
        self.unowned_since[task] = at_ms

    def ran_ms(self, task: TaskId, now_ms: int) -> int:
        """How long the task ran since the recorded rebalance, over all its owners."""
        runs_from = self._runs_from.get(task)
        running = 0 if runs_from is None else max(now_ms - max(runs_from, 0), 0)
        return self._ran_ms.get(task, 0) + running

    def finish(self, now_ms: int) -> None:
        """Nothing is handed out any more: a task that is being restored is unowned until it runs, a task without an
        owner until now.
        """
        for task in sorted(self.unowned_since):
            self._count(task, self._runs_from.get(task, now_ms))

    @property
    def runs_from(self) -> Mapping[TaskId, int]:
        """For every task that has an owner."""
        return self._runs_from

    def _count(self, task: TaskId, until_ms: int) -> None:
        stretch_ms = until_ms - self.unowned_since.pop(task, until_ms)
        self.unowned_ms += stretch_ms
        if stretch_ms > self.longest_ms:
            self.longest_ms, self.longest_task = stretch_ms, task


@dataclass(frozen=True, slots=True)
class ChangelogEnds:
    """`recorded`: the end-offset sum of every stateful task at the recorded rebalance."""

    recorded: Mapping[TaskId, int]
    appended_records_per_s: float
    runs: TaskRuns

    def __contains__(self, task: TaskId) -> bool:
        return task in self.recorded

    def end(self, task: TaskId, now_ms: int) -> int:
        """The end-offset sum of a stateful task."""
        return self.recorded[task] + self.appended(task, now_ms)

    def appended(self, task: TaskId, now_ms: int) -> int:
        """Records appended since the recorded rebalance. The end-offset sum stops at the highest long of Java."""
        if not self.appended_records_per_s:
            return 0
        records = int(self.appended_records_per_s * self.runs.ran_ms(task, now_ms) / 1000)
        return min(records, JAVA_LONG_MAX - self.recorded[task])

    def ends(self, now_ms: int) -> Mapping[TaskId, int]:
        """The end-offset sums of all stateful tasks."""
        if not self.appended_records_per_s:
            return self.recorded
        return {task: self.end(task, now_ms) for task in self.recorded}
