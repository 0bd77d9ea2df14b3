"""In which order the buckets of a Java `HashMap` give keys, while none of them is crowded.

That is nearly always so, and then the order follows from the hash codes alone: by bucket, and in a bucket as they came.
`hash_table.py` has the table itself, and everything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from assignor.types import JAVA_INT_MAX

DEFAULT_INITIAL_CAPACITY = 16
MAXIMUM_CAPACITY = 1 << 30
TREEIFY_THRESHOLD = 8
MIN_TREEIFY_CAPACITY = 64
_SPARSE = 16  # buckets for each key, from which on counting in an array of all buckets takes longer than in a dict


def table_size_for(capacity: int) -> int:
    """The lowest power of two that is not below `capacity`."""
    return min(1 << (capacity - 1).bit_length(), MAXIMUM_CAPACITY) if capacity > 1 else 1


def spreads_of_tasks(tasks: Sequence[Any]) -> list[int] | None:
    """The spread `task_hash` of each: they are hashed more often than anything else, and calls for each take most of
    it. None where a task has a name, or numbers so large that a hash code is to be wrapped.
    """
    fields: list[Any] = list(chain.from_iterable(tasks))
    subtopologies, partitions, names = fields[::3], fields[1::3], fields[2::3]
    if names.count(None) < len(names):
        return None
    return _usual_spreads(subtopologies, partitions)


def _usual_spreads(subtopologies: list[int], partitions: list[int]) -> list[int] | None:
    largest = JAVA_INT_MAX
    spreads: list[int] = []
    try:
        for subtopology, partition in zip(subtopologies, partitions, strict=True):
            code = ((31 + subtopology) * 31 + partition) * 31
            if not 0 <= code <= largest:
                return None
            spreads.append(code ^ code >> 16)
    except OverflowError:  # as C types: a number that no long holds
        return None
    return spreads


def uncrowded_order(spreads: list[int], initial_capacity: int) -> list[int] | None:
    """The places of keys in the order of the table to which they were added one by one; None when a bucket becomes a
    tree on the way. `spreads`: the spread hashes of different keys.
    """
    capacity = uncrowded_capacity(spreads, initial_capacity)
    if capacity is None:
        return None
    mask = capacity - 1
    buckets = [spread & mask for spread in spreads]
    return sorted(range(len(buckets)), key=buckets.__getitem__)


def uncrowded_capacity(spreads: Sequence[int], initial_capacity: int) -> int | None:
    """The capacity of a table after keys with these spread hashes were added one by one, if its order is that of the
    buckets alone; None when a bucket becomes a tree on the way.
    """
    size = len(spreads)
    capacity = table_size_for(initial_capacity)
    is_small = size < capacity + TREEIFY_THRESHOLD
    if is_small and size - len(set(map((capacity - 1).__and__, spreads))) < TREEIFY_THRESHOLD:  # too few share a bucket
        while size > capacity * 3 // 4 and capacity < MAXIMUM_CAPACITY:
            capacity *= 2
        return capacity
    capacity, present = _small_table(spreads, capacity)
    while present < size:
        room = capacity * 3 // 4
        until = min(size, room + 1)  # the key that overflows the table is added before it grows
        if is_crowded(spreads if size <= room else spreads[:until], capacity):
            crowding = _first_crowding(spreads, present, until, capacity)
            if crowding is not None:
                return None
        if size <= room or capacity >= MAXIMUM_CAPACITY:
            return capacity
        capacity, present = capacity * 2, until
    return capacity


def _small_table(spreads: Sequence[int], capacity: int) -> tuple[int, int]:
    """The capacity once it is too large to grow for a crowded bucket, or holds all keys; and how many it holds."""
    present = 0
    while capacity < MIN_TREEIFY_CAPACITY:
        room, mask = capacity * 3 // 4, capacity - 1
        counts = bytearray(capacity)
        for spread in spreads[:present]:
            counts[spread & mask] += 1
        for spread in spreads[present : room + 1]:
            bucket = spread & mask
            counts[bucket] += 1
            present += 1
            if counts[bucket] > TREEIFY_THRESHOLD:
                break
        else:
            if present <= room:
                return capacity, present
        capacity *= 2
    return capacity, present


def _first_crowding(spreads: Sequence[int], present: int, until: int, capacity: int) -> int | None:
    """Which key, of those from `present` up to `until`, is the first to find eight others in its bucket."""
    bucket_of = (capacity - 1).__and__
    counts = Counter(map(bucket_of, islice(spreads, present)))
    for number in range(present, until):
        bucket = bucket_of(spreads[number])
        counts[bucket] += 1
        if counts[bucket] > TREEIFY_THRESHOLD:
            return number
    return None


def is_crowded(spreads: Sequence[int], capacity: int) -> bool:
    """Whether so many of these spread hashes share a bucket, at this capacity, that more than the order in the bucket
    changes.
    """
    if len(spreads) <= TREEIFY_THRESHOLD:
        return False
    if capacity > _SPARSE * len(spreads):
        in_bucket = Counter(map((capacity - 1).__and__, spreads))
        return max(in_bucket.values()) > TREEIFY_THRESHOLD
    counts, mask = bytearray(capacity), capacity - 1
    for spread in spreads:
        bucket = spread & mask
        count = counts[bucket] + 1
        if count > TREEIFY_THRESHOLD:
            return True
        counts[bucket] = count
    return False
