"""The iteration order of Java's hash maps and hash sets.

Kafka often chooses the first client, task or member that a `HashMap` or `HashSet` yields. So the iteration order of
hash maps and hash sets is part of Kafka's behaviour. The iteration order follows from four rules of Java's hash table:

1. A table is an array of buckets. The number of buckets, the capacity, is a power of two. A key lies in the bucket
   `spread & (capacity - 1)`. The mask `capacity - 1` keeps only the low bits of `spread`. So Java first mixes the high
   half of the hash code into the low half: `spread = hash ^ (hash >>> 16)`. An iteration visits the buckets from 0 up,
   and the keys of each bucket in the order of the bucket's linked list.
2. A new key goes to the end of its bucket's list. (Only `computeIfAbsent` puts a new key at the front of the list.)
3. When the table holds more keys than 3/4 of its capacity, the capacity doubles. The capacity never shrinks. After the
   capacity has doubled, the mask `capacity - 1` keeps one bit more. So each key of bucket b stays in bucket b or moves
   to bucket b + old capacity. The keys of bucket b keep their order, whether they stay or move.
4. A new key may be the ninth or a later key of its bucket. A table of fewer than 64 buckets then doubles. In a table of
   64 buckets or more, the bucket becomes a red-black tree instead (`tree_bin.py`). The tree changes the order of the
   bucket's list. In this file, a bucket of nine or more keys is called crowded.

If no bucket ever became a tree, only rules 1 to 3 apply, and the order is quick to compute. In a table without trees,
the keys are sorted by `spread & (capacity - 1)`. Keys of one bucket stay in the order in which they were added. So the
order depends only on the final capacity of the table and on the order in which keys were added. Nearly all tables have
no tree, and `uncrowded_order` computes their order.

A bucket may become a tree, and the table may then grow until no bucket is crowded any more. The bucket's list remains
in the order of the tree even if the bucket is no longer a tree. So `uncrowded_capacity` checks the buckets at each
capacity of the table, with the keys that were present at this capacity. If a bucket became a tree, `JavaHashSet`
computes the order: it carries out all four rules step by step. `JavaHashSet` also supports the removal of keys.

Java has several ways to fill a hash set or hash map. Two ways to fill a collection can lead to different capacities, or
insert keys at different ends of a bucket's list. So two collections of the same keys can have different orders. Each
way to fill a collection in Java has a counterpart in this package:

- `JavaHashSet(items)` is a `new HashSet<>()` that is filled by `add` or `addAll`, or a set of `Collectors.toSet()`.
- `JavaHashSet(items, initial_capacity=n)` is a `new HashSet<>(n)` that is filled by `add` or `addAll`.
- `hash_set_order` returns only the iteration order of a set that is filled by `add`.
- `JavaHashSet.copy_of(collection)` is a `new HashSet<>(collection)`, and `hash_set_copy_order` returns only its order.
- `JavaHashMap(items)` is a `new HashMap<>()` that is filled by `put`, or a map of `Collectors.toMap`.
- `compute_if_absent_order(keys)` returns the order of a `new HashMap<>()` that is filled by `computeIfAbsent`.
- `hash_map_copy_order` returns the order of a `new HashMap<>(map)`.

Source: `HashMap`, `HashSet`, `Collectors.toSet` of Java 17 (Java 19 and later create a slightly smaller table for a
copy).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, MutableSet, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any

from assignor.java.hash_codes import java_hash, task_hash
from assignor.java.tree_bin import JavaTreeBin, K
from assignor.types import JAVA_INT_MAX

DEFAULT_INITIAL_CAPACITY = 16
MAXIMUM_CAPACITY = 1 << 30
TREEIFY_THRESHOLD = 8
MIN_TREEIFY_CAPACITY = 64
# if a table has more buckets per key than this number, a dict counts keys faster than an array of all buckets
_SPARSE = 16


def hash_set_order(
    items: Iterable[K], hash_of: Callable[[K], int] = java_hash, initial_capacity: int = DEFAULT_INITIAL_CAPACITY
) -> list[K]:
    """Returns the order of a `HashSet` to which `items` were added one by one."""
    keys = list(dict.fromkeys(items))
    if len(keys) > 1:
        spreads = spreads_of_tasks(keys) if hash_of is task_hash else None
        if spreads is None:
            spreads = [code ^ ((code & 0xFFFFFFFF) >> 16) for code in map(hash_of, keys)]
        order = uncrowded_order(spreads, initial_capacity)
        if order is None:
            return list(JavaHashSet(keys, initial_capacity=initial_capacity, hash_of=hash_of))
        return [keys[at] for at in order]
    return keys


def hash_map_copy_order(keys: Collection[K], hash_of: Callable[[K], int] = java_hash) -> list[K]:
    """Returns the order of `new HashMap<>(map)`. `keys`: the keys of `map`, in the iteration order of `map`."""
    return list(JavaHashSet(keys, initial_capacity=capacity_to_copy(len(keys)), hash_of=hash_of))


def compute_if_absent_order(keys: Iterable[K], hash_of: Callable[[K], int] = java_hash) -> list[K]:
    """Returns the order of a HashMap that was filled by one call of `computeIfAbsent` for each of `keys`. A key may be
    in `keys` twice.
    """
    table: JavaHashSet[K] = JavaHashSet(hash_of=hash_of)
    for key in keys:
        table.compute_if_absent(key)
    return table.order()


def hash_set_copy_order(items: Collection[K], hash_of: Callable[[K], int] = java_hash) -> list[K]:
    """Returns the order of `new HashSet<>(items)`."""
    return list(JavaHashSet.copy_of(items, hash_of))


class JavaHashSet(MutableSet[K]):
    """A `java.util.HashSet`. An iteration yields the keys that the set has when the iteration starts.

    `items` are added one after the other, so the table grows as it does in Java. `initial_capacity`: the argument of
    Java's constructor. `hash_of`: Java's `hashCode` of a key, as int32.
    """

    __slots__ = ("_bins", "_capacity", "_hash_of", "_order", "_spreads")

    def __init__(
        self,
        items: Iterable[K] = (),
        *,
        initial_capacity: int = DEFAULT_INITIAL_CAPACITY,
        hash_of: Callable[[K], int] = java_hash,
    ) -> None:
        self._hash_of = hash_of
        self._capacity = table_size_for(initial_capacity)
        self._spreads: dict[K, int] = {}
        # `_bins` contains the keys of each bucket. `_bins` is None if no bucket is a tree and `add_all` added all keys.
        # In this case, `order` sorts `_spreads`, and the next `add` fills `_bins`.
        self._bins: dict[int, list[K] | JavaTreeBin[K]] | None = {}
        self._order: list[K] | None = None
        self.add_all(items)

    @classmethod
    def copy_of(cls, items: Collection[K], hash_of: Callable[[K], int] = java_hash) -> JavaHashSet[K]:
        """Returns the set that `new HashSet<>(collection)` makes in Java: the table is created with room for all of
        `items`.
        """
        capacity = max(capacity_to_copy(len(items)), DEFAULT_INITIAL_CAPACITY)
        return cls(items, initial_capacity=capacity, hash_of=hash_of)

    def __len__(self) -> int:
        return len(self._spreads)

    def __contains__(self, key: object) -> bool:
        return key in self._spreads

    def __iter__(self) -> Iterator[K]:
        return iter(self.order())

    def __repr__(self) -> str:
        return f"JavaHashSet({self.order()!r})"

    def order(self) -> list[K]:
        """Returns all keys of the set, in the order in which Java iterates over the set. Do not modify the list,
        because the set reuses it.
        """
        if self._order is None:
            bins = self._bins
            if bins is None:
                by_bucket = sorted(zip(self._buckets(), self._spreads, strict=True), key=itemgetter(0))
                self._order = [key for _, key in by_bucket]
            else:
                self._order = [key for bucket in sorted(bins) for key in bins[bucket]]
        return self._order

    def add_all(self, keys: Iterable[K]) -> None:
        """Adds each key as `add` does. If the set is empty, `add_all` is much faster than one call of `add` for each
        key.
        """
        if self._spreads:
            for key in keys:
                self.add(key)
            return
        hash_of = self._hash_of
        spreads = {key: spread_hash(hash_of(key)) for key in keys}
        capacity = uncrowded_capacity(list(spreads.values()), self._capacity)
        if capacity is not None:
            self._capacity, self._spreads, self._bins, self._order = capacity, spreads, None, None
            return
        for key, spread in spreads.items():
            self._add(key, spread)

    def add(self, value: K) -> None:
        if value not in self._spreads:
            self._add(value, spread_hash(self._hash_of(value)))

    def compute_if_absent(self, key: K) -> None:
        """Adds the key as Java's `computeIfAbsent` does.

        `computeIfAbsent` differs from `add` in three points. `computeIfAbsent` puts the key at the front of the
        bucket's list. `computeIfAbsent` makes a tree of a bucket at the eighth key instead of the ninth.
        `computeIfAbsent` doubles the table before it searches for the key, not after it has added the key.
        """
        if len(self._spreads) > self._capacity * 3 // 4:
            self._order = None
            self._double()
        if key in self._spreads:
            return
        spread = spread_hash(self._hash_of(key))
        keys = self._sorted_into_bins().get(spread & (self._capacity - 1))
        if keys is None or isinstance(keys, JavaTreeBin):
            self._place(key, spread)
        else:
            self._order, self._spreads[key] = None, spread
            keys.insert(0, key)
            if len(keys) >= TREEIFY_THRESHOLD:
                self._relieve(self._sorted_into_bins(), spread & (self._capacity - 1), keys)

    def _add(self, key: K, spread: int) -> None:
        self._place(key, spread)
        if len(self._spreads) > self._capacity * 3 // 4:
            self._double()

    def _place(self, key: K, spread: int) -> None:
        self._order = None
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

    def discard(self, value: K) -> None:
        self._remove(value, JavaTreeBin.remove)

    def remove_while_iterating(self, key: K) -> None:
        """Removes the key as Java's `Iterator.remove` does. In a tree, the remaining keys can have a different order
        than after `discard`.
        """
        self._remove(key, JavaTreeBin.remove_while_iterating)

    def remove_all(self, items: Collection[K]) -> None:
        """Removes `items` as `AbstractSet.removeAll` does, which iterates over the smaller of the two collections."""
        if len(self) > len(items):
            for item in items:
                self.discard(item)
        else:
            for item in [item for item in self if item in items]:
                self.remove_while_iterating(item)

    def _remove(self, key: K, remove_from_tree: Callable[[JavaTreeBin[K], K], JavaTreeBin[K] | list[K]]) -> None:
        spread = self._spreads.pop(key, None)
        if spread is None:
            return
        self._order = None
        if self._bins is None:
            return
        bucket = spread & (self._capacity - 1)
        keys = self._bins[bucket]
        if isinstance(keys, JavaTreeBin):
            keys = self._bins[bucket] = remove_from_tree(keys, key)
        else:
            keys.remove(key)
        if not len(keys):
            del self._bins[bucket]

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


def capacity_to_copy(size: int) -> int:
    """Returns the capacity that Java computes for a copy of `size` entries, before rounding up to a power of two."""
    return size * 4 // 3 + 1


def spread_hash(hash_code: int) -> int:
    """Mixes the high half of a hash code into the low half. `hash_code`: int32. Returns int32, because trees compare
    spread hashes as signed ints.
    """
    return hash_code ^ ((hash_code & 0xFFFFFFFF) >> 16)


def table_size_for(capacity: int) -> int:
    """Returns the lowest power of two that is at least `capacity`."""
    return min(1 << (capacity - 1).bit_length(), MAXIMUM_CAPACITY) if capacity > 1 else 1


def spreads_of_tasks(tasks: Sequence[Any]) -> list[int] | None:
    """Returns the spread hash of each task. Returns None if a task has a topology name, or if the hash code of a task
    overflows an int.

    Tasks are hashed more often than all other keys. This function does not call `task_hash` for each task, because
    these calls would take most of the time.
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
    except OverflowError:  # only the compiled module raises this error, because its numbers are C longs
        return None
    return spreads


