"""A window store of bytes with a record cache; `caching` has the rules.

A key of the cache is the window key. What is read from the store is not kept in the cache. A window that has expired is
held back and forwarded like any other; the store drops it when it is written, and it can be read as long as it is in
the cache. Source: `CachingWindowStore`,
`SegmentedCacheFunction`. Differs from Kafka: ranges do not count as a use of what they read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import get_ident

from streams_runtime.state_stores.caching import CachingStore
from streams_runtime.state_stores.overlay import merged
from streams_runtime.state_stores.window_bytes import WindowBytesStore
from streams_runtime.state_stores.window_keys import SUFFIX_BYTES, suffix_of, window_key

_SEGMENT_BYTES = 8
"""In Kafka each key of the cache begins with the number of its segment."""


class CachingWindowStore(CachingStore[WindowBytesStore]):
    """`WindowBytesStore`, of a store without duplicates. `segment_interval_ms`: of the store below."""

    __slots__ = ("_segment_interval_ms",)

    def __init__(self, inner: WindowBytesStore, segment_interval_ms: int) -> None:
        super().__init__(inner, _SEGMENT_BYTES)
        self._segment_interval_ms = segment_interval_ms

    def read_below(self, key: bytes) -> bytes | None:
        return self._inner.fetch(key[:-SUFFIX_BYTES], suffix_of(key)[0])

    def write_below(self, key: bytes, value: bytes | None) -> None:
        self._inner.put(key[:-SUFFIX_BYTES], value, suffix_of(key)[0])

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> int | None:
        cache = self._cache
        if cache is None:
            return self._inner.put(key, value, start_ms)
        cached = window_key(key, start_ms, 0)
        self._check(cached, value)
        cache.put(cached, value, self._contexts.record_context())
        return 0

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        cache = self._cache
        if cache is None:
            return self._inner.fetch(key, start_ms)
        cached = window_key(key, start_ms, 0)
        # only what the task reads counts as used
        entry = cache.get(cached) if get_ident() == self._owner else cache.peek(cached)
        return self._inner.fetch(key, start_ms) if entry is None else entry[0]

    def fetch_range(self, key: bytes, from_ms: int, to_ms: int) -> Iterator[tuple[int, bytes]]:
        length = len(key) + SUFFIX_BYTES
        cached = self._cached(lambda each: len(each) == length and each.startswith(key), from_ms, to_ms)
        changed = {suffix_of(each)[0]: value for each, value in cached.items()}
        return merged(self._inner.fetch_range(key, from_ms, to_ms), changed)

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[bytes, int, bytes]]:
        cached = self._cached(lambda _key: True, from_ms, to_ms)
        stored = self._inner.fetch_all(from_ms, to_ms)
        if not cached:
            return stored
        interval_ms = self._segment_interval_ms  # a store gives its windows by segment, then by window key
        changed = {(suffix_of(key)[0] // interval_ms, key): value for key, value in cached.items()}
        placed = (((start_ms // interval_ms, window_key(key, start_ms, 0)), value) for key, start_ms, value in stored)
        return ((key[:-SUFFIX_BYTES], suffix_of(key)[0], value) for (_, key), value in merged(placed, changed))

    def _cached(self, is_wanted: Callable[[bytes], bool], from_ms: int, to_ms: int) -> dict[bytes, bytes | None]:
        """What is in the cache, also what the store has dropped since. It is asked before the store: what is flushed
        meanwhile is in both.
        """
        cache = self._cache
        if cache is None:
            return {}
        return {key: value for key, value in cache.items() if is_wanted(key) and from_ms <= suffix_of(key)[0] <= to_ms}
