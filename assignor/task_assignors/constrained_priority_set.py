"""The queue of clients, lightest first, from which the next client that may take a task is drawn.

Kafka's queue is a `java.util.PriorityQueue` whose weights change while clients are in it. Until such a client is
offered again the queue is not a proper heap, and a draw is not always the lightest client. To draw the same clients,
this is the same binary heap with the same layout after every step. Source: `ConstrainedPrioritySet`,
`java.util.PriorityQueue`.

While the heap is in order, a draw is the least of the accepted clients, wherever they lie in it. So steps are only
recorded, and carried out when a step comes that could break the order. A draw that accepts nobody leaves a layout that
does not depend on anything before it, so the steps recorded before it never have to be carried out.

No two entries are equal, so the layout of a heap in order does not depend on how siftDown is written; `heapq`, in C,
can draw from it. Only a heap found out of order is drained with Java's own steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from heapq import heappop, heappush
from operator import le
from struct import Struct

from assignor.java.hash_table import MIN_TREEIFY_CAPACITY, TREEIFY_THRESHOLD, spread_hash
from assignor.java.order import hash_set_order, process_hash
from assignor.types import ProcessId

Entry = int
"""Load and client in one number that sorts as Kafka's comparator does: by load, then by process id.

The bits of a non-negative double sort like the double; below them is the client's number.
"""

_CLIENT_BITS = 32
_CLIENT = (1 << _CLIENT_BITS) - 1
_DOUBLE = Struct(">d")
_NOT_QUEUED: Entry = -1


class _Refill(list[Entry]):
    """All clients were drawn and put back; these are the entries that were in the heap, _NOT_QUEUED for the others."""


_Step = Entry | tuple[Sequence[Entry], Sequence[Entry]] | _Refill
"""What happened to a heap in order: a client was drawn, clients were offered (their entries before and after), or all
were drawn in vain.
"""


class ConstrainedPrioritySet:
    """Holds each client at most once. `load(client)` is called when clients are offered, and must not be negative."""

    def __init__(self, processes: Sequence[ProcessId], load: Callable[[int], float]) -> None:
        """Offers every client, in process order. `processes` are sorted; clients are their places."""
        self._load = load
        self._bits_of_load: dict[float, int] = {}
        self._entries = list(map(self._entry, range(len(processes))))
        self._heap = _Heap(processes)
        self._written_down: list[_Step] = [([_NOT_QUEUED] * len(processes), self._entries.copy())]
        self._in_order = True
        self._freshly_drained = False

    def poll(self, accepted: Collection[int]) -> int | None:
        """Takes out the first client drawn that is in `accepted`; returns None, and takes nobody out, when there is
        none.

        Clients that are drawn and not accepted go back in the order of the HashSet in which Kafka collects them.
        """
        if not self._in_order:
            self._in_order = self._heap.is_in_order()
            if not self._in_order:
                return self._poll_out_of_order(accepted)
        wanted = [entry for entry in map(self._entries.__getitem__, accepted) if entry != _NOT_QUEUED]
        if not wanted:
            self._drain_in_vain()
            return None
        self._freshly_drained = False
        first = min(wanted)
        self._written_down.append(first)
        self._entries[first & _CLIENT] = _NOT_QUEUED
        return first & _CLIENT

    def offer(self, first: int, second: int) -> None:
        """Offers two different clients whose load may have changed, one after the other; one that is already in the
        queue is taken out first.

        Both loads have changed by the time of the first offer, also that of the second where it is queued.
        """
        queued = self._entries[first], self._entries[second]
        offered = self._entry(first), self._entry(second)
        self._freshly_drained = False
        if self._in_order and self._stays_in_order(queued, offered):
            self._written_down.append((queued, offered))
        else:
            self._catch_up()
            self._heap.offer(queued, offered)
            self._in_order = False  # or not known to be
        self._entries[first], self._entries[second] = offered

    def _stays_in_order(self, queued: tuple[Entry, Entry], offered: tuple[Entry, Entry]) -> bool:
        """Whether the heap, in order now, is certain to be in order after these offers, whatever its layout.

        It is when no queued client has changed. Otherwise only the usual case is decided: a client that is not queued
        is offered before one that is queued and has become lighter. The first may end up below the second, which lies
        too deep. When the second is taken out, the first rises into its place, and breaks the order if it is less than
        the parent there, which is less than the second was.
        """
        (first_before, before), (first, second) = queued, offered
        if first_before != _NOT_QUEUED:
            return first_before == first and before in (second, _NOT_QUEUED)
        if before in (second, _NOT_QUEUED):
            return True
        if before < second:
            return False
        return first > before or not any(map(before.__gt__, filter(first.__lt__, self._entries)))  # a possible parent

    def _entry(self, client: int) -> Entry:
        load = self._load(client)
        bits = self._bits_of_load.get(load)
        if bits is None:
            bits = self._bits_of_load[load] = int.from_bytes(_DOUBLE.pack(load), "big") << _CLIENT_BITS
        return bits | client

    def _drain_in_vain(self) -> None:
        """Draws all clients and puts all of them back; a second time changes nothing."""
        if self._freshly_drained:
            return
        self._written_down = [_Refill(self._entries)]
        self._freshly_drained = True

    def _poll_out_of_order(self, accepted: Collection[int]) -> int | None:
        self._freshly_drained = False
        found = self._heap.draw_by_javas_steps(accepted)
        if found is not None:
            self._entries[found] = _NOT_QUEUED
        return found

    def _catch_up(self) -> None:
        for step in self._written_down:
            if isinstance(step, int):
                self._heap.draw(step)
            elif isinstance(step, _Refill):
                self._heap.refill(step)
            else:
                self._heap.offer(*step)
        self._written_down = []


class _Heap:
    """The array of Java's heap."""

    def __init__(self, processes: Sequence[ProcessId]) -> None:
        self._array: list[Entry] = []
        self._rejected_order = _HashSetOrder(processes)

    def offer(self, queued: Sequence[Entry], offered: Sequence[Entry]) -> None:
        """`queued`: the old entries of the clients offered, _NOT_QUEUED for a client that is not in the heap.

        Old entries change in their places, and are then taken out one by one. In a heap out of order, too, `heappush`
        lets an entry rise as Java does.
        """
        array = self._array
        for before, entry in zip(queued, offered, strict=True):
            if before not in (entry, _NOT_QUEUED):
                array[array.index(before)] = entry
        for before, entry in zip(queued, offered, strict=True):
            if before != _NOT_QUEUED:
                _remove_at(array, array.index(entry))
            heappush(array, entry)

    def draw(self, first: Entry) -> None:
        """Draws until `first` comes, from a heap in order."""
        rejected = list(iter(partial(heappop, self._array), first))
        for entry in self._rejected_order.of(rejected):
            heappush(self._array, entry)

    def refill(self, entries: Sequence[Entry]) -> None:
        """Draws all clients from a heap in order, and puts them back. `entries`: those in it, _NOT_QUEUED for the
        others.
        """
        self._array = []
        for entry in self._rejected_order.of(sorted([entry for entry in entries if entry != _NOT_QUEUED])):
            heappush(self._array, entry)

    def is_in_order(self) -> bool:
        array = self._array
        return all(map(le, array, array[1::2])) and all(map(le, array, array[2::2]))

    def draw_by_javas_steps(self, accepted: Collection[int]) -> int | None:
        """The first client drawn that is in `accepted`, from a heap that may be out of order."""
        found: int | None = None
        rejected: list[Entry] = []
        while self._array and found is None:
            entry = _java_poll(self._array)
            if entry & _CLIENT in accepted:
                found = entry & _CLIENT
            else:
                rejected.append(entry)
        for entry in self._rejected_order.of(rejected):
            heappush(self._array, entry)
        return found


