"""A queue of clients that returns the least loaded client that is acceptable for a task.

Kafka's queue is a `java.util.PriorityQueue`: a binary heap in an array. Kafka's queue sorts clients by load, then by
process id. The queue in this file contains one number for each client: the client's entry. The entry combines the load
and the process id (`working_state.Entry`). The smaller of two entries comes first.

A client's load can change while the client is in the queue. When the load changes, the position of the client in the
queue stays the same. Until Kafka offers the client again, the client's entry may be less than the entry of its parent
in the heap. A heap is called in order if no entry is less than its parent. If a heap is not in order, a poll may return
an entry other than the least entry. The result of the poll depends on the position of each entry in the array. So after
every step, each entry has to have the same position as in Kafka's array. The queue has three kinds of steps:

- A search polls clients until it finds an acceptable client. Kafka collects the rejected clients in a HashSet, and then
  offers them to the queue again, in the order of this HashSet.
- An offer removes the client from the array if the client is queued already. The offer then pushes the client with its
  present load.
- A search that finds no acceptable client polls all clients and offers all of them again.

Carrying out every step of Kafka's algorithm would be slow, because each search would poll and offer many clients. Three
observations avoid most of the polls and offers:

1. If the heap is in order, a poll returns the least entry, and the positions of the entries do not matter. So the
   search returns the least entry of all acceptable clients, and a comparison of these entries is enough. If only one
   client is acceptable, the search returns this client, whether the heap is in order or not. So the array is not needed
   if the heap is in order or only one client is acceptable. If the array is not needed, `ConstrainedPrioritySet` only
   appends the search to a list of deferred steps.
2. The array is needed only if several clients are acceptable and the heap may be out of order. When the array is
   needed, a `ClientHeap` carries out the deferred steps. If the heap is in order after the deferred steps, observation
   1 applies again.
3. A search that finds no acceptable client pushes all clients again with their present loads. After this search, the
   heap is in order. If the heap was also in order before the search, the search has polled the clients in sorted order.
   The new array then depends only on the present entries, so all earlier deferred steps are dropped (REFILLED). If the
   heap was not in order before the search, the order of the polls depends on the old array. In this case, the earlier
   deferred steps are still needed (DRAINED).

An offer can break the order of the heap. `breaking_range_after` returns a range of entries: offers can break the order
only if an entry in the heap lies in this range.

The array is a `heapq` heap, because `heapq` is written in C. As long as the heap is in order, `heapq` and Java give the
same array. `heapq` and Java push in the same way. The new entry starts at the end of the array, and rises while its
parent is greater. To poll, `heapq` and Java remove the root of the heap, which leaves a hole. The hole sinks: the
lesser of its two children moves up into the hole, again and again. When the hole has stopped, the last entry of the
array moves into the hole. Java stops the sinking as soon as the last entry is less than both children of the hole.
`heapq` lets the hole sink to the bottom. Then `heapq` lets the last entry rise along the path of the hole. If the heap
is in order, the entries grow along the path on which the hole sinks. No two entries of the heap are equal, because each
entry contains its client's number. So only one position on the path is right for the last entry, and `heapq` and Java
find the same position. If the heap is not in order, the entries do not always grow along the path on which the hole
sinks. For a heap that is not in order, `_java_poll` carries out Java's algorithm.

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
"""Two offers: the entries of the two clients before the offers, and the entries of the two clients after the offers.
NOT_QUEUED stands for the entry of a client that was not in the heap before the offers.
"""

BreakingRange = tuple[Entry, Entry]
"""Two entries that bound a range. A heap may be out of order if it has an entry strictly between the two bounds."""

ANYWHERE: BreakingRange = (NOT_QUEUED, 1 << 64 + CLIENT_BITS)


DRAINED: Entry = -2
"""The step that polls all clients of a heap that may be out of order, and offers all of them again.
"""

REFILLED: Entry = -3
"""The step that polls all clients of a heap that is in order, and offers all of them again. The array after this step
depends only on the entries in the heap.
"""

Step = Entry | Offers
"""A step of the queue: the entry of a client that a search returned, or two offers, or DRAINED, or REFILLED."""


def breaking_range_after(offers: Offers) -> BreakingRange | None:
    """Returns a range of entries. Two offers can break the order of a heap only if the heap has an entry in this range.
    Returns None if the offers cannot break the order.

    The offers cannot break the order if no queued client's entry has changed. The range is narrow in the most frequent
    case: only the second client is queued, and the second client's entry has become less. If the entry of a queued
    client has changed in another way, the range is ANYWHERE. The narrow range has the following reason. When the first
    client is pushed, the second client is still at its old position. The old position is too deep in the heap for the
    new entry. So the push may put the first client into the subtree below the second client. When the second client is
    then removed, the first client may rise to the old position of the second client. In the position of the second
    client, the first client breaks the order if its entry is less than its parent's entry. The parent's entry is less
    than the second client's old entry. So the parent's entry lies between the two entries that this function returns.
    """
    first_before, second_before, first, second = offers
    if first_before != NOT_QUEUED:
        return None if first_before == first and second_before in (second, NOT_QUEUED) else ANYWHERE
    if second_before in (second, NOT_QUEUED) or first > second_before > second:
        return None
    return (first, second_before) if second_before > second else ANYWHERE


class ClientHeap:
    """The array of Java's heap. `in_order`: True if no child is less than its parent."""

    def __init__(self, processes: Sequence[ProcessId], entries: Sequence[Entry]) -> None:
        self.in_order = True
        self._array: list[Entry] = []
        self._rejected_order = _HashSetOrder(processes)
        for entry in entries:
            heappush(self._array, entry)

    def carry_out(self, steps: Sequence[Step], entries: Sequence[Entry]) -> None:
        """Carries out the steps. `entries`: the entry of each client after all steps; NOT_QUEUED for a client that is
        not in the heap. Only the first step may be REFILLED.
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
        """Finds the entry in `wanted` that a search would return. Does not change the heap. All entries of `wanted`
        have to be in the heap.
        """
        array = self._array.copy()
        while (entry := _java_poll(array)) not in wanted:
            pass
        return entry

    def _offer(self, offers: Offers) -> None:
        """Carries out two offers. In Kafka, the loads change before the offers. So before the offers, the new entries
        of queued clients replace their old entries in the array. Even if the heap is not in order, `heappush` gives the
        same array as Java's push.
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
        """Polls a heap that may be out of order. Stops at the entry `until`, or when the heap is empty. Returns the
        entries that were polled before `until`.
        """
        drawn: list[Entry] = []
        while self._array and (entry := _java_poll(self._array)) != until:
            drawn.append(entry)
        return drawn

    def _has_no_lighter_child(self) -> bool:
        array = self._array
        return all(map(le, array, array[1::2])) and all(map(le, array, array[2::2]))


