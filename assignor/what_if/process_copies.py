"""What each process has after a round, and which of it the process had before."""

from __future__ import annotations

from dataclasses import dataclass

from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.types import ProcessId


@dataclass(frozen=True, slots=True)
class ProcessCopies:
    """Numbers of copies. `active_kept`: tasks that ran there; `active_moved_in`: that ran elsewhere or nowhere.

    `standby_kept`: of tasks that the process had a copy of, whatever its role; `standby_new`: of tasks that it had
    nothing of. Warm-ups count for themselves. `threads`: stream threads.
    """

    process: ProcessId
    threads: int
    active_kept: int
    active_moved_in: int
    standby_kept: int
    standby_new: int
    warm_ups: int


def copies_by_process(problem: PlacementProblem, placement: Placement) -> tuple[ProcessCopies, ...]:
    """One for each client, in the order of `problem`."""
    copies = []
    for process, client in problem.clients.items():
        after = placement.clients[process]
        standby = after.standby - after.warm_ups
        kept = len(after.active & client.previous_active)
        standby_kept = len(standby & (client.previous_active | client.previous_standby))
        copies.append(
            ProcessCopies(
                process=process,
                threads=client.capacity,
                active_kept=kept,
                active_moved_in=len(after.active) - kept,
                standby_kept=standby_kept,
                standby_new=len(standby) - standby_kept,
                warm_ups=len(after.warm_ups),
            )
        )
    return tuple(copies)
