"""A `java.util.HashMap`: the keys of a `JavaHashSet` with values. Source: `HashMap` of Java 17."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping
from typing import TypeVar

from assignor.java.hash_codes import java_hash
from assignor.java.order import JavaHashSet

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class JavaHashMap(MutableMapping[K, V]):
    """A `java.util.HashMap`. Iterates over the keys as they are when the iteration starts.

    `items` are put one after the other, as `update` does; `put_all` sizes the table first, as Java's `putAll` does.
    """

    __slots__ = ("_keys", "_values")

    def __init__(
        self,
        items: Iterable[tuple[K, V]] = (),
        *,
        initial_capacity: int | None = None,
        hash_of: Callable[[K], int] = java_hash,
    ) -> None:
        self._values: dict[K, V] = dict(items)
        self._keys = JavaHashSet(self._values, initial_capacity=initial_capacity, hash_of=hash_of)

    @classmethod
    def copy_of(cls, entries: Mapping[K, V], hash_of: Callable[[K], int] = java_hash) -> JavaHashMap[K, V]:
        """`new HashMap<>(map)`."""
        copy = cls(hash_of=hash_of)
        copy.put_all(entries)
        return copy

    def put_all(self, entries: Mapping[K, V]) -> None:
        self._keys.presize(len(entries))
        self._keys.add_all(entries)
        self._values.update(entries)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._keys.add(key)
        self._values[key] = value

    def __delitem__(self, key: K) -> None:
        del self._values[key]
        self._keys.discard(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._keys.order())

    def remove_while_iterating(self, key: K) -> None:
        """As `Iterator.remove`, `removeIf` and `keySet().removeAll` of a larger collection do; KeyError when absent."""
        del self._values[key]
        self._keys.remove_while_iterating(key)

    def __repr__(self) -> str:
        return f"JavaHashMap({list(self.items())!r})"
