"""A group's rebalances as its members witnessed them, read from their ownership logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.workers.ownership_log import OwnershipEvent, OwnershipLine


@dataclass(frozen=True, slots=True)
class WitnessedRebalance:
    """One generation. Times are milliseconds since the epoch.

    `members`: threads that took an assignment of it. `started_ms`: when the first of them sent its subscription.
    `ended_ms`: when the last of them had its assignment. `moved`: active tasks that came to another thread than their
    last owner.
    """

    generation_id: int
    members: int
    started_ms: float
    ended_ms: float
    moved: int

    @property
    def duration_ms(self) -> float:
        return self.ended_ms - self.started_ms


def witnessed_rebalances(lines: Iterable[OwnershipLine]) -> list[WitnessedRebalance]:
    """Every generation of which some member took an assignment, in order."""
    joining_ms: dict[tuple[str, int], float] = {}
    taken: dict[int, list[tuple[OwnershipLine, float]]] = {}
    for line in sorted(lines, key=lambda line: line.at_ms):
        thread = (line.thread, line.pid)
        if line.event is OwnershipEvent.JOINING:
            joining_ms.setdefault(thread, line.at_ms)
        elif line.event is OwnershipEvent.ASSIGNED and line.generation_id is not None:
            taken.setdefault(line.generation_id, []).append((line, joining_ms.pop(thread, line.at_ms)))
    last_owner: dict[str, str] = {}
    rebalances = []
    for generation_id, of_generation in sorted(taken.items()):
        moved = 0
        for line, _ in of_generation:
            for task in line.active:
                moved += last_owner.get(task, line.thread) != line.thread
                last_owner[task] = line.thread
        rebalances.append(
            WitnessedRebalance(
                generation_id,
                len({line.thread for line, _ in of_generation}),
                min(started_ms for _, started_ms in of_generation),
                max(line.at_ms for line, _ in of_generation),
                moved,
            )
        )
    return rebalances
