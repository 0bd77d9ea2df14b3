"""Who was told that its group is paused processes nothing until it is told otherwise.

What a process was told is noted here, from the answers themselves: so one that takes no notice of them is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from assignor.types import TaskId

if TYPE_CHECKING:
    from tests.simulation.process import SimulatedProcess


class PauseRule:
    def __init__(self) -> None:
        self._told: dict[SimulatedProcess, bool] = {}

    def is_told(self, process: SimulatedProcess) -> bool:
        """That its group is paused, and nothing else since."""
        return self._told.get(process, False)

    def told_by_heartbeat(self, process: SimulatedProcess, paused: bool | None) -> None:
        if paused is not None:
            self._told[process] = paused

    def told_by_join(self, process: SimulatedProcess, paused: bool) -> None:
        """The answer to a join may be an old one: it counts before the first heartbeat only."""
        if paused:
            self._told.setdefault(process, True)

    def broken_by(
        self, process: SimulatedProcess, before: Mapping[TaskId, int], after: Mapping[TaskId, int]
    ) -> list[TaskId]:
        """The tasks in which a pass has processed something all the same. Both: how many records each task had."""
        if not self.is_told(process):
            return []
        return sorted(task for task, processed in after.items() if processed > before.get(task, 0))
