"""A key-value store of bytes with a record cache; `caching` has the rules.

What the task reads is kept in the cache. Source: `CachingKeyValueStore`. Differs from Kafka: a range does not count as
a use of what it reads, and a reverse range leaves out what was deleted, which Kafka gives with null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import get_ident

from streams_runtime.state_stores.base import KeyValueStore
from streams_runtime.state_stores.caching import CachingStore
from streams_runtime.state_stores.overlay import Stored, merged


class CachingKeyValueStore(CachingStore[KeyValueStore[bytes, bytes]]):
    """`KeyValueStore[bytes, bytes]`."""

    __slots__ = ()

    def read_below(self, key: bytes) -> bytes | None:
        return self._inner.get(key)

    def write_below(self, key: bytes, value: bytes | None) -> None:
        self._inner.put(key, value)

    # --- changes

    def put(self, key: bytes, value: bytes | None) -> None:
        cache = self._cache
        if cache is None:
            self._inner.put(key, value)
        else:
            self._check(key, value)
            cache.put(key, value, self._contexts.record_context())

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        if self._cache is None:
            return self._inner.put_if_absent(key, value)
        present = self.get(key)
        if present is None:
            self.put(key, value)
        return present

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        cache = self._cache
        if cache is None:
            self._inner.put_all(entries)
            return
        for key, value in entries:
            self._check(key, value)
        context = self._contexts.record_context()
        for key, value in entries:
            cache.put(key, value, context)

    def put_many(self, keys: Iterable[bytes], values: Iterable[bytes | None]) -> None:
        if self._cache is None:
            self._inner.put_many(keys, values)
        else:
            self.put_all(list(zip(keys, values, strict=True)))

    def delete(self, key: bytes) -> bytes | None:
        if self._cache is None:
            return self._inner.delete(key)
        present = self.get(key)
        self.put(key, None)
        return present

    # --- reads

    def get(self, key: bytes) -> bytes | None:
        cache = self._cache
        if cache is None:
            return self._inner.get(key)
        if get_ident() != self._owner:  # only what the task reads counts as used, and is kept
            entry = cache.peek(key)
            return self._inner.get(key) if entry is None else entry[0]
        entry = cache.get(key)
        if entry is not None:
            return entry[0]
        value = self._inner.get(key)
        if value is not None:
            cache.put_clean(key, value)
        return value

    def get_flushed(self, key: bytes) -> bytes | None:
        """As `get`, without what the cache holds back of other records than the present one."""
        cache = self._cache
        if cache is not None and cache.is_dirty(key):
            entry = cache.peek(key)
            assert entry is not None, "what is dirty is in the cache"
            made_by = entry[1]
            if made_by is not None and made_by.metadata == self._contexts.record_context().metadata:
                return entry[0]
        return self._inner.get(key)

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        return self._inner.get_many(keys) if self._cache is None else list(map(self.get, keys))

    def range(self, start: bytes | None, end: bytes | None) -> Iterator[Stored]:
        changed = self._held_back(lambda key: (start is None or key >= start) and (end is None or key <= end))
        return merged(self._inner.range(start, end), changed)

    def reverse_range(self, start: bytes | None, end: bytes | None) -> Iterator[Stored]:
        changed = self._held_back(lambda key: (start is None or key >= start) and (end is None or key <= end))
        return merged(self._inner.reverse_range(start, end), changed, reverse=True)

    def all(self) -> Iterator[Stored]:
        changed = self._held_back(lambda _key: True)
        return merged(self._inner.all(), changed)

    def prefix_scan(self, prefix: bytes) -> Iterator[Stored]:
        changed = self._held_back(lambda key: key.startswith(prefix))
        return merged(self._inner.prefix_scan(prefix), changed)

    def approximate_num_entries(self) -> int:
        """Of the store, without what its cache holds back."""
        return self._inner.approximate_num_entries()

    def _held_back(self, is_wanted: Callable[[bytes], bool]) -> dict[bytes, bytes | None]:
        """What the store does not have yet. It is asked before the store: what is flushed meanwhile is in both."""
        return {} if self._cache is None else self._cache.dirty_items(is_wanted)