class _HashSetOrder:
    """The order in which a HashSet of processes is walked, without building one each time."""

    def __init__(self, processes: Sequence[ProcessId]) -> None:
        self._processes = processes
        self._spreads = [spread_hash(process_hash(process)) for process in processes]
        self._buckets: dict[int, _Buckets] = {}

    def of(self, entries: list[Entry]) -> list[Entry]:
        """The entries of a set filled in the order given: by bucket, and in a bucket by arrival."""
        if len(entries) < 2:
            return entries
        capacity = 16
        while len(entries) > capacity * 3 // 4:
            capacity *= 2
        if len(entries) > TREEIFY_THRESHOLD and self._may_crowd_a_bucket(entries, capacity):
            entry_of = {self._processes[entry & _CLIENT]: entry for entry in entries}
            return [entry_of[process] for process in hash_set_order(entry_of)]
        return sorted(entries, key=self._buckets_at(capacity).__getitem__)

    def _may_crowd_a_bucket(self, entries: list[Entry], capacity: int) -> bool:
        """Whether, at any size of the growing table, a bucket gets so many keys that Java orders them differently."""
        size = min(capacity, MIN_TREEIFY_CAPACITY)
        while size <= capacity:
            buckets = self._buckets_at(size)
            if buckets.is_crowded:
                counts = Counter(map(buckets.__getitem__, entries[: size * 3 // 4 + 1]))
                if max(counts.values()) > TREEIFY_THRESHOLD:
                    return True
            size *= 2
        return False

    def _buckets_at(self, capacity: int) -> _Buckets:
        buckets = self._buckets.get(capacity)
        if buckets is None:
            buckets = self._buckets[capacity] = _Buckets([spread & (capacity - 1) for spread in self._spreads])
        return buckets


class _Buckets(dict[Entry, int]):
    """Entry to bucket, kept for the entries asked for: the same ones come again, and look-ups in a dict are fast.

    `is_crowded`: whether a bucket would have too many keys with all clients in the set.
    """

    def __init__(self, bucket_of_client: Sequence[int]) -> None:
        super().__init__()
        self._bucket_of_client = bucket_of_client
        self.is_crowded = max(Counter(bucket_of_client).values()) > TREEIFY_THRESHOLD

    def __missing__(self, entry: Entry) -> int:
        bucket = self[entry] = self._bucket_of_client[entry & _CLIENT]
        return bucket


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
