"""The queue of clients, lightest first, from which the next client that may take a task is drawn.

Kafka's queue is a `java.util.PriorityQueue`, a binary heap in an array. Its order is by load, then by process id. A
client's load changes while the client is in the queue, and the queue does not notice: until Kafka offers the client
again, a child in the heap may be lighter than its parent. Then the heap is out of order, and a draw depends on where
each client lies in the array, so it is not always the lightest client. To draw the same clients as Kafka, the array
must be the same after every step. A step is one of three:

- A draw polls clients until one is accepted. Kafka collects the rejected ones in a HashSet, and offers them again in
  the order of that set.
- An offer takes a client that is queued already out of the array, and pushes it with its present load.
- A draw that accepts nobody polls all clients, and offers all of them again.

Carrying out every step takes a pass over the heap for each draw. Most of that can be left out, by three arguments:

1. While the heap is in order, a poll gives the least entry, wherever the entries lie. So a draw from a heap in order
   gives the least accepted client, which is found by comparing the accepted clients alone. And where only one client is
   accepted, a draw gives that client from any heap. In both cases the array is not needed: `ConstrainedPrioritySet`
   writes the step down, and nothing more.
2. The array is needed when several clients are accepted and the heap may be out of order. Only then are the steps that
   were written down carried out, on a `ClientHeap`. If the heap turns out to be in order, argument 1 holds again.
3. After a draw that accepts nobody, all clients have been offered anew with their present loads, which leaves a heap in
   order. If the heap was in order before that draw, it gave the clients sorted, so the new array depends on the present
   entries alone, and the steps written down before are forgotten (REFILLED). If the heap was out of order, the old
   array decides in which order the clients came out, so the earlier steps are kept (DRAINED).

Whether an offer can put the heap out of order is seen from the entries before and after it: `breaking_range_after`
says between which two entries a parent would have to lie.

On the array itself `heapq`, which is written in C, does Java's steps as long as the heap is in order. Both push a new
entry in the same way: it rises from the end of the array while its parent is greater. Both poll by taking the root out
and moving the last entry of the array into the hole, which sinks along the lesser children. Java stops as soon as the
moved entry is less than both children of the hole. `heapq` lets the hole sink to the bottom, and then lets the moved
entry rise along the same path. In a heap in order the entries grow along this path, and no two are equal, because each
holds its client's number. So there is one place on the path where the moved entry fits, and both put it there: the
arrays are equal. In a heap out of order the path need not grow, and `_java_poll` does Java's own steps.

Source: `ConstrainedPrioritySet`, `java.util.PriorityQueue`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from heapq import heappop, heappush
from operator import le

from assignor.java.hash_codes import process_hash
from assignor.java.order import MIN_TREEIFY_CAPACITY, TREEIFY_THRESHOLD, hash_set_order, spread_hash
from assignor.task_assignors.working_state import CLIENT, CLIENT_BITS, Entry, load_bits
from assignor.types import ProcessId

NOT_QUEUED: Entry = -1

Offers = tuple[Entry, Entry, Entry, Entry]
"""Two clients offered one after the other: their entries before, NOT_QUEUED for one that was not in the heap, and
after.
"""

BreakingRange = tuple[Entry, Entry]
"""A parent strictly between these two entries would have a lighter child: the heap would be out of order."""

ANYWHERE: BreakingRange = (NOT_QUEUED, 1 << 64 + CLIENT_BITS)


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


class ConstrainedPrioritySet:
    """Holds each client at most once."""

    def __init__(self, processes: Sequence[ProcessId], copies: Sequence[int], capacity: Sequence[int]) -> None:
        """Offers every client, in process order. `processes` are sorted; clients are their places.

        A client's load is its `copies`, which are looked at whenever it is offered, divided by its `capacity`.
        """
        self._copies = copies
        self._bits = load_bits(capacity)
        self._entries = [bits[copies[client]] | client for client, bits in enumerate(self._bits)]
        self._heap = ClientHeap(processes, self._entries)
        self._written_down: list[Step] = []
        self._breaking_range: BreakingRange | None = None  # None: the heap is in order
        self._freshly_drained = False

    def poll(self, accepted: Sequence[int]) -> int | None:
        """Takes out the first client drawn that is in `accepted`; returns None, and takes nobody out, when there is
        none.

        Clients that are drawn and not accepted go back in the order of the HashSet in which Kafka collects them.
        """
        entries = self._entries
        drawn, drawn_client, choices = NOT_QUEUED, 0, 0
        for client in accepted:
            entry = entries[client]
            if entry != NOT_QUEUED:
                choices += 1
                if choices == 1 or entry < drawn:
                    drawn, drawn_client = entry, client
        if choices == 0:
            self._drain_in_vain()
            return None
        if self._breaking_range is not None:
            if choices > 1 and not self._is_in_order():
                drawn = self._heap.first_of([entries[client] for client in accepted if entries[client] != NOT_QUEUED])
                drawn_client = drawn & CLIENT
            if self._breaking_range is not None:
                self._breaking_range = ANYWHERE
        self._freshly_drained = False
        self._written_down.append(drawn)
        entries[drawn_client] = NOT_QUEUED
        return drawn_client

    def offer(self, first: int, second: int) -> None:
        """Offers two different clients whose load may have changed, one after the other; one that is already in the
        queue is taken out first.

        Both loads have changed by the time of the first offer, also that of the second where it is queued.
        """
        entries, copies, bits = self._entries, self._copies, self._bits
        first_before, second_before = entries[first], entries[second]
        entries[first] = first_after = bits[first][copies[first]] | first
        entries[second] = second_after = bits[second][copies[second]] | second
        offers = (first_before, second_before, first_after, second_after)
        self._freshly_drained = False
        if self._breaking_range is not None:
            self._breaking_range = ANYWHERE
        elif first_before != NOT_QUEUED or not first_after > second_before > second_after:  # not the usual case
            self._breaking_range = breaking_range_after(offers)
        self._written_down.append(offers)

    def _is_in_order(self) -> bool:
        """Looks at the entries first; where they do not tell, carries out the offers that are written down."""
        assert self._breaking_range is not None
        least, most = self._breaking_range
        if any(map(most.__gt__, filter(least.__lt__, self._entries))):
            self._heap.carry_out(self._written_down, self._entries)
            self._written_down = []
            if not self._heap.in_order:
                return False
        self._breaking_range = None
        return True

    def _drain_in_vain(self) -> None:
        """Draws all clients and puts all of them back; from a heap in order, a second time changes nothing."""
        if self._freshly_drained:
            return
        if self._breaking_range is None:
            self._written_down = [REFILLED]
            self._freshly_drained = True
        else:
            self._written_down.append(DRAINED)
            self._breaking_range = None
