"""A key-value store of bytes with a record cache: changes are written and forwarded when the cache is flushed.

Rules:
- Reads see the cache. What the task reads is kept in it; what other threads read is not.
- At a flush each changed key is written once, to the store and its changelog, with the record that changed it last. The
  flush listener hears of it, with the value that the store had since the flush before as the old one. A key that was
  put and deleted in between is not mentioned.
- Only a flush writes. The stores below are what a checkpoint, a standby and a restore know.
- In a standby, and in a task without a cache, it only passes on. A close drops what was not flushed.

Source: `CachingKeyValueStore`. Differs from Kafka: a change is written after it was forwarded, so that a flush that the
log interrupts can be tried again; a close never flushes; a range does not count as a use of what it reads; and a
reverse range leaves out what was deleted, which Kafka gives with null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import get_ident

from streams_runtime.records import RecordContext
from streams_runtime.state_stores.base import KeyValueStore, StoreContext
from streams_runtime.state_stores.named_cache import Entry, NamedCache, as_context
from streams_runtime.state_stores.overlay import Stored, merged
from streams_runtime.state_stores.task_cache import RecordContexts, TaskCache
from streams_runtime.state_stores.wrapped import WrappedStateStore

FlushListener = Callable[[bytes, bytes | None, bytes | None, RecordContext], None]
"""Key, new value, old value (None if it is not wanted), and the record that made the change."""


class CachingKeyValueStore(WrappedStateStore[KeyValueStore[bytes, bytes]]):
    """`KeyValueStore[bytes, bytes]`."""

    __slots__ = ("_cache", "_contexts", "_listener", "_owner", "_sends_old_values", "_task_cache")

    def __init__(self, inner: KeyValueStore[bytes, bytes]) -> None:
        super().__init__(inner)
        self._task_cache: TaskCache | None = None
        self._cache: NamedCache | None = None
        self._owner = 0  # the thread of the task
        self._forget_listener()

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
            self._task_cache = context.cache
            self._contexts: RecordContexts = context.cache.contexts
            self._owner = get_ident()
            self._cache = context.cache.add(self._write)

    def _unbind(self) -> None:
        cache, self._cache = self._cache, None
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
        if self._cache is None:
            return False
        self._listener = listener
        self._sends_old_values = sends_old_values
        return True

    def _write(self, key: bytes, entry: Entry) -> None:
        value, made_by, _ = entry
        assert made_by is not None, "a value that was only read is not dirty"
        context = as_context(made_by)
        inner, listener = self._inner, self._listener
        old = None
        if listener is not None and (value is None or self._sends_old_values):
            old = inner.get(key)
            if value is None and old is None:
                return
        contexts = self._contexts
        before = contexts.enter_context(context)
        try:
            if listener is not None:
                listener(key, value, old if self._sends_old_values else None, context)
            inner.put(key, value)
        finally:
            contexts.leave_context(before)

    @property
    def has_cache(self) -> bool:
        """Whether changes are held back now."""
        return self._cache is not None

    @property
    def held(self) -> NamedCache:
        """What is held back. The same object as long as there is a cache."""
        assert self._cache is not None, "only a store with a cache is asked for it"
        return self._cache

    # --- changes

    def put(self, key: bytes, value: bytes | None) -> None:
        cache = self._cache
        if cache is None:
            self._inner.put(key, value)
        else:
            cache.put(key, value, self._contexts.record_context())

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        if self._cache is None:
            return self._inner.put_if_absent(key, value)
        present = self.get(key)
        if present is None:
            self.put(key, value)
        return present

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        if self._cache is None:
            self._inner.put_all(entries)
        else:
            for key, value in entries:
                self.put(key, value)

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
        entry = cache.entries.get(key)
        if entry is not None:
            if get_ident() == self._owner:
                cache.entries.move_to_end(key)
            return entry[0]
        value = self._inner.get(key)
        if value is not None and get_ident() == self._owner:
            cache.put_clean(key, value)
        return value

    def range(self, start: bytes | None, end: bytes | None) -> Iterator[Stored]:
        changed = self._changed(lambda key: (start is None or key >= start) and (end is None or key <= end))
        return merged(self._inner.range(start, end), changed)

    def reverse_range(self, start: bytes | None, end: bytes | None) -> Iterator[Stored]:
        changed = self._changed(lambda key: (start is None or key >= start) and (end is None or key <= end))
        return merged(self._inner.reverse_range(start, end), changed, reverse=True)

    def all(self) -> Iterator[Stored]:
        changed = self._changed(lambda _key: True)
        return merged(self._inner.all(), changed)

    def prefix_scan(self, prefix: bytes) -> Iterator[Stored]:
        changed = self._changed(lambda key: key.startswith(prefix))
        return merged(self._inner.prefix_scan(prefix), changed)

    def approximate_num_entries(self) -> int:
        """Of the store, without what its cache holds back."""
        return self._inner.approximate_num_entries()

    def _changed(self, is_wanted: Callable[[bytes], bool]) -> dict[bytes, bytes | None]:
        """What the store does not have yet. It is asked before the store: what is flushed meanwhile is in both."""
        cache = self._cache
        if cache is None or not cache.dirty:
            return {}
        entries = cache.entries
        dirty = [(key, entries.get(key)) for key in list(cache.dirty) if is_wanted(key)]
        return {key: entry[0] for key, entry in dirty if entry is not None}
