"""Among equal clients the sticky assignor gives a standby to the one it meets first: in the order of a HashSet.

Kafka fills that set anew for each standby, with the clients that do not hold the task. In a table of a given capacity
the clients left out do not change the order of the others, so one queue for each capacity serves all tasks. Only when
process ids collide so often that buckets become trees, the set is really filled.
Source: `LegacyStickyTaskAssignor.findClientsWithoutAssignedTask`, `java.util.HashSet`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assignor.java.hash_table import DEFAULT_INITIAL_CAPACITY, is_crowded, spread_hash
from assignor.java.order import hash_set_order, process_hash
from assignor.task_assignors.client_queue import Client, ClientQueue, roomiest


class StandbyCandidates:
    """Finds the client with most room among those that do not hold a task."""

    __slots__ = ("_capacities", "_clients", "_queues", "_spreads")

    def __init__(self, clients: Sequence[Client]) -> None:
        """`clients` in the leader's order, numbered from 0."""
        self._clients = clients
        self._spreads = [spread_hash(process_hash(client.process_id)) for client in clients]
        self._capacities: dict[int, int | None] = {}
        self._queues: dict[int, ClientQueue] = {}

    def first(
        self, is_candidate: Callable[[Client], bool], left_out: int, prefers: Callable[[Client], bool]
    ) -> Client | None:
        """The roomiest candidate that `prefers` agrees to, else the roomiest one, else None.

        `left_out`: to how many clients `is_candidate` says no.
        """
        queue = self._queue(left_out)
        if queue is not None:
            preferred = queue.first(lambda client: is_candidate(client) and prefers(client))
            return preferred or queue.first(is_candidate)
        return roomiest(self._in_set_order(is_candidate), prefers)

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
        """The set's capacity without any `left_out` clients; None when a bucket could get crowded on the way there."""
        size, capacity = len(self._clients) - left_out, DEFAULT_INITIAL_CAPACITY
        while True:
            room = capacity * 3 // 4
            # whoever is left out, the first clients of the set are among these
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

    def _in_set_order(self, is_candidate: Callable[[Client], bool]) -> list[Client]:
        candidates = {client.process_id: client for client in self._clients if is_candidate(client)}
        return [candidates[process_id] for process_id in hash_set_order(candidates, process_hash)]
