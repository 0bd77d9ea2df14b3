"""The record caches of a stream thread. Each store has its own cache. All caches of a task are flushed together. All
caches of the thread share one size limit.

Rules:
- A key is dirty if its last change is not written yet. Dirty keys are flushed in the order of their last changes. A
  flush writes each key once.
- The least recently used value is evicted first. If this value is dirty, it is flushed before it is evicted. The flush
  also writes all other dirty keys of the same store; they stay in the cache.
- When the deletion of a key is flushed, the key is removed from the cache.
- Sizes are counted as in Kafka. So a cache with the same limit as in Kafka evicts the same values at the same time.
  Differs from Kafka: if the cache keeps an input record for an error handler, the cache counts the size of this record.
- A put evicts only from the cache of its own store. During a flush of a cache, a put into this cache evicts nothing.
  Such a put comes from an operator that gets a flushed change of a store, and writes to the same store. The next put
  after the flush evicts again.
- If a thread is added to the instance, the memory of the other threads shrinks, and their caches evict clean values.
  Dirty values become clean at the next commit. After the commit, a put or the thread's next pass can evict the clean
  values.
- Before a task commits, all its caches are flushed. The caches of other tasks are not flushed.

Only the task's thread may write to a cache. Any thread may read. A value is written to the store before it leaves the
cache or becomes clean. So after a reader has read a value, it never reads an older value of the same key. If a flush
fails, the unwritten values stay dirty, and the flush can be repeated.

Source: `ThreadCache`, `NamedCache`, `LRUCacheEntry`, `ProcessorStateManager.flushCache`,
`InternalProcessorContext.setRecordContext`.
Differs from Kafka: in Kafka, the caches are flushed at once when the thread's memory shrinks. In this project, a commit
flushes the caches of a task in rounds until no key is dirty. So the commit contains all changes that its records made.
Kafka flushes each store once. In Kafka, if a change reaches a store after the store's flush, the change waits for the
next commit. In this project, a change waits for the next commit only after `_MAX_FLUSH_ROUNDS` rounds. A commit needs
`_MAX_FLUSH_ROUNDS` rounds only if a processor responds to each change of a table with another change of the same table.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.records import Headers, RawRecord
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.logs.record_limits import BrokerChecks

ContextTuple = tuple[int, Headers, tuple[str, int] | None, int, RawRecord | None, int]
"""The type of a context: data about the record that makes a change. The items are the timestamp in milliseconds, the
headers, the topic with the partition, the offset, the input record, and a size. For a punctuation, the topic with the
partition is None, and the offset is -1. The input record is None if no error handler needs it. The size is the number
of bytes that the cache counts for the context: the size of the topic's name plus `extra_bytes`. The context is a plain
tuple, because each change needs one, and a plain tuple is fast. Source: `ProcessorRecordContext`.
"""
_POSITION = slice(2, 4)
"""The slice of a `ContextTuple` that contains the topic, partition and offset."""
_CONTEXT_BYTES: Final = 5

FlushListener = Callable[[bytes, bytes | None, bytes | None, ContextTuple], None]
"""The type of a function (cache key, new value, old value, context) that is called for each flushed change. The old
value is None if the listener needs no old values. The context belongs to the record that made the change.
"""

Entry = tuple[bytes | None, int]
"""The type of an entry: the value (None if the key was deleted) and the size in bytes."""
_VALUE: Final = 0
_SIZE: Final = 1

_ENTRY_OVERHEAD = 24 + 1 + 8 + 8 + 4
"""Kafka counts these bytes for each entry, in addition to its key, value, headers and topic. These bytes are for a
linked-list node, the dirty flag, and the record's timestamp, offset and partition.
"""

_MAX_FLUSH_ROUNDS = 100
"""The largest number of rounds of a flush. A round flushes each dirty cache of a task once. If processors change a key
in each round, the key is still dirty after the last round. Such a dirty key waits for the next commit.
"""


class RecordContexts(Protocol):
    """The present context of a task. Usually, the present context belongs to the record that the task is processing.
    During a flush, the present context belongs to the record that made the flushed change. While a record leaves a
    buffer, the present context belongs to this record.
    """

    def record_context(self) -> ContextTuple: ...

    def begin_flush(self) -> Any:
        """Returns the present context. The caller has to pass the result to `end_flush`."""

    def set_context(self, context: ContextTuple) -> None:
        """Makes `context` the present context until the next call of `set_context` or `end_flush`."""

    def end_flush(self, previous: Any) -> None:
        """Makes the previous context the present context again. `previous`: the result of `begin_flush`."""


class StoreBelow(Protocol):
    """The store below a cache. It is always a `ChangeLoggingStore`. Cache keys are the keys of the changelog."""

    always_accepted_bytes: int
    timestamp_checks: BrokerChecks
    """See `ChangeLoggingStore`."""

    def check(self, key: bytes, value: bytes | None) -> None:
        """Raises an error if the store or its changelog does not accept a change."""

    def read(self, key: bytes) -> bytes | None: ...

    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        """Puts and logs a change that `check` has accepted. `record_ms`: the timestamp of the record that made the
        change.
        """


class ThreadCache:
    """All caches of a stream thread, their total size, and the limit of this size. Only the stream thread uses this
    object.
    """

    __slots__ = ("_caches", "max_bytes", "size_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._caches: list[NamedCache] = []

    def add(self, cache: NamedCache) -> None:
        """Adds a cache, which shares the size limit with the other caches."""
        self._caches.append(cache)

    def remove(self, cache: NamedCache) -> None:
        """Drops a cache with all its values, including dirty values."""
        cache.clear()
        self._caches = [each for each in self._caches if each is not cache]

    def unflushed_bytes(self, entry_bytes: int) -> int:
        """Returns the approximate size of the changes that a flush of all caches would make in the stores.
        `entry_bytes`: the number of bytes that a store adds to each key and value.
        """
        return sum(cache.unflushed_bytes(entry_bytes) for cache in self._caches)

    def resize(self, max_bytes: int) -> None:
        """Sets the limit of the total size. Evicts clean values if the limit is exceeded, but flushes no value."""
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
        """Makes a cache for one store.

        `below`: the store below the cache. `key_overhead`: the number of bytes by which a cache key is longer in Kafka.
        This number is added to the size of each entry, so that sizes are the same as in Kafka. `caches_reads`: True if
        values that are read from the store below stay in the cache.
        """
        cache = NamedCache(self._thread, below, self.contexts, key_overhead=key_overhead, caches_reads=caches_reads)
        self._thread.add(cache)
        self._caches.append(cache)
        return cache

    def remove(self, cache: NamedCache) -> None:
        """Drops a cache with all its values, including dirty values."""
        self._thread.remove(cache)
        self._caches = [each for each in self._caches if each is not cache]

    @property
    def is_dirty(self) -> bool:
        return any(cache.has_dirty for cache in self._caches)

    def flush(self) -> None:
        """Forwards and writes all dirty values. After an error, the unwritten values stay dirty."""
        for _ in range(_MAX_FLUSH_ROUNDS):
            if not self.is_dirty:
                return
            for cache in self._caches:
                if cache.has_dirty:
                    cache.flush()


class NamedCache:
    """The cache of one store. A dirty value is a value that has not yet been written to the store. `TaskCache.add`
    makes the caches.
    """

    __slots__ = (
        "_below", "_caches_reads", "_contexts", "_dirty", "_entries", "_is_flushing", "_keys_of", "_last_used",
        "_listener", "_overhead", "_record_context", "_sends_old_values", "_size_bytes", "_suffix_bytes", "_thread",
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
        """The entries by key. The least recently used key comes first."""
        self._dirty: dict[bytes, ContextTuple] = {}
        """The dirty keys in the order of their last changes. Maps each key to the context of its last change."""
        self._last_used = b""
        """The most recently used key, which is the last key of `_entries` if it was not removed. If `put` gets the same
        key object, it does not have to move the entry to the end.
        """
        self._is_flushing = False
        self._size_bytes = 0
        self._suffix_bytes = 0
        self._keys_of: dict[bytes, list[bytes]] | None = None
        """Maps each record key to its sorted cache keys; None until `index_by_record_key`."""

    def index_by_record_key(self, suffix_bytes: int) -> None:
        """Makes `items_of` fast. `suffix_bytes`: the number of bytes of a cache key after the record key."""
        if self._keys_of is None:
            self._suffix_bytes, self._keys_of = suffix_bytes, {}
            for key in sorted(self._entries):
                self._keys_of.setdefault(key[:-suffix_bytes], []).append(key)

    def items_of(self, record_key: bytes, first: bytes, last: bytes) -> list[tuple[bytes, bytes | None]]:
        """Returns the cache keys and values of a record key. Any thread may call this method. `first`, `last`: the
        lowest and the highest cache key.
        """
        if self._keys_of is None:
            length = len(first)
            return self._values_of([key for key in list(self._entries) if len(key) == length and first <= key <= last])
        keys = self._keys_of.get(record_key)
        if keys is None:
            return []
        keys = keys.copy()  # because the task's thread may change the list
        return self._values_of(keys[bisect_left(keys, first) : bisect_right(keys, last)])

    def set_flush_listener(self, listener: FlushListener, *, sends_old_values: bool) -> None:
        """Sets the function that each flush calls for each flushed change, before it writes the change to the store."""
        self._listener = listener
        self._sends_old_values = sends_old_values

    # --- reading

    def get(self, key: bytes) -> bytes | None:
        """Returns the value of a key from the cache, or from the store below if the key is not in the cache. The call
        counts as a use of the key. Only the task's thread may call this method.

        If the cache also stores values that were read, `get` may have to evict another value. If that value has to be
        flushed, `get` raises the errors of the flush.
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
        """Returns the entry of a key, or None if the key is not in the cache. The call does not count as a use of the
        key. Any thread may call this method.
        """
        return self._entries.get(key)

    def changed_by_present_record(self, key: bytes) -> Entry | None:
        """Returns the entry of a dirty key if the record that is being processed has changed the key. Returns None for
        any other key.
        """
        context = self._dirty.get(key)
        if context is None or context[_POSITION] != self._record_context()[_POSITION]:
            return None
        return self._entries[key]

    @property
    def has_dirty(self) -> bool:
        return bool(self._dirty)

    def unflushed_bytes(self, entry_bytes: int) -> int:
        """See `ThreadCache.unflushed_bytes`. Each dirty value counts with the mean size of all values."""
        dirty = len(self._dirty)
        return dirty * (self._size_bytes // len(self._entries) + entry_bytes) if dirty else 0

    def items(self) -> list[tuple[bytes, bytes | None]]:
        """Returns all keys and values. Any thread may call this method."""
        return self._values_of(list(self._entries))

    def dirty_items(self, is_wanted: Callable[[bytes], bool]) -> dict[bytes, bytes | None]:
        """Returns the dirty keys for which the function `is_wanted` returns True, with their values. Any thread may
        call this method.
        """
        if not self._dirty:
            return {}
        return dict(self._values_of([key for key in list(self._dirty) if is_wanted(key)]))

    def _values_of(self, keys: list[bytes]) -> list[tuple[bytes, bytes | None]]:
        """Returns the keys with their values. If the task's thread has just removed a key, the key is missing in the
        result, but the store below has its value.
        """
        entries = [(key, self._entries.get(key)) for key in keys]
        return [(key, entry[_VALUE]) for key, entry in entries if entry is not None]

    # --- changing

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int = JAVA_LONG_MAX) -> None:
        """Puts a value under a key. The change belongs to the record that is being processed.

        `timestamp_ms`: the timestamp of the value. A caller that does not know the timestamp uses the default. With the
        default, `put` skips the check only if the changelog accepts every timestamp. If the check fails, `put` raises
        its error and changes nothing. `put` may have to evict values, and raises the errors of their flush. Even if the
        flush fails, the new value is in the cache.
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
                del dirty[key]  # `dirty[key] = context` will add the key at the end of `dirty`
        elif self._keys_of is not None:
            insort(self._keys_of.setdefault(key[: -self._suffix_bytes], []), key)
        self._last_used = key
        dirty[key] = context
        # The limit may be exceeded even if this put does not make the cache larger. For example, another cache forwards
        # a value before it evicts the value, and the forwarded value may lead to this put.
        if size or thread.size_bytes > thread.max_bytes:
            self._grow(size)

    def _grow(self, size: int) -> None:
        thread = self._thread
        self._size_bytes += size
        thread.size_bytes += size
        if thread.size_bytes > thread.max_bytes:
            self._make_room()

    def _make_room(self) -> None:
        """Evicts values of this cache until the thread's caches together are within the size limit, or until this cache
        is empty. Raises the errors of a flush.
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
                    continue  # an operator below has changed this key during the flush
            self._remove(key)

    def flush(self) -> None:
        """Forwards and writes the values that are dirty at the beginning of this call. After an error, the unwritten
        values stay dirty.
        """
        self._flush(list(self._dirty))

    def evict_clean(self) -> None:
        """Evicts clean values of this cache until the thread's caches together are within the size limit, or until this
        cache has no clean value.
        """
        for key in list(self._entries):
            if key in self._dirty:
                continue
            if self._thread.size_bytes <= self._thread.max_bytes:
                return
            self._remove(key)

    def clear(self) -> None:
        """Drops all values, including dirty values."""
        self._thread.size_bytes -= self._size_bytes
        self._size_bytes = 0
        self._dirty.clear()
        self._entries.clear()
        if self._keys_of is not None:
            self._keys_of.clear()

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
                # If both values are None, the key was put and deleted after the last flush, and nothing has to be
                # written.
                is_needed = value is not None or old is not None
            if is_needed:
                self._contexts.set_context(context)
                listener(key, value, old if self._sends_old_values else None, context)
        if is_needed:
            try:
                self._below.put_checked(key, value, context[0])
            # This time-out loses no change: the store has the change, and the record collector will send it to the
            # changelog.
            except LogTimeout as error:
                timeout = error
        # If the entries differ, an operator below has put a new entry during the flush.
        if self._entries[key] is entry:
            del self._dirty[key]
            if value is None:
                self._remove(key)
        if timeout is not None:
            raise timeout

    def _remove(self, key: bytes) -> None:
        size = self._entries.pop(key)[_SIZE]
        self._size_bytes -= size
        self._thread.size_bytes -= size
        if self._keys_of is not None:
            keys = self._keys_of[key[: -self._suffix_bytes]]
            del keys[bisect_left(keys, key)]
            if not keys:
                del self._keys_of[key[: -self._suffix_bytes]]


def extra_bytes(headers: Headers, raw: RawRecord | None) -> int:
    """Returns a size in bytes: the headers of a record, plus the input record that the cache keeps for an error
    handler.

    Differs from Kafka: the size includes the input record. In Kafka, each change keeps its input record, but the size
    of this record is not counted. If the records are large and their results are small, Kafka's cache may need many
    times more memory than `statestore.cache.max.bytes`.
    """
    size = sum(len(name) + (0 if value is None else len(value)) for name, value in headers)
    if raw is not None:
        size += (0 if raw.key is None else len(raw.key)) + (0 if raw.value is None else len(raw.value))
    return size
