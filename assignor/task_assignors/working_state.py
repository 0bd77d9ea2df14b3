"""The tasks of each client while an assignor works.

`WorkingState` represents tasks and clients by numbers. The number of a task is its index among the sorted stateful
tasks. The number of a client is its index among the sorted process ids. So numbers of tasks and clients sort as their
ids sort in Kafka.
Source: the assigned tasks of `ClientState`; `HighAvailabilityTaskAssignor` works on a TreeMap of clients and a TreeSet
of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from struct import Struct
from typing import NamedTuple

from assignor.errors import InputError
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.topology.partition_grouper import places_in_order
from assignor.types import ProcessId, Role, TaskId

Entry = int
"""A client and its load, combined in one number. Entries sort as in Kafka's comparator: by load, then by process id.

The high bits of an entry are the bits of the load as a double. If two non-negative doubles are compared as integers by
their bits, the result is the same. The low bits of an entry are the client's number.
"""

CLIENT_BITS = 32
CLIENT = (1 << CLIENT_BITS) - 1

_DOUBLE = Struct(">d")


class NamedNumbers(NamedTuple):
    """The ids of the tasks and processes that a `WorkingState` represents by numbers. The functions that the log of
    decisions stores (`DecisionLog.later`) refer to this tuple instead of the state. The state refers to the log, so a
    reference from the log to the state would form a cycle.
    """

    tasks: list[TaskId]
    processes: list[ProcessId]


class WorkingState:
    """The placement of the stateful tasks so far. `tasks`: the stateful tasks, sorted. `places`: the index of each task
    in `tasks`. `clients`: the clients, sorted by process id. All other fields are indexed by the number of a task or
    client.

    `owner[task]`: the client with the active copy, or -1 as long as the task has no active copy. `assigned[client]`:
    the number of active and standby copies. `warm_ups[client]`: the tasks of `standby[client]` whose copies are
    warm-ups.
    """

    def __init__(self, places: Mapping[TaskId, int], clients: list[PlacementClient], log: DecisionLog) -> None:
        """Creates a state in which nothing is assigned."""
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
        """Creates a state in which nothing is assigned. Raises InputError if there are no clients, or if a client has
        no threads.

        Differs from Kafka: for an empty group, Kafka throws a NoSuchElementException. For a client without threads,
        Kafka computes a load of NaN or infinity. A real group has at least one client, and each client has at least one
        thread.
        """
        if not problem.clients:
            raise InputError("a placement needs at least one client", "clients")
        clients = [problem.clients[process] for process in sorted(problem.clients)]
        for client in clients:
            if client.capacity < 1:
                raise InputError(f"capacity must be at least 1, not {client.capacity}", f"clients.{client.process_id}")
        return cls(places_in_order(problem.stateful_tasks), clients, log)

    def load(self, client: int) -> float:
        """Returns the client's number of copies per thread, as Java's double. Source:
        `ClientState.assignedTaskLoad`.
        """
        return self.assigned[client] / self.capacity[client]

    def holds(self, client: int, task: int) -> bool:
        """True if the client has an active copy or a standby of the task. Source: `ClientState.hasAssignedTask`."""
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
        """Makes the client `standby` the owner of the task. The client `owner` gets a standby. The loads of the two
        clients do not change.
        """
        self.active[owner].remove(task)
        self.standby[owner].add(task)
        self.standby[standby].remove(task)
        self.active[standby].add(task)
        self.owner[task] = standby

    def log_decision(
        self, kind: DecisionKind, task: int, role: Role, client: int, other: int | None = None, saved: int | None = None
    ) -> None:
        """Logs one decision about a stateful task. `saved`: the traffic that the decision saves."""
        processes = self.processes
        other_process = None if other is None else processes[other]
        # `tuple.__new__` is much faster than the call of `Decision`, and thousands of decisions are logged
        fields = (kind, self.tasks[task], role, processes[client], other_process, None, None, saved)
        self.log.append(tuple.__new__(Decision, fields))

    def placement(self, stateless: list[list[TaskId]], probing_rebalance_needed: bool) -> Placement:
        """Returns the final placement. `stateless[client]`: the active stateless tasks of the client."""
        name = self.tasks.__getitem__
        clients: dict[ProcessId, ClientPlacement] = {}
        for client, process in enumerate(self.processes):
            # sorting numbers is much faster than sorting task ids
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


class _LoadBits(dict[int, Entry]):
    """For clients with `capacity` threads, maps a number of copies to the part of an `Entry` that contains the load."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity

    def __missing__(self, copies: int) -> Entry:
        bits = int.from_bytes(_DOUBLE.pack(copies / self._capacity), "big") << CLIENT_BITS
        self[copies] = bits
        return bits


def load_bits(capacity: Sequence[int]) -> list[Mapping[int, Entry]]:
    """Returns one mapping for each client, from a number of copies to an `Entry`. The high bits of this `Entry` contain
    the load, and the low bits are 0. `capacity`: the number of threads of each client.
    """
    of_threads = {threads: _LoadBits(threads) for threads in set(capacity)}
    return [of_threads[threads] for threads in capacity]


def assign_to_least_loaded(state: WorkingState, wanted: Iterable[tuple[int, int]]) -> None:
    """Places standbys on the least loaded clients that have no copy of the task. `wanted`: for each task, the number of
    standbys that it still needs, in the order of placement.

    Source: `StandbyTaskAssignmentUtils.pollClientAndMaybeAssignAndUpdateRemainingStandbyTasks`.
    """
    owner, standby, assigned = state.owner, state.standby, state.assigned
    bits = load_bits(state.capacity)
    queue = [bits[client][assigned[client]] | client for client in range(len(state.clients))]
    heapify(queue)
    chosen: list[int] = []
    for task, missing in wanted:
        if missing == 1 and queue:
            client = queue[0] & CLIENT
            if owner[task] != client and task not in standby[client]:
                standby[client].add(task)
                assigned[client] += 1
                chosen += (task, client)
                heapreplace(queue, bits[client][assigned[client]] | client)
                continue
        drawn: list[int] = []
        while queue and missing > 0:
            client = heappop(queue) & CLIENT
            drawn.append(client)
            if owner[task] != client and task not in standby[client]:
                standby[client].add(task)
                assigned[client] += 1
                chosen += (task, client)
                missing -= 1
        for client in drawn:
            heappush(queue, bits[client][assigned[client]] | client)
        if missing > 0:
            chosen += (task, -missing)
    names = state.names
    state.log.later(lambda: _standby_targets(names, chosen))


def _standby_targets(names: NamedNumbers, chosen: list[int]) -> Iterator[Decision]:
    """Yields the decisions about standbys. `chosen`: a flat list of pairs. The first number of a pair is a task. A
    second number of 0 or more is the client that gets a standby. A second number of -n means that n standbys got no
    client.
    """
    for task, client in zip(chosen[::2], chosen[1::2], strict=True):
        if client >= 0:
            yield Decision(DecisionKind.TARGET, names.tasks[task], Role.STANDBY, names.processes[client])
        else:
            yield Decision(DecisionKind.NO_STANDBY_HOST, names.tasks[task], Role.STANDBY, detail=-client)