def _before(steps: Sequence[Step], entries: Sequence[Entry]) -> list[Entry]:
    """Returns the entry that each client had before the steps were carried out. `entries`: the entry of each client
    after all steps.
    """
    entries = list(entries)
    for step in reversed(steps):
        if isinstance(step, tuple):
            first_before, second_before, first, second = step
            entries[first & CLIENT], entries[second & CLIENT] = first_before, second_before
        elif step >= 0:
            entries[step & CLIENT] = step
    return entries


class _HashSetOrder:
    """The iteration order of a HashSet of processes, computed without building the set each time."""

    def __init__(self, processes: Sequence[ProcessId]) -> None:
        self._processes = processes
        self._spreads = [spread_hash(process_hash(process)) for process in processes]
        self._buckets: dict[int, _Buckets] = {}

    def of(self, entries: list[Entry]) -> list[Entry]:
        """Returns the entries in the order of a HashSet: sorted by bucket. Entries of one bucket keep the given order
        (`java/order.py`).
        """
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
        """True if a bucket gets more than eight keys at the final capacity, or at an earlier capacity of 64 or more. If
        a bucket gets more than eight keys, the order depends on all four rules of `java/order.py`. If the capacity is
        below 64, a bucket with more than eight keys only doubles the table.
        """
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
    """A cache of the bucket of each entry, because the same entries occur many times.

    `is_crowded`: True if a bucket has more than eight keys when all clients are in the set.
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
    """Kafka's queue of clients, which contains each client at most once."""

    def __init__(self, processes: Sequence[ProcessId], copies: Sequence[int], capacity: Sequence[int]) -> None:
        """Offers every client to the queue, in the order of `processes`, the sorted process ids. A client is
        represented by its index in `processes`.

        A client's load is `copies[client] / capacity[client]`; each offer uses the current value of `copies`.
        """
        self._copies = copies
        self._bits = load_bits(capacity)
        self._entries = [bits[copies[client]] | client for client, bits in enumerate(self._bits)]
        self._heap = ClientHeap(processes, self._entries)
        self._written_down: list[Step] = []
        self._breaking_range: BreakingRange | None = None  # None if the heap is in order
        self._freshly_drained = False

    def poll(self, accepted: Sequence[int]) -> int | None:
        """Removes the first accepted client from the queue, and returns this client. `accepted`: the clients to search.
        Returns None if no accepted client is queued.

        Kafka also polls the rejected clients, and offers them again in the order of a HashSet.
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
        """The loads of two different clients may have changed. Offers these two clients to the queue, one after the
        other. If a client is already queued, it is removed first.

        Both loads change before the first offer, so the second client can still be queued when its load changes.
        """
        entries, copies, bits = self._entries, self._copies, self._bits
        first_before, second_before = entries[first], entries[second]
        entries[first] = first_after = bits[first][copies[first]] | first
        entries[second] = second_after = bits[second][copies[second]] | second
        offers = (first_before, second_before, first_after, second_after)
        self._freshly_drained = False
        if self._breaking_range is not None:
            self._breaking_range = ANYWHERE
        # skips the call in the most frequent case, in which the offers cannot break the order
        elif first_before != NOT_QUEUED or not first_after > second_before > second_after:
            self._breaking_range = breaking_range_after(offers)
        self._written_down.append(offers)

    def _is_in_order(self) -> bool:
        """True if the heap is in order. If no entry lies in the breaking range, the heap is in order. If an entry lies
        in the breaking range, this method carries out the deferred steps and then checks the heap.
        """
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
        """Polls all clients and offers all of them again. If the previous step was REFILLED, this method adds no step,
        because a second refill would change nothing.
        """
        if self._freshly_drained:
            return
        if self._breaking_range is None:
            self._written_down = [REFILLED]
            self._freshly_drained = True
        else:
            self._written_down.append(DRAINED)
            self._breaking_range = None
