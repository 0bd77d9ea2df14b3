"""Queues of clients for the sticky assignor, sorted by their free room.

For each task, Kafka iterates over all candidates and takes the client with the lowest load per thread. If clients have
equal loads, Kafka takes the client with the most threads. If clients also have equally many threads, Kafka takes the
first client. Kafka's iteration ends as soon as it reaches an empty client. A heap gives the same client as Kafka's
iteration if equal clients are sorted in Kafka's iteration order.

For each standby, Kafka fills a `HashSet` with the clients that have no copy of the task, and iterates over this set. If
two hash tables have the same capacity, two clients have the same order in both tables. So this module needs only one
queue for each capacity of the hash table, not one queue for each task. A bucket becomes a tree if many process ids
share the bucket. In this rare case, the module fills a set of clients for each standby. Source:
`LegacyStickyTaskAssignor.findLeastLoaded`, `findClientsWithoutAssignedTask`,
`ClientState.hasMoreAvailableCapacityThan`, `java.util.HashSet`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

from assignor.java.hash_codes import process_hash
from assignor.java.order import DEFAULT_INITIAL_CAPACITY, hash_set_order, is_crowded, spread_hash
from assignor.types import ProcessId, TaskId

Room = tuple[float, int]
"""A sort key; the client with the lowest key has the most room. The key has two fields: the tasks per thread, and the
number of threads as a negative number. The second field is 0 if `prefers_more_threads` is False. All empty clients have
the key `EMPTY`, which is lower than all other keys.
"""

EMPTY: Room = (-1.0, 0)


@dataclass(slots=True)
class Client:
    """A client and the tasks that are assigned to it so far. `number`: the index of the client in the leader's order.
    `prefers_more_threads`: True if, for two clients with the same load, more threads count as more room.
    """

    number: int
    process_id: ProcessId
    capacity: int
    prefers_more_threads: bool = True
    active: dict[TaskId, None] = field(default_factory=dict)  # tasks are in the order in which they were assigned
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

    def _update_room(self) -> None:
        tasks = len(self.active) + len(self.standby)
        self.room = (tasks / self.capacity, -self.capacity if self.prefers_more_threads else 0)


def roomiest(candidates: Iterable[Client], prefers: Callable[[Client], bool]) -> Client | None:
    """Returns the candidate with the most room, among the candidates for which `prefers` returns True. If `prefers`
    never returns True, returns the candidate with the most room. Returns None if there are no candidates. If
    candidates have equal room, returns the first of these candidates.
    """
    by_room = sorted(candidates, key=_room_of)
    return next(filter(prefers, by_room), by_room[0] if by_room else None)


class ClientQueue:
    """A heap of all clients. The client with the most room is at the top. Clients with equal room are sorted by
    `ranks[client.number]`. An entry of the heap may be out of date. The room of a client only shrinks. So an entry is
    corrected only when the entry reaches the top of the heap.
    """

    __slots__ = ("_clients", "_heap")

    def __init__(self, clients: Sequence[Client], ranks: Sequence[int]) -> None:
        self._clients = clients
        self._heap = [(client.room, ranks[client.number], client.number) for client in clients]
        heapify(self._heap)

    def first(self) -> Client | None:
        """Returns the first client, or None if there are no clients."""
        heap = self._heap
        while heap:
            room, rank, number = heap[0]
            client = self._clients[number]
            if room == client.room:
                return client
            heapreplace(heap, (client.room, rank, number))
        return None

    def first_without(self, holders: int, prefers: Callable[[Client], bool]) -> Client | None:
        """Returns the first client that is not in `holders` (a bit mask) and for which `prefers` returns True. If
        `prefers` never returns True, returns the first client outside `holders`. Returns None if all clients are in
        `holders`.
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
    """Finds the client with the most room among the clients that do not hold a given task."""

    __slots__ = ("_capacities", "_clients", "_queues", "_spreads")

    def __init__(self, clients: Sequence[Client]) -> None:
        """`clients`: all clients in the leader's order, numbered from 0."""
        self._clients = clients
        self._spreads = [spread_hash(process_hash(client.process_id)) for client in clients]
        self._capacities: dict[int, int | None] = {}
        self._queues: dict[int, ClientQueue] = {}

    def first(self, holders: int, prefers: Callable[[Client], bool]) -> Client | None:
        """Returns the candidate with the most room, among the candidates for which `prefers` returns True. If `prefers`
        never returns True, returns the candidate with the most room. Returns None if there is no candidate.
        `holders`: a bit mask of the clients that are not candidates.
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
        """Returns the capacity of a hash set of clients. `left_out`: the number of clients that are not in the set.
        Returns None if a bucket could become crowded while the set is filled (`java/order.py`).
        """
        size, capacity = len(self._clients) - left_out, DEFAULT_INITIAL_CAPACITY
        while True:
            room = capacity * 3 // 4
            # while the set has this capacity, its keys are among the first `room + 1 + left_out` clients
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
