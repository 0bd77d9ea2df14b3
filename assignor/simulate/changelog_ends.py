"""How long the changelogs of every stateful task are: as recorded, and what was appended while the task ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.simulate.task_runs import TaskRuns
from assignor.types import TaskId


@dataclass(frozen=True, slots=True)
class ChangelogEnds:
    """`recorded`: end-offset sum of every stateful task at the recorded round."""

    recorded: Mapping[TaskId, int]
    appended_records_per_s: float
    runs: TaskRuns

    def __contains__(self, task: TaskId) -> bool:
        return task in self.recorded

    def end(self, task: TaskId, now_ms: int) -> int:
        """End-offset sum of a stateful task."""
        return self.recorded[task] + self.appended(task, now_ms)

    def appended(self, task: TaskId, now_ms: int) -> int:
        """Records since the recorded round."""
        if not self.appended_records_per_s:
            return 0
        return int(self.appended_records_per_s * self.runs.ran_ms(task, now_ms) / 1000)

    def ends(self, now_ms: int) -> Mapping[TaskId, int]:
        """Of all stateful tasks."""
        if not self.appended_records_per_s:
            return self.recorded
        return {task: self.end(task, now_ms) for task in self.recorded}
