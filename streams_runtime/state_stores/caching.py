"""Stores of bytes with a record cache: changes are written and forwarded when the cache is flushed.

Rules:
- A change that the changelog would not take is refused when it is put, as without a cache: it is the record that makes
  it which fails, and the handler of processing errors decides.
- Reads see the cache. What other threads read is not kept in it.
- At a flush each changed key is written once, to the store and its changelog, with the record that changed it last. The
  flush listener hears of it, with the value that the store had since the flush before as the old one. A key that was
  put and deleted in between is not mentioned.
- Only a flush writes. The stores below are what a checkpoint, a standby and a restore know.
- In a standby, and in a task without a cache, it only passes on. A close drops what was not flushed.

Source: `CachedStateStore`, `CachingKeyValueStore`, `CachingWindowStore`, `SegmentedCacheFunction`. Differs from Kafka:
a change is written after it was forwarded, so that a flush that the log interrupts can be tried again; and a close
never flushes. A range does not count as a use of what it reads, and a reverse range leaves out what was deleted, which
Kafka gives with null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, TypeVar

from streams_runtime.state_stores.base import Entries, StoreContext, WrappedStateStore
from streams_runtime.state_stores.change_logging import (
    ChangeLoggingKeyValueBytesStore,
    ChangeLoggingStore,
    ChangeLoggingWindowBytesStore,
)
from streams_runtime.state_stores.key_ranges import is_within, merged
from streams_runtime.state_stores.thread_cache import MadeBy, NamedCache, TaskCache
from streams_runtime.state_stores.window_keys import SUFFIX_BYTES, suffix_of, window_key

FlushListener = Callable[[bytes, bytes | None, bytes | None, MadeBy], None]
"""Key in the cache, new value, old value (None if it is not wanted), and the record that made the change."""

Logging = TypeVar("Logging", bound=ChangeLoggingStore[Any])

_SEGMENT_BYTES = 8
"""In Kafka each key of a window store's cache begins with the number of its segment."""


class CachingStore(WrappedStateStore[Logging], ABC):
    """`cache`: None in a standby, and in a task without a cache."""

    __slots__ = ("_listener", "_owner", "_sends_old_values", "_task_cache", "cache")

    key_overhead = 0
    """See `CachedStore`."""
    keeps_reads = False

    def __init__(self, inner: Logging) -> None:
        super().__init__(inner)
        self._task_cache: TaskCache | None = None
        self.cache: NamedCache | None = None
        self._owner = 0  # the thread of the task
        self._forget_listener()

    @abstractmethod
    def read_below(self, key: bytes) -> bytes | None:
        """What the store has under this key of the cache."""

    # --- its life

    def open(self, context: StoreContext) -> None:
        super().open(context)
        self._bind(context)

    def rebind(self, context: StoreContext) -> None:
        super().rebind(context)
        self._unbind()
        self._bind(context)

    def close(self) -> None:
        self._unbind()
        super().close()

    def _bind(self, context: StoreContext) -> None:
        if context.cache is not None:
            self._owner = get_ident()
            self._task_cache = context.cache
            self.cache = context.cache.add(self, self._inner)

    def _unbind(self) -> None:
        cache, self.cache = self.cache, None
        if cache is not None and self._task_cache is not None:
            self._task_cache.remove(cache)
        self._task_cache = None
        self._forget_listener()

    def _forget_listener(self) -> None:
        self._listener: FlushListener | None = None
        self._sends_old_values = False

    # --- flushing

    def set_flush_listener(self, listener: FlushListener, *, sends_old_values: bool) -> bool:
        """Call it for each change that is flushed, from now to the close. False when there is no cache here."""
        if self.cache is None:
            return False
        self._listener = listener
        self._sends_old_values = sends_old_values
        return True

    def write(self, key: bytes, value: bytes | None, made_by: MadeBy) -> None:
        """Forward a change of the cache, and write it."""
        listener = self._listener
        old = None
        if listener is not None and (value is None or self._sends_old_values):
            old = self.read_below(key)
            if value is None and old is None:
                return
        if listener is not None:
            listener(key, value, old if self._sends_old_values else None, made_by)
        self._inner.put_checked(key, value)

    # --- reads

    def _read(self, cache: NamedCache, key: bytes) -> bytes | None:
        """From any thread; only the task's reads count as uses. `key`: of the cache."""
        if get_ident() == self._owner:
            return cache.get(key)
        entry = cache.peek(key)
        return self.read_below(key) if entry is None else entry[0]


class CachingKeyValueStore(CachingStore[ChangeLoggingKeyValueBytesStore]):
    """`KeyValueBytesStore`. What the task reads is kept in the cache."""

    __slots__ = ()

    keeps_reads = True

    def read_below(self, key: bytes) -> bytes | None:
        return self._inner.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        if self.cache is None:
            self._inner.put(key, value)
        else:
            self.cache.put(key, value)

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        if self.cache is None:
            self._inner.put_all(entries)
            return
        for key, value in entries:  # so that none is put where one cannot be
            self._inner.check(key, value)
        for key, value in entries:
            self.cache.put(key, value)

    def get(self, key: bytes) -> bytes | None:
        cache = self.cache  # the task may close it meanwhile
        return self._inner.get(key) if cache is None else self._read(cache, key)

    def get_flushed(self, key: bytes) -> bytes | None:
        """As `get`, without what the cache holds back of other records than the present one."""
        if self.cache is not None and (entry := self.cache.made_by_present_record(key)) is not None:
            return entry[0]
        return self._inner.get(key)

    def scan(self, start: bytes | None, before: bytes | None, *, reverse: bool = False) -> Entries:
        cache = self.cache
        # the cache is asked before the store: what is flushed meanwhile is in both
        changed = {} if cache is None else cache.dirty_items(is_within(start, before))
        return merged(self._inner.scan(start, before, reverse=reverse), changed, reverse=reverse)

    def approximate_num_entries(self) -> int:
        """Of the store, without what its cache holds back."""
        return self._inner.approximate_num_entries()


class CachingWindowStore(CachingStore[ChangeLoggingWindowBytesStore]):
    """`WindowBytesStore`, of a store without duplicates. `segment_interval_ms`: of the store below.

    A key of the cache is the window key. What is read from the store is not kept in the cache. A window that has
    expired is held back and forwarded like any other; the store drops it when it is written, and it can be read as long
    as it is in the cache.
    """

    __slots__ = ("_segment_interval_ms",)

    key_overhead = _SEGMENT_BYTES

    def __init__(self, inner: ChangeLoggingWindowBytesStore, segment_interval_ms: int) -> None:
        super().__init__(inner)
        self._segment_interval_ms = segment_interval_ms

    def read_below(self, key: bytes) -> bytes | None:
        return self._inner.fetch(key, suffix_of(key)[0])

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> int | None:
        if self.cache is None:
            return self._inner.put(key, value, start_ms)
        self.cache.put(key, value)
        return 0

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        cache = self.cache
        if cache is None:
            return self._inner.fetch(key, start_ms)
        return self._read(cache, key)

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
        cache = self.cache
        if cache is None:
            return {}
        return {key: value for key, value in cache.items() if is_wanted(key) and from_ms <= suffix_of(key)[0] <= to_ms}
