"""Which client holds which task while an assignor works.

Tasks and clients are plain numbers here: a task is its place among the sorted stateful tasks, a client its place among
the sorted process ids. So comparing numbers compares ids in Kafka's order. Source: the assigned tasks of
`ClientState`; `HighAvailabilityTaskAssignor` works on a TreeMap of clients and a TreeSet of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from assignor.decisions import Decision, DecisionKind, DecisionLog
from assignor.errors import InputError
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem
from assignor.topology.remembered_tasks import places_in_order
from assignor.types import ProcessId, Role, TaskId


class NamedNumbers(NamedTuple):
    """Of the numbers in a `WorkingState`. What is told later keeps these alone, and not the state: it has the log, and
    only the cycle collector would free the two.
    """

    tasks: list[TaskId]
    processes: list[ProcessId]


class WorkingState:
    """`tasks`: the stateful ones, sorted; `places`: by task its place there; `clients`: sorted by process. Everything
    else is indexed by these places.

    `owner[task]`: the client with the active copy, -1 before there is one. `assigned[client]`: the number of active
    and standby copies of stateful tasks. `warm_ups[client]`: those of `standby[client]` that only restore.
    """

    def __init__(self, places: Mapping[TaskId, int], clients: list[PlacementClient], log: DecisionLog) -> None:
        """Nothing assigned yet."""
        self.tasks: list[TaskId] = list(places)
        self.places = places
        self.clients = clients
        self.processes: list[ProcessId] = [client.process_id for client in clients]
        self.names = NamedNumbers(self.tasks, self.processes)
        self.capacity: list[int] = [client.capacity for client in clients]
        self.owner: list[int] = [-1] * len(places)
        self.active: list[set[int]] = [set() for _ in clients]
        self.standby: list[set[int]] = [set() for _ in clients]
        self.warm_ups: list[set[int]] = [set() for _ in clients]
        self.assigned: list[int] = [0] * len(clients)
        self.log = log

    @classmethod
    def of(cls, problem: PlacementProblem, log: DecisionLog) -> WorkingState:
        """Nothing assigned yet. Raises InputError without clients, or for a client without a thread.

        Differs from Kafka: there an empty group is a NoSuchElementException, and a client without threads has a load
        of NaN or infinity; neither can come from a real group.
        """
        if not problem.clients:
            raise InputError("a placement needs at least one client", "clients")
        clients = [problem.clients[process] for process in sorted(problem.clients)]
        for client in clients:
            if client.capacity < 1:
                raise InputError(f"capacity must be at least 1, not {client.capacity}", f"clients.{client.process_id}")
        return cls(places_in_order(problem.stateful_tasks), clients, log)

    def load(self, client: int) -> float:
        """Copies per thread, as Java's double. Source: `ClientState.assignedTaskLoad`."""
        return self.assigned[client] / self.capacity[client]

    def holds(self, client: int, task: int) -> bool:
        """Whether the client has an active or a standby copy. Source: `ClientState.hasAssignedTask`."""
        return self.owner[task] == client or task in self.standby[client]

    def assign_active(self, client: int, task: int) -> None:
        self.active[client].add(task)
        self.owner[task] = client
        self.assigned[client] += 1

    def assign_standby(self, client: int, task: int) -> None:
        self.standby[client].add(task)
        self.assigned[client] += 1

    def move_active(self, source: int, destination: int, task: int) -> None:
        giver, receiver = self.active[source], self.active[destination]
        giver.remove(task)
        receiver.add(task)
        self.owner[task] = destination
        self.assigned[source] -= 1
        self.assigned[destination] += 1

    def move_standby(self, source: int, destination: int, task: int) -> None:
        giver, receiver = self.standby[source], self.standby[destination]
        giver.remove(task)
        receiver.add(task)
        self.assigned[source] -= 1
        self.assigned[destination] += 1

    def swap_active_and_standby(self, owner: int, standby: int, task: int) -> None:
        """`standby` becomes the owner and `owner` its standby; no load changes."""
        self.active[owner].remove(task)
        self.standby[owner].add(task)
        self.standby[standby].remove(task)
        self.active[standby].add(task)
        self.owner[task] = standby

    def log_decision(
        self,
        kind: DecisionKind,
        task: int,
        role: Role,
        client: int,
        other: int | None = None,
        detail: int | None = None,
    ) -> None:
        """Logs one step of a stateful task."""
        processes = self.processes
        other_process = None if other is None else processes[other]
        # at once as a tuple: thousands of steps are logged, and the call of the class takes most of the time
        fields = (kind, self.tasks[task], role, processes[client], other_process, None, None, detail)
        self.log.append(tuple.__new__(Decision, fields))

    def placement(self, stateless: list[list[TaskId]], probing_rebalance_needed: bool) -> Placement:
        """`stateless[client]`: its active stateless tasks."""
        name = self.tasks.__getitem__
        clients: dict[ProcessId, ClientPlacement] = {}
        for client, process in enumerate(self.processes):
            # numbers are sorted in a fraction of the time that tasks take
            active, standby = (
                tuple(map(name, sorted(self.active[client]))),
                tuple(map(name, sorted(self.standby[client]))),
            )
            clients[process] = ClientPlacement(
                active=frozenset((*active, *stateless[client])),
                standby=frozenset(standby),
                warm_ups=frozenset(map(name, self.warm_ups[client])),
                active_order=None if stateless[client] else active,
                standby_order=standby,
            )
        return Placement(probing_rebalance_needed, clients)
