"""Java's hash codes, and maps and sets that are walked in Java's order.

Some of Kafka's choices fall on the first client, task or member that a `HashMap` or `HashSet` yields, so its order is
part of the behaviour. Source: `HashMap`, `HashSet`, `Collectors.toSet` of Java 17, and the `hashCode` of `TaskId`,
`ProcessId` (`UUID`), `TopicPartition`, `HostInfo` and `String`.

Java's ways to fill a collection can each give another order. They are written like this here:

- `new HashSet<>()`, `new HashSet<>(n)`, then `add` or `addAll`, and `Collectors.toSet()`: `JavaHashSet(items)`,
  `JavaHashSet(items, initial_capacity=n)`
- `new HashSet<>(collection)`: `JavaHashSet.copy_of(collection)`
- `new HashMap<>()`, then `put`, and `Collectors.toMap`: `JavaHashMap(items)`
- `new HashMap<>()`, then `computeIfAbsent`: `compute_if_absent_order(keys)`
- `new HashMap<>(map)`: `JavaHashMap.copy_of(mapping)`; `putAll`: `put_all`
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, MutableMapping, MutableSet
from functools import lru_cache
from typing import TypeVar

from assignor.java.buckets import DEFAULT_INITIAL_CAPACITY, spreads_of_tasks, uncrowded_order
from assignor.java.hash_table import JavaHashTable, capacity_to_copy
from assignor.types import JAVA_INT_MAX, HostInfo, ProcessId, TaskId, TopicPartition, utf16_order

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def int16(value: int) -> int:
    """`Integer.shortValue()`."""
    return ((value + 0x8000) & 0xFFFF) - 0x8000


def int32(value: int) -> int:
    """Wraps as Java's int arithmetic does."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def int64(value: int) -> int:
    """Wraps as Java's long arithmetic does."""
    return (value + 2**63) % 2**64 - 2**63


@lru_cache(maxsize=16_384)  # a topic name is hashed again for every partition
def string_hash(text: str) -> int:
    """Source: `String.hashCode`, over UTF-16 code units."""
    units: Iterable[int]
    if text.isascii():
        units = text.encode("ascii")
    else:
        raw = utf16_order(text)
        units = (raw[at] << 8 | raw[at + 1] for at in range(0, len(raw), 2))
    code = 0
    for unit in units:
        code = (31 * code + unit) & 0xFFFFFFFF
    return int32(code)


def task_hash(task: TaskId) -> int:
    """Source: `TaskId.hashCode`; a task without a named topology adds 0 for the name."""
    subtopology, partition, topology_name = task
    code = ((31 + subtopology) * 31 + partition) * 31
    if topology_name is not None:
        code += string_hash(topology_name)
    return code if 0 <= code <= JAVA_INT_MAX else int32(code)


def process_hash(process_id: ProcessId) -> int:
    """Source: `UUID.hashCode`."""
    halves = process_id.high ^ process_id.low
    return int32((halves >> 32) ^ halves)


def topic_partition_hash(topic_partition: TopicPartition) -> int:
    """Source: `TopicPartition.hashCode`."""
    return int32(31 * (31 + topic_partition.partition) + string_hash(topic_partition.topic))


def host_hash(host: HostInfo) -> int:
    """Source: `HostInfo.hashCode`."""
    return int32(31 * string_hash(host.host) + host.port)


_HASH_BY_TYPE: dict[type, Callable[..., int]] = {
    str: string_hash,
    TaskId: task_hash,
    ProcessId: process_hash,
    TopicPartition: topic_partition_hash,
    HostInfo: host_hash,
    int: int32,
}


def java_hash(key: Hashable) -> int:
    """`hashCode` of a string, task, process, partition, host or Java int. Raises TypeError for anything else."""
    hash_of = _HASH_BY_TYPE.get(type(key))
    if hash_of is None:
        raise TypeError(f"no Java hash code is known for {type(key).__name__}")
    return hash_of(key)


