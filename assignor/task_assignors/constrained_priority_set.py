"""The queue of clients, lightest first, out of which the next one that may take a task is drawn.

Kafka's queue is a `java.util.PriorityQueue` whose weights change while clients sit in it. Until they are offered anew
it is no proper heap, and a draw is then not always the lightest client. To draw the same clients, this is the same
binary heap, laid out the same after every step. Source: `ConstrainedPrioritySet`, `java.util.PriorityQueue`.

While the heap is in order, its layout does not depend on how siftDown is written, as no two entries are equal; so the
long drains run on `heapq` and `sorted`, which work in C. Only a heap found out of order is drained by Java's own steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from heapq import heappop, heappush
from operator import le
from struct import Struct

from assignor.java_hash_table import MIN_TREEIFY_CAPACITY, TREEIFY_THRESHOLD, spread_hash
from assignor.java_order import hash_set_order, process_hash
from assignor.types import ProcessId

Entry = int
"""Load and client in one number that sorts as Kafka's comparator does: by load, then by process id.

The bits of a double that is not negative sort like the double; below them stands the client's number.
"""

_CLIENT_BITS = 32
_CLIENT = (1 << _CLIENT_BITS) - 1
_DOUBLE = Struct(">d")


class ConstrainedPrioritySet:
    """Each client is in it at most once. `load(client)` is asked when clients are offered, and must not be negative."""

    def __init__(self, processes: Sequence[ProcessId], load: Callable[[int], float]) -> None:
        """Offers every client, in process order. `processes` are sorted; clients are their places."""
        self._load = load
        self._rejected_order = _HashSetOrder(processes)
        self._heap: list[Entry] = []
        self._entries: list[Entry | None] = [None] * len(processes)
        self._in_order = True
        self._freshly_drained = False
        for client in range(len(processes)):
            self._push(client)

    def poll(self, accepted: Collection[int]) -> int | None:
        """Take out the first client drawn that is in `accepted`; None, and nobody taken out, when there is none.

        Clients drawn in vain go back in the order of the HashSet in which Kafka collects them.
        """
        if not self._in_order and not self._is_in_order():
            return self._poll_out_of_order(accepted)
        self._in_order = True
        wanted = [entry for entry in map(self._entries.__getitem__, accepted) if entry is not None]
        if not wanted:
            self._drain_in_vain()
            return None
        self._freshly_drained = False
        first = min(wanted)
        heap = self._heap
        rejected: list[Entry] = []
        while (entry := heappop(heap)) != first:
            rejected.append(entry)
        for entry in self._rejected_order.of(rejected):
            heappush(heap, entry)
        self._entries[first & _CLIENT] = None
        return first & _CLIENT

    def offer_all(self, clients: Sequence[int]) -> None:
        """Offer clients whose load has changed, one after the other; those already queued are taken out first.

        All loads have changed by the time of the first offer, also those of queued clients that come later.
        """
        self._freshly_drained = False
        for client in clients:
            self._update_in_place(client)
        for client in clients:
            entry = self._entries[client]
            if entry is not None:
                _remove_at(self._heap, self._heap.index(entry))
            self._push(client)

    def _update_in_place(self, client: int) -> None:
        entry = self._entries[client]
        if entry is None:
            return
        updated = self._entry(client)
        if updated != entry:
            self._heap[self._heap.index(entry)] = updated
            self._entries[client] = updated
            self._in_order = False

    def _entry(self, client: int) -> Entry:
        return int.from_bytes(_DOUBLE.pack(self._load(client)), "big") << _CLIENT_BITS | client

    def _push(self, client: int) -> None:
        entry = self._entry(client)
        self._entries[client] = entry
        self._heap.append(entry)
        _sift_up(self._heap, len(self._heap) - 1, entry)

    def _is_in_order(self) -> bool:
        heap = self._heap
        return all(map(le, heap, heap[1::2])) and all(map(le, heap, heap[2::2]))

    def _drain_in_vain(self) -> None:
        """Draw everybody and put everybody back; doing so twice is doing so once."""
        if self._freshly_drained:
            return
        rebuilt: list[Entry] = []
        for entry in self._rejected_order.of(sorted(self._heap)):
            heappush(rebuilt, entry)
        self._heap = rebuilt
        self._freshly_drained = True

    def _poll_out_of_order(self, accepted: Collection[int]) -> int | None:
        self._freshly_drained = False
        found: int | None = None
        rejected: list[Entry] = []
        while self._heap and found is None:
            entry = _java_poll(self._heap)
            if entry & _CLIENT in accepted:
                found = entry & _CLIENT
            else:
                rejected.append(entry)
        for entry in self._rejected_order.of(rejected):
            self._heap.append(entry)
            _sift_up(self._heap, len(self._heap) - 1, entry)
        if found is not None:
            self._entries[found] = None
        return found


class _HashSetOrder:
    """In which order a HashSet of processes is walked, without building one each time."""

    def __init__(self, processes: Sequence[ProcessId]) -> None:
        self._processes = processes
        self._spreads = [spread_hash(process_hash(process)) for process in processes]
        self._buckets: dict[int, list[int]] = {}
        self._crowded: dict[int, bool] = {}

    def of(self, entries: list[Entry]) -> list[Entry]:
        """The entries of a set filled in the order given: by bucket, in the bucket by arrival."""
        if len(entries) < 2:
            return entries
        capacity = 16
        while len(entries) > capacity * 3 // 4:
            capacity *= 2
        if len(entries) > TREEIFY_THRESHOLD and self._may_crowd_a_bucket(entries, capacity):
            entry_of = {self._processes[entry & _CLIENT]: entry for entry in entries}
            return [entry_of[process] for process in hash_set_order(entry_of)]
        buckets = self._buckets_at(capacity)
        return sorted(entries, key=lambda entry: buckets[entry & _CLIENT])

    def _may_crowd_a_bucket(self, entries: list[Entry], capacity: int) -> bool:
        """Whether, at any size of the growing table, so many keys meet in a bucket that Java orders them otherwise."""
        size = min(capacity, MIN_TREEIFY_CAPACITY)
        while size <= capacity:
            if self._is_crowded_at(size):
                buckets = self._buckets_at(size)
                counts = Counter([buckets[entry & _CLIENT] for entry in entries[: size * 3 // 4 + 1]])
                if max(counts.values()) > TREEIFY_THRESHOLD:
                    return True
            size *= 2
        return False

    def _is_crowded_at(self, capacity: int) -> bool:
        """Whether a bucket would have too many keys with all the clients in it."""
        crowded = self._crowded.get(capacity)
        if crowded is None:
            crowded = max(Counter(self._buckets_at(capacity)).values()) > TREEIFY_THRESHOLD
            self._crowded[capacity] = crowded
        return crowded

    def _buckets_at(self, capacity: int) -> list[int]:
        buckets = self._buckets.get(capacity)
        if buckets is None:
            buckets = self._buckets[capacity] = [spread & (capacity - 1) for spread in self._spreads]
        return buckets


def _java_poll(heap: list[Entry]) -> Entry:
    result = heap[0]
    last = heap.pop()
    if heap:
        _sift_down(heap, 0, last)
    return result


def _remove_at(heap: list[Entry], index: int) -> None:
    moved = heap.pop()
    if index == len(heap):
        return
    _sift_down(heap, index, moved)
    if heap[index] == moved:
        _sift_up(heap, index, moved)


def _sift_up(heap: list[Entry], index: int, entry: Entry) -> None:
    while index > 0:
        parent = (index - 1) >> 1
        if entry >= heap[parent]:
            break
        heap[index] = heap[parent]
        index = parent
    heap[index] = entry


def _sift_down(heap: list[Entry], index: int, entry: Entry) -> None:
    size = len(heap)
    half = size >> 1
    while index < half:
        child = 2 * index + 1
        right = child + 1
        if right < size and heap[child] > heap[right]:
            child = right
        if entry <= heap[child]:
            break
        heap[index] = heap[child]
        index = child
    heap[index] = entry
