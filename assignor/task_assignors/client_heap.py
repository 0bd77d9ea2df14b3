"""Java's heap of clients as an array, to which the steps of the queue of clients are done in turn.

No two entries are equal, so the layout of a heap in order does not depend on how siftDown is written; `heapq`, in C,
can draw from it. Only a heap found out of order is drained with Java's own steps. Source: `java.util.PriorityQueue`,
`ConstrainedPrioritySet`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from operator import le
from struct import Struct

from assignor.java.buckets import MIN_TREEIFY_CAPACITY, TREEIFY_THRESHOLD
from assignor.java.hash_table import spread_hash
from assignor.java.order import hash_set_order, process_hash
from assignor.types import ProcessId

Entry = int
"""Load and client in one number that sorts as Kafka's comparator does: by load, then by process id.

The bits of a non-negative double sort like the double; below them is the client's number.
"""

CLIENT_BITS = 32
CLIENT = (1 << CLIENT_BITS) - 1
NOT_QUEUED: Entry = -1

Offers = tuple[Entry, Entry, Entry, Entry]
"""Two clients offered one after the other: their entries before, NOT_QUEUED for one that was not in the heap, and
after.
"""

BreakingRange = tuple[Entry, Entry]
"""A parent strictly between these two entries would have a lighter child: the heap would be out of order."""

ANYWHERE: BreakingRange = (NOT_QUEUED, 1 << 64 + CLIENT_BITS)


_DOUBLE = Struct(">d")

DRAINED: Entry = -2
"""The step after which all clients were drawn and put back, from a heap in whatever order."""

REFILLED: Entry = -3
"""The same from a heap in order: the layout depends on nothing but the entries that are in the heap."""

Step = Entry | Offers
"""What happened to the heap: a client was drawn, clients were offered, or all were drawn in vain."""


def breaking_range_after(offers: Offers) -> BreakingRange | None:
    """Where in a heap that was in order a parent would have to be for these offers to break the order; None: they
    cannot.

    They cannot when no queued client has changed. Otherwise only the usual case is decided: a client that is not
    queued is offered before one that is queued and has become lighter. The first may end up below the second, which
    lies too deep. When the second is taken out, the first rises into its place, and breaks the order if it is less
    than the parent there, which is less than the second was.
    """
    first_before, second_before, first, second = offers
    if first_before != NOT_QUEUED:
        return None if first_before == first and second_before in (second, NOT_QUEUED) else ANYWHERE
    if second_before in (second, NOT_QUEUED) or first > second_before > second:
        return None
    return (first, second_before) if second_before > second else ANYWHERE


class _LoadBits(dict[int, Entry]):
    """Number of copies to the entry of such a client, without the client. `capacity`: threads of each."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity

    def __missing__(self, copies: int) -> Entry:
        bits = int.from_bytes(_DOUBLE.pack(copies / self._capacity), "big") << CLIENT_BITS
        self[copies] = bits
        return bits


def load_bits(capacity: Sequence[int]) -> list[Mapping[int, Entry]]:
    """By client: its entry, without the client, by its number of copies. `capacity`: threads of each client."""
    of_threads = {threads: _LoadBits(threads) for threads in set(capacity)}
    return [of_threads[threads] for threads in capacity]


class ClientHeap:
    """The array of Java's heap. `in_order`: whether no child is less than its parent."""

    def __init__(self, processes: Sequence[ProcessId], entries: Sequence[Entry]) -> None:
        self.in_order = True
        self._array: list[Entry] = []
        self._rejected_order = _HashSetOrder(processes)
        for entry in entries:
            heappush(self._array, entry)

    def carry_out(self, steps: Sequence[Step], entries: Sequence[Entry]) -> None:
        """`entries`: by client after all these steps, NOT_QUEUED for those that are not in the heap. Only the first
        step may be REFILLED.
        """
        for step in steps:
            if isinstance(step, tuple):
                self._offer(step)
            elif step == REFILLED:
                self._refill(sorted([entry for entry in _before(steps[1:], entries) if entry != NOT_QUEUED]))
            elif step == DRAINED:
                self._refill(sorted(self._array) if self.in_order else self._drawn_by_javas_steps(None))
            else:
                self._draw(step)

    def first_of(self, wanted: Collection[Entry]) -> Entry:
        """The one of `wanted`, all in the heap, that would be drawn first; nothing is drawn."""
        array = self._array.copy()
        while (entry := _java_poll(array)) not in wanted:
            pass
        return entry

    def _offer(self, offers: Offers) -> None:
        """Old entries change in their places, and are then taken out one by one. In a heap out of order, too,
        `heappush` lets an entry rise as Java does.
        """
        array = self._array
        first_before, second_before, first, second = offers
        if first_before not in (first, NOT_QUEUED):
            array[array.index(first_before)] = first
        if second_before not in (second, NOT_QUEUED):
            array[array.index(second_before)] = second
        if first_before != NOT_QUEUED:
            _remove_at(array, array.index(first))
        heappush(array, first)
        if second_before != NOT_QUEUED:
            _remove_at(array, array.index(second))
        heappush(array, second)
        if not self.in_order or breaking_range_after(offers) is not None:
            self.in_order = self._has_no_lighter_child()

    def _draw(self, drawn: Entry) -> None:
        if self.in_order:
            rejected = list(iter(partial(heappop, self._array), drawn))
        else:
            rejected = self._drawn_by_javas_steps(drawn)
        for entry in self._rejected_order.of(rejected):
            heappush(self._array, entry)
        if not self.in_order:
            self.in_order = self._has_no_lighter_child()

    def _refill(self, drawn: list[Entry]) -> None:
        self._array = []
        for entry in self._rejected_order.of(drawn):
            heappush(self._array, entry)
        self.in_order = True

    def _drawn_by_javas_steps(self, until: Entry | None) -> list[Entry]:
        """What a heap in whatever order gives before it gives `until`, or until it is empty."""
        drawn: list[Entry] = []
        while self._array and (entry := _java_poll(self._array)) != until:
            drawn.append(entry)
        return drawn

    def _has_no_lighter_child(self) -> bool:
        array = self._array
        return all(map(le, array, array[1::2])) and all(map(le, array, array[2::2]))


def _before(steps: Sequence[Step], entries: Sequence[Entry]) -> list[Entry]:
    """The entries by client before these steps; `entries`: those after them."""
    entries = list(entries)
    for step in reversed(steps):
        if isinstance(step, tuple):
            first_before, second_before, first, second = step
            entries[first & CLIENT], entries[second & CLIENT] = first_before, second_before
        elif step >= 0:
            entries[step & CLIENT] = step
    return entries


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
            entry_of = {self._processes[entry & CLIENT]: entry for entry in entries}
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
        bucket = self[entry] = self._bucket_of_client[entry & CLIENT]
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