def uncrowded_order(spreads: list[int], initial_capacity: int) -> list[int] | None:
    """Returns the indices of the keys, in the iteration order of a table to which the keys were added one by one.
    Returns None if a bucket of the table became a tree at any time. `spreads`: the spread hash of each key; the keys
    all differ.
    """
    capacity = uncrowded_capacity(spreads, initial_capacity)
    if capacity is None:
        return None
    mask = capacity - 1
    buckets = [spread & mask for spread in spreads]
    return sorted(range(len(buckets)), key=buckets.__getitem__)


def uncrowded_capacity(spreads: Sequence[int], initial_capacity: int) -> int | None:
    """Returns the capacity of a table after keys with these spread hashes were added one by one. Returns None if a
    bucket of the table became a tree at any time.
    """
    size = len(spreads)
    capacity = table_size_for(initial_capacity)
    is_small = size < capacity + TREEIFY_THRESHOLD
    # fast path: if nine keys shared a bucket, the number of used buckets would be at least eight below the number of
    # keys
    if is_small and size - len(set(map((capacity - 1).__and__, spreads))) < TREEIFY_THRESHOLD:
        while size > capacity * 3 // 4 and capacity < MAXIMUM_CAPACITY:
            capacity *= 2
        return capacity
    capacity, present = _small_table(spreads, capacity)
    while present < size:
        room = capacity * 3 // 4
        until = min(size, room + 1)  # the key beyond `room` is added before the table grows
        fill = spreads if size <= room else spreads[:until]
        if is_crowded(fill, capacity) and _gets_crowded(spreads, present, until, capacity):
            return None
        if size <= room or capacity >= MAXIMUM_CAPACITY:
            return capacity
        capacity, present = capacity * 2, until
    return capacity


def _small_table(spreads: Sequence[int], capacity: int) -> tuple[int, int]:
    """Adds keys to a table of fewer than 64 buckets. The table doubles when a bucket gets its ninth key. Stops when all
    keys are added or the table has 64 buckets. Returns the capacity of the table, and the number of keys that were
    added.
    """
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


def _gets_crowded(spreads: Sequence[int], present: int, until: int, capacity: int) -> bool:
    """Adds the keys from index `present` up to `until`, and returns True if a bucket gets its ninth key."""
    bucket_of = (capacity - 1).__and__
    counts = Counter(map(bucket_of, islice(spreads, present)))
    for number in range(present, until):
        bucket = bucket_of(spreads[number])
        counts[bucket] += 1
        if counts[bucket] > TREEIFY_THRESHOLD:
            return True
    return False


def is_crowded(spreads: Sequence[int], capacity: int) -> bool:
    """True if a table of this capacity has a bucket with more than eight of the keys."""
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
