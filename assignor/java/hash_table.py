"""The buckets of a Java `HashMap`, which decide in which order its keys are walked.

A key is in bucket `spread & (capacity - 1)`, where `spread = hash ^ (hash >>> 16)`. Buckets are walked from 0 up, keys
inside one in the order they came. The table doubles when it is more than 3/4 full, which keeps the order inside both
halves of a bucket, and never shrinks. A bucket of more than eight keys becomes a tree, or doubles the table while that
has fewer than 64 buckets. Source: `HashMap` of Java 17 (19 and later give copies a slightly smaller table).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from operator import itemgetter
from typing import Generic, TypeVar

from assignor.java.buckets import (
    DEFAULT_INITIAL_CAPACITY,
    MAXIMUM_CAPACITY,
    MIN_TREEIFY_CAPACITY,
    TREEIFY_THRESHOLD,
    is_crowded,
    table_size_for,
)
from assignor.java.tree_bin import JavaTreeBin

K = TypeVar("K", bound=Hashable)


def capacity_to_copy(size: int) -> int:
    """The capacity Java asks for to hold `size` entries, before it is rounded up to a power of two."""
    return size * 4 // 3 + 1


def spread_hash(hash_code: int) -> int:
    """`hash_code`: int32; returns int32, because Java compares spread hashes with their sign."""
    return hash_code ^ ((hash_code & 0xFFFFFFFF) >> 16)


class JavaHashTable(Generic[K]):
    """Keys without values, each at most once. `hash_of`: Java's `hashCode` of a key, as int32.

    `initial_capacity`: the argument of Java's constructor; None for the constructor without arguments.
    """

    __slots__ = ("_allocated", "_bins", "_capacity", "_hash_of", "_order", "_presized", "_spreads")

    def __init__(self, hash_of: Callable[[K], int], initial_capacity: int | None = None) -> None:
        self._hash_of = hash_of
        self._presized = 0 if initial_capacity is None else table_size_for(initial_capacity)
        self._capacity = self._presized or DEFAULT_INITIAL_CAPACITY
        self._allocated = False
        self._spreads: dict[K, int] = {}
        # None: no bucket was ever crowded, so a stable sort of `_spreads` by bucket is enough until the next `add`
        self._bins: dict[int, list[K] | JavaTreeBin[K]] | None = {}
        self._order: list[K] | None = None

    def __len__(self) -> int:
        return len(self._spreads)

    def __contains__(self, key: object) -> bool:
        return key in self._spreads

    def order(self) -> list[K]:
        """All keys as Java walks them. The list is kept until the next change; do not modify it."""
        if self._order is None:
            bins = self._bins
            if bins is None:
                by_bucket = sorted(zip(self._buckets(), self._spreads, strict=True), key=itemgetter(0))
                self._order = [key for _, key in by_bucket]
            else:
                self._order = [key for bucket in sorted(bins) for key in bins[bucket]]
        return self._order

    def add_all(self, keys: Iterable[K]) -> None:
        """The same as `add` for each key; much faster when the table is empty."""
        if self._spreads:
            for key in keys:
                self.add(key)
            return
        hash_of = self._hash_of
        spreads = {key: spread_hash(hash_of(key)) for key in keys}
        filled = self._fill(spreads)
        for key, spread in islice(spreads.items(), filled, None):
            self._add(key, spread)

    def add(self, key: K) -> bool:
        """False when the key was there already."""
        if key in self._spreads:
            return False
        self._add(key, spread_hash(self._hash_of(key)))
        return True

    def compute_if_absent(self, key: K) -> bool:
        """As Java's `computeIfAbsent`; False when the key was there already.

        It puts a key in front of those in its bucket, makes a tree one key earlier, and grows the table before the
        look-up instead of after adding.
        """
        if len(self._spreads) > self._capacity * 3 // 4:
            self._order = None
            self._double()
        if key in self._spreads:
            return False
        spread = spread_hash(self._hash_of(key))
        keys = self._sorted_into_bins().get(spread & (self._capacity - 1))
        if keys is None or isinstance(keys, JavaTreeBin):
            self._place(key, spread)
        else:
            self._order, self._spreads[key] = None, spread
            keys.insert(0, key)
            if len(keys) >= TREEIFY_THRESHOLD:
                self._relieve(self._sorted_into_bins(), spread & (self._capacity - 1), keys)
        return True

    def _add(self, key: K, spread: int) -> None:
        self._place(key, spread)
        if len(self._spreads) > self._capacity * 3 // 4:
            self._double()

    def _place(self, key: K, spread: int) -> None:
        self._order = None
        self._allocated = True
        bucket = spread & (self._capacity - 1)
        bins = self._sorted_into_bins()
        self._spreads[key] = spread
        keys = bins.get(bucket)
        if keys is None:
            bins[bucket] = [key]
        elif isinstance(keys, JavaTreeBin):
            keys.add(key, spread)
        else:
            keys.append(key)
            if len(keys) > TREEIFY_THRESHOLD:
                self._relieve(bins, bucket, keys)

    def remove(self, key: K) -> bool:
        """False when the key was not there."""
        return self._remove(key, JavaTreeBin.remove)

    def remove_while_iterating(self, key: K) -> bool:
        """As Java's `Iterator.remove`, which treats a crowded bucket differently; False when the key was not there."""
        return self._remove(key, JavaTreeBin.remove_while_iterating)

    def presize(self, size: int) -> None:
        """What `putAll` does before it adds the `size` entries of another map."""
        if size == 0:
            return
        if self._allocated:
            while size > self._capacity * 3 // 4:
                self._double()
        elif capacity_to_copy(size) > self._presized:
            self._capacity = self._presized = table_size_for(capacity_to_copy(size))

    def _remove(self, key: K, remove_from_tree: Callable[[JavaTreeBin[K], K], JavaTreeBin[K] | list[K]]) -> bool:
        spread = self._spreads.pop(key, None)
        if spread is None:
            return False
        self._order = None
        if self._bins is None:
            return True
        bucket = spread & (self._capacity - 1)
        keys = self._bins[bucket]
        if isinstance(keys, JavaTreeBin):
            keys = self._bins[bucket] = remove_from_tree(keys, key)
        else:
            keys.remove(key)
        if not len(keys):
            del self._bins[bucket]
        return True

    def _fill(self, spreads: dict[K, int]) -> int:
        """Places keys in the empty table until a bucket would become crowded; returns how many.

        The keys that overflow one size are placed before the table grows to the next.
        """
        in_order, filled = list(spreads.values()), 0
        while True:
            room = self._capacity * 3 // 4
            if is_crowded(in_order[: room + 1], self._capacity):
                break
            filled = min(room + 1, len(in_order))
            if filled <= room or self._capacity >= MAXIMUM_CAPACITY:
                break
            self._capacity *= 2
        if filled:
            self._spreads = spreads if filled == len(spreads) else dict(islice(spreads.items(), filled))
            self._bins, self._order, self._allocated = None, None, True
        return filled

    def _buckets(self) -> Iterable[int]:
        return map((self._capacity - 1).__and__, self._spreads.values())

    def _sorted_into_bins(self) -> dict[int, list[K] | JavaTreeBin[K]]:
        if self._bins is None:
            lists: dict[int, list[K]] = {}
            for bucket, key in zip(self._buckets(), self._spreads, strict=True):
                lists.setdefault(bucket, []).append(key)
            self._bins = {**lists}
        return self._bins

    def _relieve(self, bins: dict[int, list[K] | JavaTreeBin[K]], bucket: int, keys: list[K]) -> None:
        if self._capacity < MIN_TREEIFY_CAPACITY:
            self._double()
        else:
            bins[bucket] = JavaTreeBin((key, self._spreads[key]) for key in keys)

    def _double(self) -> None:
        if self._capacity >= MAXIMUM_CAPACITY:
            return
        bit, spreads, bins = self._capacity, self._spreads, self._sorted_into_bins()
        self._capacity *= 2
        doubled: dict[int, list[K] | JavaTreeBin[K]] = {}
        for bucket, keys in bins.items():
            if isinstance(keys, JavaTreeBin):
                low, high = keys.split(bit)
            elif len(keys) == 1:
                doubled[bucket + (spreads[keys[0]] & bit)] = keys
                continue
            else:
                low = [key for key in keys if not spreads[key] & bit]
                high = [key for key in keys if spreads[key] & bit]
            if len(low):
                doubled[bucket] = low
            if len(high):
                doubled[bucket + bit] = high
        self._bins = doubled
