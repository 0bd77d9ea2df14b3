"""Read-only views of stores, for callers outside the task. Any thread may read while the task writes, flushes or closes
the store.

After a close the reads raise InvalidStateStore. Source: `QueryableStoreType`, `ReadOnlyKeyValueStoreFacade`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, overload

from streams_runtime.state_stores.key_value import SerdesKeyValueStore
from streams_runtime.state_stores.state_store import (
    KeyValueStore,
    ReadOnlyKeyValueStore,
    ReadOnlyWindowStore,
    WindowStore,
)
from streams_runtime.state_stores.window import SerdesWindowStore

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyKeyValueView(Generic[K, V]):
    """`ReadOnlyKeyValueStore[K, V]`."""

    __slots__ = ("_store",)

    def __init__(self, store: KeyValueStore[K, V]) -> None:
        self._store = store

    def get(self, key: K) -> V | None:
        return self._store.get(key)

    def range(self, start: K | None, end: K | None) -> Iterator[tuple[K, V]]:
        return self._store.range(start, end)

    def reverse_range(self, start: K | None, end: K | None) -> Iterator[tuple[K, V]]:
        return self._store.reverse_range(start, end)

    def all(self) -> Iterator[tuple[K, V]]:
        return self._store.all()

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[K, V]]:
        return self._store.prefix_scan(prefix)

    def approximate_num_entries(self) -> int:
        return self._store.approximate_num_entries()


class ReadOnlyWindowView(Generic[K, V]):
    """`ReadOnlyWindowStore[K, V]`."""

    __slots__ = ("_store",)

    def __init__(self, store: WindowStore[K, V]) -> None:
        self._store = store

    def fetch(self, key: K, start_ms: int) -> V | None:
        return self._store.fetch(key, start_ms)

    def fetch_range(self, key: K, from_ms: int, to_ms: int) -> Iterator[tuple[int, V]]:
        return self._store.fetch_range(key, from_ms, to_ms)


@overload
def read_only_view(store: SerdesKeyValueStore[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
@overload
def read_only_view(store: SerdesWindowStore[K, V]) -> ReadOnlyWindowStore[K, V]: ...
def read_only_view(
    store: SerdesKeyValueStore[K, V] | SerdesWindowStore[K, V],
) -> ReadOnlyKeyValueStore[K, V] | ReadOnlyWindowStore[K, V]:
    """A view of a store that a builder of this package made."""
    return ReadOnlyWindowView(store) if isinstance(store, SerdesWindowStore) else ReadOnlyKeyValueView(store)
