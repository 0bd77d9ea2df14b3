"""Clients by the room they have left, as the sticky assignor looks for it.

Kafka walks all candidates for each task and keeps the first one with the least load per thread, more threads first
among equals; an empty client ends the walk. A heap gives the same client, as long as equals stay in the order in which
Kafka meets them. For standbys that is the order of a `HashSet` filled anew for each task with the clients that do not
hold it. Source: `LegacyStickyTaskAssignor.findLeastLoaded`, `ClientState.hasMoreAvailableCapacityThan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

from assignor.types import ProcessId, TaskId

Room = tuple[float, int]
"""The lower, the more room: tasks per thread, then minus the threads. Empty clients are equal and before all others."""

EMPTY: Room = (-1.0, 0)


@dataclass(slots=True)
class Client:
    """A client while tasks are given to it. `number`: its place in the leader's order."""

    number: int
    process_id: ProcessId
    capacity: int
    active: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)
    room: Room = EMPTY

    def assign_active(self, task: TaskId) -> None:
        self.active.add(task)
        self._update_room()

    def assign_standby(self, task: TaskId) -> None:
        self.standby.add(task)
        self._update_room()

    @property
    def task_count(self) -> int:
        return len(self.active) + len(self.standby)

    def reached_capacity(self) -> bool:
        return self.task_count >= self.capacity

    def _update_room(self) -> None:
        self.room = (self.task_count / self.capacity, -self.capacity)


def roomiest(candidates: Iterable[Client], prefers: Callable[[Client], bool]) -> Client | None:
    """The first with most room that `prefers` agrees to, else the first with most room, else None."""
    by_room = sorted(candidates, key=_room_of)
    return next(filter(prefers, by_room), by_room[0] if by_room else None)


class ClientQueue:
    """All clients, most room first, then by `ranks[client.number]`. Keeps up by itself, as rooms only shrink."""

    __slots__ = ("_clients", "_heap")

    def __init__(self, clients: Sequence[Client], ranks: Sequence[int]) -> None:
        self._clients = clients
        self._heap = [(client.room, ranks[client.number], client.number) for client in clients]
        heapify(self._heap)

    def first(self, accepts: Callable[[Client], bool] | None = None) -> Client | None:
        """The first client that `accepts` agrees to; None when it agrees to none."""
        heap, passed_over, found = self._heap, [], None
        while heap:
            room, rank, number = heap[0]
            client = self._clients[number]
            if room != client.room:
                heapreplace(heap, (client.room, rank, number))
            elif accepts is None or accepts(client):
                found = client
                break
            else:
                passed_over.append(heappop(heap))
        for entry in passed_over:
            heappush(heap, entry)
        return found


def _room_of(client: Client) -> Room:
    return client.room