class JavaHashSet(MutableSet[K]):
    """A `java.util.HashSet`. Iterates over the keys as they are when the iteration starts.

    `items` are added one after the other, so the table grows as it does in Java. `hash_of` returns int32.
    """

    __slots__ = ("_table",)

    def __init__(
        self,
        items: Iterable[K] = (),
        *,
        initial_capacity: int = DEFAULT_INITIAL_CAPACITY,
        hash_of: Callable[[K], int] = java_hash,
    ) -> None:
        self._table: JavaHashTable[K] = JavaHashTable(hash_of, initial_capacity)
        self._table.add_all(items)

    @classmethod
    def copy_of(cls, items: Collection[K], hash_of: Callable[[K], int] = java_hash) -> JavaHashSet[K]:
        """`new HashSet<>(collection)`: sized for all of `items` before the first is added."""
        capacity = max(capacity_to_copy(len(items)), DEFAULT_INITIAL_CAPACITY)
        return cls(items, initial_capacity=capacity, hash_of=hash_of)

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, item: object) -> bool:
        return item in self._table

    def __iter__(self) -> Iterator[K]:
        return iter(self._table.order())

    def add(self, value: K) -> None:
        self._table.add(value)

    def discard(self, value: K) -> None:
        self._table.remove(value)

    def add_all(self, items: Iterable[K]) -> None:
        self._table.add_all(items)

    def remove_all(self, items: Collection[K]) -> None:
        """Source: `AbstractSet.removeAll`, which walks the smaller of the two."""
        if len(self) > len(items):
            for item in items:
                self._table.remove(item)
        else:
            for item in [item for item in self if item in items]:
                self._table.remove_while_iterating(item)

    def retain_all(self, items: Collection[K]) -> None:
        """Source: `AbstractCollection.retainAll`."""
        for item in [item for item in self if item not in items]:
            self._table.remove_while_iterating(item)

    def __repr__(self) -> str:
        return f"JavaHashSet({list(self)!r})"


class JavaHashMap(MutableMapping[K, V]):
    """A `java.util.HashMap`. Iterates over the keys as they are when the iteration starts.

    `items` are put one after the other, as `update` does; `put_all` sizes the table first, as Java's `putAll` does.
    """

    __slots__ = ("_table", "_values")

    def __init__(
        self,
        items: Iterable[tuple[K, V]] = (),
        *,
        initial_capacity: int | None = None,
        hash_of: Callable[[K], int] = java_hash,
    ) -> None:
        self._table: JavaHashTable[K] = JavaHashTable(hash_of, initial_capacity)
        self._values: dict[K, V] = dict(items)
        self._table.add_all(self._values)

    @classmethod
    def copy_of(cls, entries: Mapping[K, V], hash_of: Callable[[K], int] = java_hash) -> JavaHashMap[K, V]:
        """`new HashMap<>(map)`."""
        copy = cls(hash_of=hash_of)
        copy.put_all(entries)
        return copy

    def put_all(self, entries: Mapping[K, V]) -> None:
        self._table.presize(len(entries))
        self._table.add_all(entries)
        self._values.update(entries)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._table.add(key)
        self._values[key] = value

    def __delitem__(self, key: K) -> None:
        del self._values[key]
        self._table.remove(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._table.order())

    def remove_while_iterating(self, key: K) -> None:
        """As `Iterator.remove`, `removeIf` and `keySet().removeAll` of a larger collection do; KeyError when absent."""
        del self._values[key]
        self._table.remove_while_iterating(key)

    def __repr__(self) -> str:
        return f"JavaHashMap({list(self.items())!r})"


def hash_set_order(
    items: Iterable[K], hash_of: Callable[[K], int] = java_hash, initial_capacity: int = DEFAULT_INITIAL_CAPACITY
) -> list[K]:
    """The order of a `HashSet` into which `items` were added one by one."""
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


def compute_if_absent_order(keys: Iterable[K], hash_of: Callable[[K], int] = java_hash) -> list[K]:
    """The order of a `new HashMap<>()` after `computeIfAbsent` of each of `keys`, including repeated ones."""
    table: JavaHashTable[K] = JavaHashTable(hash_of)
    for key in keys:
        table.compute_if_absent(key)
    return table.order()


def hash_set_copy_order(items: Collection[K], hash_of: Callable[[K], int] = java_hash) -> list[K]:
    """The order of `new HashSet<>(items)`."""
    return list(JavaHashSet.copy_of(items, hash_of))
