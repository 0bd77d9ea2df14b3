"""Clients by the room they have left, as the sticky assignor looks for it.

Kafka walks all candidates for each task and keeps the first one with the least load per thread, more threads first
among equals; an empty client ends the walk. A heap gives the same client, as long as equals stay in the order in which
Kafka meets them.

For standbys that is the order of a `HashSet` that Kafka fills anew for each standby with the clients that do not hold
the task. In a table of a given capacity the clients left out do not change the order of the others, so one queue for
each capacity serves all tasks. The set is really filled only when process ids collide so often that buckets become
trees. Source: `LegacyStickyTaskAssignor.findLeastLoaded`, `findClientsWithoutAssignedTask`,
`ClientState.hasMoreAvailableCapacityThan`, `java.util.HashSet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

from assignor.java.hash_codes import process_hash
from assignor.java.order import DEFAULT_INITIAL_CAPACITY, hash_set_order, is_crowded, spread_hash
from assignor.types import ProcessId, TaskId

Room = tuple[float, int]
"""The lower, the more room: tasks per thread, then minus the number of threads. Empty clients are equal, and come
before all others.
"""

EMPTY: Room = (-1.0, 0)


@dataclass(slots=True)
class Client:
    """A client while it is given tasks. `number`: its place in the leader's order. `prefers_more_threads`: whether of
    two clients with the same load the one with more threads has more room.
    """

    number: int
    process_id: ProcessId
    capacity: int
    prefers_more_threads: bool = True
    active: dict[TaskId, None] = field(default_factory=dict)  # in the order in which they came
    standby: dict[TaskId, None] = field(default_factory=dict)
    room: Room = EMPTY

    def assign_active(self, task: TaskId) -> None:
        self.active[task] = None
        self._update_room()

    def assign_standby(self, task: TaskId) -> None:
        self.standby[task] = None
        self._update_room()

    @property
    def task_count(self) -> int:
        return len(self.active) + len(self.standby)

    def reached_capacity(self) -> bool:
        return self.task_count >= self.capacity

    def _update_room(self) -> None:
        tasks = len(self.active) + len(self.standby)
        self.room = (tasks / self.capacity, -self.capacity if self.prefers_more_threads else 0)


def roomiest(candidates: Iterable[Client], prefers: Callable[[Client], bool]) -> Client | None:
    """The first client with the most room that `prefers` accepts, otherwise the first with the most room, otherwise
    None.
    """
    by_room = sorted(candidates, key=_room_of)
    return next(filter(prefers, by_room), by_room[0] if by_room else None)


class ClientQueue:
    """All clients, those with the most room first, then by `ranks[client.number]`. It needs no updates, because rooms
    only shrink.
    """

    __slots__ = ("_clients", "_heap")

    def __init__(self, clients: Sequence[Client], ranks: Sequence[int]) -> None:
        self._clients = clients
        self._heap = [(client.room, ranks[client.number], client.number) for client in clients]
        heapify(self._heap)

    def first(self) -> Client | None:
        """None when there are no clients."""
        heap = self._heap
        while heap:
            room, rank, number = heap[0]
            client = self._clients[number]
            if room == client.room:
                return client
            heapreplace(heap, (client.room, rank, number))
        return None

    def first_without(self, holders: int, prefers: Callable[[Client], bool]) -> Client | None:
        """The first client that `prefers` accepts, otherwise the first; neither in `holders`, a bit mask. None when
        there is none.
        """
        heap, clients = self._heap, self._clients
        passed_over: list[tuple[Room, int, int]] = []
        first: Client | None = None
        found: Client | None = None
        while heap:
            room, rank, number = heap[0]
            client = clients[number]
            if room is not client.room and room != client.room:
                heapreplace(heap, (client.room, rank, number))
                continue
            if not holders >> number & 1:
                if prefers(client):
                    found = client
                    break
                first = first or client
            passed_over.append(heappop(heap))
        for entry in passed_over:
            heappush(heap, entry)
        return found or first


def _room_of(client: Client) -> Room:
    return client.room


class StandbyCandidates:
    """Finds the client with the most room among those that do not hold a task."""

    __slots__ = ("_capacities", "_clients", "_queues", "_spreads")

    def __init__(self, clients: Sequence[Client]) -> None:
        """`clients` in the leader's order, numbered from 0."""
        self._clients = clients
        self._spreads = [spread_hash(process_hash(client.process_id)) for client in clients]
        self._capacities: dict[int, int | None] = {}
        self._queues: dict[int, ClientQueue] = {}

    def first(self, holders: int, prefers: Callable[[Client], bool]) -> Client | None:
        """The roomiest candidate that `prefers` accepts, otherwise the roomiest one, otherwise None. `holders`: those
        that are no candidates, a bit mask.
        """
        queue = self._queue(holders.bit_count())
        if queue is not None:
            return queue.first_without(holders, prefers)
        return roomiest(self._in_set_order(holders), prefers)

    def _queue(self, left_out: int) -> ClientQueue | None:
        if left_out not in self._capacities:
            self._capacities[left_out] = self._capacity(left_out)
        capacity = self._capacities[left_out]
        if capacity is None:
            return None
        queue = self._queues.get(capacity)
        if queue is None:
            queue = self._queues[capacity] = ClientQueue(self._clients, self._ranks(capacity))
        return queue

    def _capacity(self, left_out: int) -> int | None:
        """The set's capacity without any `left_out` clients; None when a bucket could get crowded on the way."""
        size, capacity = len(self._clients) - left_out, DEFAULT_INITIAL_CAPACITY
        while True:
            room = capacity * 3 // 4
            # whichever clients are left out, the first ones of the set are among these
            if is_crowded(self._spreads[: room + 1 + left_out], capacity):
                return None
            if size <= room:
                return capacity
            capacity *= 2

    def _ranks(self, capacity: int) -> list[int]:
        buckets = [spread & (capacity - 1) for spread in self._spreads]
        ranks = [0] * len(buckets)
        for rank, number in enumerate(sorted(range(len(buckets)), key=buckets.__getitem__)):
            ranks[number] = rank
        return ranks

    def _in_set_order(self, holders: int) -> list[Client]:
        candidates = {each.process_id: each for each in self._clients if not holders >> each.number & 1}
        return [candidates[process_id] for process_id in hash_set_order(candidates, process_hash)]
