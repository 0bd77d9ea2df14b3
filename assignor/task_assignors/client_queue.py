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

from assignor.java_hash_table import DEFAULT_INITIAL_CAPACITY, JavaHashTable, grows_crowded, grown_capacity
from assignor.java_order import hash_set_order, process_hash
from assignor.types import ProcessId, TaskId

Room = tuple[float, int]
"""The lower, the more room: tasks per thread, then minus the threads. Empty clients are equal and before all others."""


@dataclass(slots=True)
class Client:
    """A client while tasks are given to it. `number`: its place in the leader's order."""

    number: int
    process_id: ProcessId
    capacity: int
    active: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)
    room: Room = (-1.0, 0)

    def assign_active(self, task: TaskId) -> None:
        self.active.add(task)
        self._update_room()

    def assign_standby(self, task: TaskId) -> None:
        self.standby.add(task)
        self._update_room()

    @property
    def task_count(self) -> int:
        return len(self.active) + len(self.standby)

    def _update_room(self) -> None:
        self.room = (self.task_count / self.capacity, -self.capacity)
