"""The record caches of a stream thread. Each store has its own cache. A task flushes the caches of its stores together,
and all caches of the thread share one size limit.

Rules:
- Dirty keys are flushed in the order of their last changes, and a flush writes each key once.
- The least recently used value is evicted first. If this value is dirty, it is flushed before it is evicted. The flush
  also writes all other dirty keys of its store, which stay in the cache.
- A deleted key leaves the cache when its deletion is flushed.
- Sizes are counted as in Kafka, so that a cache with the same limit as in Kafka evicts values at the same records.
  Differs from Kafka: the size of an input record that is kept for an error handler is counted as well.
- A put evicts only from the cache of its own store. While a cache is being flushed, a put into this cache evicts
  nothing. A put during the flush happens if a downstream operator writes to the store whose change it receives. The
  next put after the flush evicts again.
- When the thread's share of the memory shrinks because a thread was added to the instance, all caches evict their clean
  values. The dirty values become clean at the next commit. After the commit, the values that were dirty are evicted in
  the thread's next pass, or by an earlier put.
- Before a task commits, all caches of this task are flushed together. The caches of other tasks are not flushed.

Only the task's thread may write to a cache. Any thread may read. A value is written to the store before it leaves the
cache or becomes clean. So after a reader has read a value, it never reads an older value of the same key. If a flush
fails, the values that were not written stay dirty, and the flush can be repeated.

Source: `ThreadCache`, `NamedCache`, `LRUCacheEntry`, `ProcessorStateManager.flushCache`,
`InternalProcessorContext.setRecordContext`.
Differs from Kafka: in Kafka the caches are flushed at once when the thread's share shrinks. Here, a commit flushes the
caches of a task again and again until no key is dirty, so that the commit contains all changes that its records made.
Kafka flushes each store once, so a change that reaches a store after the store's flush waits for the next commit. Here,
a change waits for the next commit only if a processor reacts to each change of a table with one more change of the same
table (see `_MAX_FLUSH_ROUNDS`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.records import Headers, RawRecord
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.logs.record_limits import BrokerChecks

ContextTuple = tuple[int, Headers, tuple[str, int] | None, int, RawRecord | None, int]
"""The context of the record that makes a change. The first items of the context are timestamp in milliseconds, headers,
topic and partition (None for a punctuation), and offset (-1 for a punctuation). The next item of the context is the
input record, or None if no error handler may ask for the input record. The last item of the context is the number of
bytes that the cache counts for the context: the topic's name and the `extra_bytes`. The context is a plain tuple for
speed, because each change needs a context. Source: `ProcessorRecordContext`.
"""
_POSITION = slice(2, 4)
"""Topic, partition and offset in a `ContextTuple`."""
_CONTEXT_BYTES: Final = 5

FlushListener = Callable[[bytes, bytes | None, bytes | None, ContextTuple], None]
"""A function that is called for a flushed change. The arguments are the cache key, the new value, the old value (None
if the listener needs no old values), and the context of the record that made the change.
"""

Entry = tuple[bytes | None, int]
"""The value (None if the key was deleted), and the size in bytes."""
_VALUE: Final = 0
_SIZE: Final = 1

_ENTRY_OVERHEAD = 24 + 1 + 8 + 8 + 4
"""The bytes that Kafka counts for each entry in addition to key, value, headers and topic: a node of a linked list, the
dirty flag, and the record's timestamp, offset and partition.
"""

_MAX_FLUSH_ROUNDS = 100
"""The largest number of rounds of a flush. A round flushes each dirty cache of a task once. Keys that are still dirty
after the last round wait for the next commit. Keys stay dirty if processors change them again in each round.
"""


class RecordContexts(Protocol):
    """The context of the record that a task is processing. During a flush, the context is that of the record that made
    the change.
    """

    def record_context(self) -> ContextTuple: ...

    def begin_flush(self) -> Any:
        """Returns the present context, to pass to `end_flush`."""

    def set_context(self, context: ContextTuple) -> None:
        """Make `context` the present context, until the next call of `set_context` or `end_flush`."""

    def end_flush(self, previous: Any) -> None:
        """Make the context from before the flush the present context again."""


class StoreBelow(Protocol):
    """The store below a cache, with the changelog: a `ChangeLoggingStore`. Cache keys are the keys of the changelog."""

    always_accepted_bytes: int
    timestamp_checks: BrokerChecks
    """See `ChangeLoggingStore`."""

    def check(self, key: bytes, value: bytes | None) -> None:
        """Raise an error for a change that the store or its changelog does not accept."""

    def read(self, key: bytes) -> bytes | None: ...

    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        """Put and log a change that `check` has accepted. `record_ms`: timestamp of the record that made the change."""


class ThreadCache:
    """All caches of a stream thread, with their total size and its limit. Only the stream thread uses its
    `ThreadCache`.
    """

    __slots__ = ("_caches", "max_bytes", "size_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._caches: list[NamedCache] = []

    def add(self, cache: NamedCache) -> None:
        """Add a cache, which shares the size limit."""
        self._caches.append(cache)

    def remove(self, cache: NamedCache) -> None:
        """Drop a cache with all its values, including dirty values."""
        cache.clear()
        self._caches = [each for each in self._caches if each is not cache]

    def resize(self, max_bytes: int) -> None:
        """Set the limit of the total size. Clean values are evicted if needed, but no value is flushed."""
        self.max_bytes = max_bytes
        if self.size_bytes > max_bytes:
            for cache in self._caches:
                cache.evict_clean()


class TaskCache:
    """The caches of one active task. `contexts`: the contexts of the task's records."""

    __slots__ = ("_caches", "_thread", "contexts")

    def __init__(self, thread: ThreadCache, contexts: RecordContexts) -> None:
        self.contexts = contexts
        self._thread = thread
        self._caches: list[NamedCache] = []

    def add(self, below: StoreBelow, *, key_overhead: int, caches_reads: bool) -> NamedCache:
        """Make a cache for one store.

        `below`: the store below the cache. `key_overhead`: the number of bytes by which a cache key is longer in Kafka.
        The cache counts the additional bytes, as Kafka does. `caches_reads`: True if values that are read from `below`
        stay in the cache.
        """
        cache = NamedCache(self._thread, below, self.contexts, key_overhead=key_overhead, caches_reads=caches_reads)
        self._thread.add(cache)
        self._caches.append(cache)
        return cache

    def remove(self, cache: NamedCache) -> None:
        """Drop a cache with all its values, including dirty values."""
        self._thread.remove(cache)
        self._caches = [each for each in self._caches if each is not cache]

    @property
    def is_dirty(self) -> bool:
        return any(cache.has_dirty for cache in self._caches)

    def flush(self) -> None:
        """Forward and write all dirty values. After an error, the values that were not written stay dirty."""
        for _ in range(_MAX_FLUSH_ROUNDS):
            if not self.is_dirty:
                return
            for cache in self._caches:
                if cache.has_dirty:
                    cache.flush()


