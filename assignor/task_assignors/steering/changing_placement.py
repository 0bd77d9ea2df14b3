"""A mutable placement, and a function that checks if a client has caught up on a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assignor.clients.client_state import is_caught_up
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem
from assignor.types import ProcessId, TaskId


@dataclass(slots=True)
class ChangingPlacement:
    """The tasks of each process. `standby` includes `warm_ups`. `owner`: the process of each task's active copy."""

    active: dict[ProcessId, set[TaskId]]
    standby: dict[ProcessId, set[TaskId]]
    warm_ups: dict[ProcessId, set[TaskId]]
    owner: dict[TaskId, ProcessId]

    @classmethod
    def of(cls, placement: Placement) -> ChangingPlacement:
        clients = placement.clients.items()
        return cls(
            active={process: set(client.active) for process, client in clients},
            standby={process: set(client.standby) for process, client in clients},
            warm_ups={process: set(client.warm_ups) for process, client in clients},
            owner={task: process for process, client in clients for task in client.active},
        )

    def least_loaded(self, processes: Iterable[ProcessId], clients: Mapping[ProcessId, PlacementClient]) -> ProcessId:
        """Returns the process with the fewest copies per thread. `clients`: the clients; the `capacity` of a client is
        its number of threads.
        """
        count = {process: len(self.active[process]) + len(self.standby[process]) for process in processes}
        return min(count, key=lambda process: (count[process] / max(1, clients[process].capacity), process))

    def move_active(self, task: TaskId, to: ProcessId) -> None:
        """Moves the active copy of the task to the process `to`. The process `to` may have no tasks yet."""
        self.active[self.owner[task]].discard(task)
        self.active.setdefault(to, set()).add(task)
        self.owner[task] = to

    def swap_with_standby(self, task: TaskId, to: ProcessId) -> None:
        """Moves the active copy of the task to the process `to`. If the process `to` had a standby (not a warm-up), the
        previous owner gets a standby.
        """
        owner = self.owner[task]
        was_standby = task in self.standby[to] and task not in self.warm_ups[to]
        self.drop_standby(to, task)
        self.move_active(task, to)
        if was_standby:
            self.standby[owner].add(task)

    def drop_standby(self, process: ProcessId, task: TaskId) -> None:
        """Removes the process's standby of the task, if there is one."""
        self.standby[process].discard(task)
        self.warm_ups[process].discard(task)

    def placed(self) -> dict[ProcessId, ClientPlacement]:
        return {
            process: ClientPlacement(
                frozenset(self.active[process]),
                frozenset(self.standby.get(process, ())),
                frozenset(self.warm_ups.get(process, ())),
            )
            for process in self.active
        }


def is_caught_up_on(problem: PlacementProblem, process: ProcessId, task: TaskId) -> bool:
    """True if the client's lag is within acceptable.recovery.lag. A client with an unknown lag is not caught up."""
    lags = problem.clients[process].lags
    return task in lags and is_caught_up(lags.lag_for(task), problem.configs.acceptable_recovery_lag)
