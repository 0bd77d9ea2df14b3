"""A mapping that iterates in the order of a `java.util.HashMap`. Source: `HashMap` of Java 17."""

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TypeVar

from assignor.java.hash_codes import java_hash
from assignor.java.order import DEFAULT_INITIAL_CAPACITY, JavaHashSet
from assignor.java.tree_bin import K

V = TypeVar("V")


class JavaHashMap(MutableMapping[K, V]):
    """A `java.util.HashMap`. An iteration yields the keys that the map has when the iteration starts.

    `items` are put into the map one after the other, as by `update`. The keys have the same order as in a
    `JavaHashSet`.
    """

    __slots__ = ("_keys", "_values")

    def __init__(
        self,
        items: Iterable[tuple[K, V]] = (),
        *,
        initial_capacity: int = DEFAULT_INITIAL_CAPACITY,
        hash_of: Callable[[K], int] = java_hash,
    ) -> None:
        self._values: dict[K, V] = dict(items)
        self._keys = JavaHashSet(self._values, initial_capacity=initial_capacity, hash_of=hash_of)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._keys.add(key)
        self._values[key] = value

    def compute_if_absent(self, key: K, value: V) -> None:
        """If the map lacks the key, adds the entry as `computeIfAbsent` does. The order of the keys after
        `compute_if_absent` can differ from the order after `put`: see `JavaHashSet.compute_if_absent`.
        """
        self._keys.compute_if_absent(key)
        self._values.setdefault(key, value)

    def __delitem__(self, key: K) -> None:
        del self._values[key]
        self._keys.discard(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._keys.order())

    def __repr__(self) -> str:
        return f"JavaHashMap({list(self.items())!r})"