class NamedCache:
    """The cache of one store: values by key. A dirty value is not yet written to the store. `TaskCache.add` makes the
    caches.
    """

    __slots__ = (
        "_below", "_caches_reads", "_contexts", "_dirty", "_entries", "_is_flushing", "_last_used", "_listener",
        "_overhead", "_record_context", "_sends_old_values", "_size_bytes", "_thread",
    )  # fmt: skip

    def __init__(
        self, thread: ThreadCache, below: StoreBelow, contexts: RecordContexts, *, key_overhead: int, caches_reads: bool
    ) -> None:
        self._thread = thread
        self._below = below
        self._contexts = contexts
        self._record_context = contexts.record_context
        self._overhead = _ENTRY_OVERHEAD + key_overhead
        self._caches_reads = caches_reads
        self._listener: FlushListener | None = None
        self._sends_old_values = False
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        """The entries by key. The least recently used key is the first."""
        self._dirty: dict[bytes, ContextTuple] = {}
        """The dirty keys in the order of their last changes, each with the context of its last change."""
        self._last_used = b""
        """The last key of `_entries`, unless this key was removed. A `put` that follows a `get` of the same key
        compares the key with `_last_used`, and does not have to move the entry.
        """
        self._is_flushing = False
        self._size_bytes = 0

    def set_flush_listener(self, listener: FlushListener, *, sends_old_values: bool) -> None:
        """At each flush, call `listener` for each flushed change, before the change is written to the store."""
        self._listener = listener
        self._sends_old_values = sends_old_values

    # --- reading

    def get(self, key: bytes) -> bytes | None:
        """Returns the value in the cache or, if the key is not in the cache, the value in the store below. The call
        counts as a use of the key. Only the task's thread may call this method.

        If values that were read stay in the cache, `get` may evict a value. If the evicted value has to be flushed
        first, `get` raises the errors of the flush.
        """
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            self._last_used = key
            return entry[_VALUE]
        value = self._below.read(key)
        if value is not None and self._caches_reads:
            size = self._overhead + len(key) + len(value)
            self._entries[key] = (value, size)
            self._last_used = key
            self._grow(size)
        return value

    def peek(self, key: bytes) -> Entry | None:
        """Returns the entry of a key. The call does not count as a use of the key. Any thread may call this method."""
        return self._entries.get(key)

    def changed_by_present_record(self, key: bytes) -> Entry | None:
        """Returns the entry of a key if the key is dirty and its last change was made by the record that is being
        processed.
        """
        context = self._dirty.get(key)
        if context is None or context[_POSITION] != self._record_context()[_POSITION]:
            return None
        return self._entries[key]

    @property
    def has_dirty(self) -> bool:
        return bool(self._dirty)

    def items(self) -> list[tuple[bytes, bytes | None]]:
        """Returns all keys and values. Any thread may call this method."""
        return self._values_of(list(self._entries))

    def dirty_items(self, is_wanted: Callable[[bytes], bool]) -> dict[bytes, bytes | None]:
        """Returns the dirty keys for which `is_wanted` is True, with their values. Any thread may call this method."""
        if not self._dirty:
            return {}
        return dict(self._values_of([key for key in list(self._dirty) if is_wanted(key)]))

    def _values_of(self, keys: list[bytes]) -> list[tuple[bytes, bytes | None]]:
        """Returns the entries of the keys, without keys that the task's thread has removed meanwhile. The store below
        has the values of the removed keys.
        """
        entries = [(key, self._entries.get(key)) for key in keys]
        return [(key, entry[_VALUE]) for key, entry in entries if entry is not None]

    # --- changing

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int = JAVA_LONG_MAX) -> None:
        """Put a value under a key, as a change by the record that is being processed.

        `timestamp_ms`: the timestamp of the value. A caller that does not know the timestamp uses the default, with
        which the change is always checked. If the check fails, `put` raises its error and changes nothing. `put` may
        evict values, and raises the errors of their flush. After an error of the flush, the new value is in the cache
        all the same.
        """
        below = self._below
        length = len(key) if value is None else len(key) + len(value)
        if (
            value is None
            or length > below.always_accepted_bytes
            or timestamp_ms > below.timestamp_checks.accepted_to_ms
        ):
            below.check(key, value)
        context = self._record_context()
        size = length + self._overhead + context[_CONTEXT_BYTES]
        entries, dirty, thread = self._entries, self._dirty, self._thread
        previous = entries.get(key)
        entries[key] = (value, size)
        if previous is not None:
            if key is not self._last_used:
                entries.move_to_end(key)
            size -= previous[_SIZE]
            if key in dirty:
                del dirty[key]  # the changed key moves to the end of `dirty`
        self._last_used = key
        dirty[key] = context
        # The limit may be exceeded even if this put does not make the cache larger. For example, when a second cache
        # evicts a value, it forwards the value before it removes the value, and the forwarded value may lead to this
        # put.
        if size or thread.size_bytes > thread.max_bytes:
            self._grow(size)

    def _grow(self, size: int) -> None:
        thread = self._thread
        self._size_bytes += size
        thread.size_bytes += size
        if thread.size_bytes > thread.max_bytes:
            self._make_room()

    def _make_room(self) -> None:
        """Evict values of this cache until all caches of the thread together fit the limit, or until this cache is
        empty. Raises the errors of a flush.
        """
        if self._is_flushing:
            return
        thread, entries, dirty = self._thread, self._entries, self._dirty
        while thread.size_bytes > thread.max_bytes and entries:
            key = next(iter(entries))
            if key in dirty:
                entry = entries[key]
                self._flush([key, *(other for other in dirty if other != key)])
                if key in dirty or entries.get(key) is not entry:
                    continue  # during the flush, a downstream operator has changed this key again
            self._remove(key)

    def flush(self) -> None:
        """Forward and write the values that are dirty at the beginning of this call. After an error, the values that
        were not written stay dirty.
        """
        self._flush(list(self._dirty))

    def evict_clean(self) -> None:
        """Evict clean values of this cache until all caches of the thread together fit the limit, or until this cache
        has no clean value.
        """
        for key in list(self._entries):
            if key in self._dirty:
                continue
            if self._thread.size_bytes <= self._thread.max_bytes:
                return
            self._remove(key)

    def clear(self) -> None:
        """Drop all values, including dirty values."""
        self._thread.size_bytes -= self._size_bytes
        self._size_bytes = 0
        self._dirty.clear()
        self._entries.clear()

    def _flush(self, keys: list[bytes]) -> None:
        self._is_flushing = True
        previous = self._contexts.begin_flush()
        try:
            for key in keys:
                self._flush_one(key, self._entries[key], self._dirty[key])
        finally:
            self._is_flushing = False
            self._contexts.end_flush(previous)

    def _flush_one(self, key: bytes, entry: Entry, context: ContextTuple) -> None:
        listener, value, old = self._listener, entry[_VALUE], None
        is_needed, timeout = True, None
        if listener is not None:
            if value is None or self._sends_old_values:
                old = self._below.read(key)
                # if there is neither a value nor an old value, the key was put and deleted since the last flush
                is_needed = value is not None or old is not None
            if is_needed:
                self._contexts.set_context(context)
                listener(key, value, old if self._sends_old_values else None, context)
        if is_needed:
            try:
                self._below.put_checked(key, value, context[0])
            # after the time-out no change is lost: the store has the change, and the record collector sends it to the
            # changelog later
            except LogTimeout as error:
                timeout = error
        if self._entries[key] is entry:  # if the entry is a new one, a downstream operator has put it during the flush
            del self._dirty[key]
            if value is None:
                self._remove(key)
        if timeout is not None:
            raise timeout

    def _remove(self, key: bytes) -> None:
        size = self._entries.pop(key)[_SIZE]
        self._size_bytes -= size
        self._thread.size_bytes -= size


def extra_bytes(headers: Headers, raw: RawRecord | None) -> int:
    """Returns the size in bytes of a record's headers and of the input record that is kept for an error handler.

    Differs from Kafka: the input record is counted. In Kafka each change keeps its input record, whatever the handler
    is, but the size of the input record is not counted. So in Kafka a cache with small results of large records takes
    many times `statestore.cache.max.bytes`.
    """
    size = sum(len(name) + (0 if value is None else len(value)) for name, value in headers)
    if raw is not None:
        size += (0 if raw.key is None else len(raw.key)) + (0 if raw.value is None else len(raw.value))
    return size
