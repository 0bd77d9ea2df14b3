"""The record caches of a stream thread: one for each store of a task, flushed by task, with a size for the thread.

Rules:
- Dirty keys are flushed in the order of their last change, and a flush writes each of them once.
- The value that was not used for the longest time is evicted first. If it is dirty, it is flushed, and then all other
  dirty keys of this store are flushed, too, and stay in the cache.
- A key that was deleted leaves the cache when that is flushed.
- Sizes are counted as Kafka counts them, so that a cache of the same size evicts at the same record; an input record
  that is kept for a handler of errors counts as well.
- A store that puts makes room by evicting from its own cache only. When the thread's share shrinks, because the
  instance got another thread, all caches let go of what is not dirty; what is dirty follows at the next commit.
- The caches of a task are flushed together before a commit, and no others with them.

The task's thread writes; any thread may read. A value is written before it leaves the cache or counts as clean, so
that a reader never sees the value before it again; so does a flush that failed, which can be tried again.

Which value was not used for the longest time is asked only when the cache is full. So a use costs a number and no place
in a list: values are put in order of these numbers when the first is evicted, and again when all of that order are gone
or were used since.

Source: `ThreadCache`, `NamedCache`, `LRUCacheEntry`, `ProcessorStateManager.flushCache`,
`InternalProcessorContext.setRecordContext`.
Differs from Kafka: there, a share that shrinks flushes at once. A flush goes on until nothing is dirty, in whatever
order the stores were added, so that a commit has everything that was processed before it. Kafka flushes each store
once; what comes late waits for the next commit. Here only that waits which processors keep writing to a table whenever
they hear of its changes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.records import Headers, RawRecord
from streams_runtime.logs.record_limits import BrokerChecks

MadeBy = tuple[int, Headers, tuple[str, int] | None, int, RawRecord | None]
"""The record that makes a change: timestamp in milliseconds, headers, topic and partition (None for a punctuation),
offset (-1 for a punctuation), and the input record itself if a handler of errors may ask for it. A plain tuple, because
one is made for each change. Source: `ProcessorRecordContext`.
"""

Entry = tuple[bytes | None, MadeBy | None, int, int]
"""A value, None for a deletion; the record that changed it, None for a value that was only read; its size; the number
of its use."""

_OVERHEAD = 24 + 1 + 8 + 8 + 4
"""Of a node in Kafka's list, its flag, and timestamp, offset and partition of its record."""

_MOST_ROUNDS = 100


class RecordContexts(Protocol):
    """The task's record that is processed now; while a change is flushed, the one that made the change."""

    def record_context(self) -> MadeBy: ...

    def begin_flush(self) -> Any:
        """Gives the present record, for `end_flush`."""
        ...

    def set_context(self, made_by: MadeBy) -> None:
        """During a flush: this record made the change that is flushed now."""
        ...

    def end_flush(self, before: Any) -> None:
        """Make the record before the flush the present one again."""
        ...


class ChangeCheck(Protocol):
    """Knows what the store below or its changelog does not take."""

    unchecked_bytes: int
    timestamp_checks: BrokerChecks
    """See `ChangeLoggingStore`."""

    def check(self, key: bytes, value: bytes | None) -> None: ...


class CachedStore(Protocol):
    """What a cache asks of its store. `key_overhead`: what a key takes in Kafka's cache beyond its bytes here.
    `keeps_reads`: whether the cache keeps what was read from the store below.
    """

    key_overhead: int
    keeps_reads: bool

    def read_below(self, key: bytes) -> bytes | None: ...

    def write(self, key: bytes, value: bytes | None, made_by: MadeBy) -> None:
        """Write a change to the store below, and forward it."""
        ...


class ThreadCache:
    """One per stream thread, which alone uses it. What its caches take together, and what they may take."""

    __slots__ = ("_caches", "max_bytes", "size_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._caches: list[NamedCache] = []

    def add(self, store: CachedStore, check: ChangeCheck, contexts: RecordContexts) -> NamedCache:
        """A new cache of one store. `contexts`: of its task."""
        cache = NamedCache(self, store, check, contexts)
        self._caches.append(cache)
        return cache

    def remove(self, cache: NamedCache) -> None:
        """Drop a cache with everything in it, also what is dirty."""
        cache.clear()
        self._caches = [each for each in self._caches if each is not cache]

    def resize(self, max_bytes: int) -> None:
        """They may take this much from now on. Nothing is flushed."""
        self.max_bytes = max_bytes
        if self.size_bytes > max_bytes:
            for cache in self._caches:
                cache.evict_clean()


class TaskCache:
    """The caches of one active task. `contexts`: of the task."""

    __slots__ = ("_caches", "_thread", "contexts")

    def __init__(self, thread: ThreadCache, contexts: RecordContexts) -> None:
        self.contexts = contexts
        self._thread = thread
        self._caches: list[NamedCache] = []

    def add(self, store: CachedStore, check: ChangeCheck) -> NamedCache:
        """A new cache of one store. `check`: of what is put."""
        cache = self._thread.add(store, check, self.contexts)
        self._caches.append(cache)
        return cache

    def remove(self, cache: NamedCache) -> None:
        """Drop a cache with everything in it, also what is dirty."""
        self._thread.remove(cache)
        self._caches = [each for each in self._caches if each is not cache]

    @property
    def is_dirty(self) -> bool:
        return any(cache.has_dirty for cache in self._caches)

    def flush(self) -> None:
        """Write and forward everything that is dirty. After an error, what was not written stays dirty."""
        for _ in range(_MOST_ROUNDS):
            if not self.is_dirty:
                return
            for cache in self._caches:
                if cache.has_dirty:
                    cache.flush()


class NamedCache:
    """Of one store: values by key, of which those that are dirty were not written yet. Made by `TaskCache.add`."""

    __slots__ = (
        "_check", "_contexts", "_dirty", "_entries", "_memory", "_oldest", "_overhead", "_reads", "_record_context",
        "_size_bytes", "_store", "_uses",
    )  # fmt: skip

    def __init__(self, memory: ThreadCache, store: CachedStore, check: ChangeCheck, contexts: RecordContexts) -> None:
        self._memory = memory
        self._store = store
        self._check = check
        self._contexts = contexts
        self._record_context = contexts.record_context
        self._overhead = _OVERHEAD + store.key_overhead
        self._entries: dict[bytes, Entry] = {}
        self._dirty: dict[bytes, None] = {}
        """By their last change."""
        self._uses = count()
        self._reads: dict[bytes, int] = {}
        """The last use of what was read after it was put."""
        self._oldest: list[tuple[int, bytes]] = []
        """Uses and keys, the oldest one last; those that were used again since do not count."""
        self._size_bytes = 0

    # --- reading

    def get(self, key: bytes) -> bytes | None:
        """The value of a key here, which counts as used then, or else in the store below. Only the task's thread may
        call. May flush if the cache keeps what was read, and raises what that raises.
        """
        entry = self._entries.get(key)
        if entry is not None:
            self._reads[key] = next(self._uses)
            return entry[0]
        value = self._store.read_below(key)
        if value is not None and self._store.keeps_reads:
            size = self._overhead + len(key) + len(value)
            self._entries[key] = (value, None, size, next(self._uses))
            self._grow(size)
        return value

    def peek(self, key: bytes) -> Entry | None:
        """What the cache has of a key. Any thread may call."""
        return self._entries.get(key)

    def made_by_present_record(self, key: bytes) -> Entry | None:
        """What the cache has of a key if the present record has changed it and it was not written yet."""
        entry = self._entries.get(key)
        if entry is None or entry[1] is None or key not in self._dirty:
            return None
        return entry if entry[1][2:4] == self._record_context()[2:4] else None

    @property
    def has_dirty(self) -> bool:
        return bool(self._dirty)

    def items(self) -> list[tuple[bytes, bytes | None]]:
        """All keys and values at one moment. Any thread may call."""
        entries = dict.copy(self._entries)  # one step, in which the task changes nothing
        return [(key, entry[0]) for key, entry in entries.items()]

    def dirty_items(self, is_wanted: Callable[[bytes], bool]) -> dict[bytes, bytes | None]:
        """Of these keys, those that were not written yet, with their values. Any thread may call."""
        if not self._dirty:
            return {}
        entries = self._entries
        dirty = [(key, entries.get(key)) for key in list(self._dirty) if is_wanted(key)]
        return {key: entry[0] for key, entry in dirty if entry is not None}

    # --- changing

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int = JAVA_LONG_MAX) -> None:
        """A change by the present record. Raises what the check raises, and then changes nothing. May flush, and raises
        what that raises; the change stays in the cache.

        `timestamp_ms`: of the value; the latest one if the caller does not know it.
        """
        check = self._check
        if (
            value is None
            or len(key) + len(value) > check.unchecked_bytes
            or timestamp_ms > check.timestamp_checks.rows_pass_to_ms
        ):
            check.check(key, value)
        _, headers, partition, _, raw = made_by = self._record_context()
        size = self._overhead + len(key)
        if value is not None:
            size += len(value)
        if partition is not None:
            size += len(partition[0])
        if headers or raw is not None:
            size += _extra_bytes(headers, raw)
        entries, dirty, memory = self._entries, self._dirty, self._memory
        before = entries.get(key)
        entries[key] = (value, made_by, size, next(self._uses))
        if key in dirty:
            del dirty[key]
        dirty[key] = None
        if before is not None:
            size -= before[2]
        # also if it takes no more than before: an eviction that forwards here has not made its room yet
        if size or memory.size_bytes > memory.max_bytes:
            self._grow(size)

    def _grow(self, size: int) -> None:
        memory = self._memory
        self._size_bytes += size
        memory.size_bytes += size
        if memory.size_bytes > memory.max_bytes:
            self._make_room()

    def _make_room(self) -> None:
        """As long as all caches take too much, evict. Raises what a flush raises."""
        memory, entries, reads, dirty = self._memory, self._entries, self._reads, self._dirty
        while memory.size_bytes > memory.max_bytes and entries:
            if dirty or not self._oldest:
                self.evict_one()
                continue
            use, key = self._oldest.pop()  # in one look at each: a store with many keys does this for each record
            entry = entries.get(key)
            if entry is None or entry[3] > use or (reads and reads.get(key, 0) > use):
                continue  # it was used again, or is gone
            self._remove(key)

    def flush(self) -> None:
        """Write what is dirty now. After an error, what was not written stays dirty."""
        self._flush(list(self._dirty))

    def evict_one(self) -> None:
        """Evict the value that was not used for the longest time. Raises what a flush raises."""
        key = self._least_recently_used()
        entry = self._entries[key]
        if key in self._dirty:
            self._flush([key, *(other for other in self._dirty if other != key)])
        if self._entries.get(key) is entry and key not in self._dirty:
            self._remove(key)

    def evict_clean(self) -> None:
        """As long as all caches take too much, evict what is not dirty."""
        for _, key in reversed(self._newest_first()):
            if key in self._dirty:
                continue
            if self._memory.size_bytes <= self._memory.max_bytes:
                return
            self._remove(key)

    def clear(self) -> None:
        """Forget everything, also what is dirty."""
        self._memory.size_bytes -= self._size_bytes
        self._size_bytes = 0
        self._dirty.clear()
        self._entries.clear()
        self._reads.clear()
        self._oldest.clear()

    def _flush(self, keys: list[bytes]) -> None:
        entries, dirty, write, set_context = self._entries, self._dirty, self._store.write, self._contexts.set_context
        before = self._contexts.begin_flush()
        try:
            for key in keys:
                if key not in dirty:  # a flush inside of this one has written it
                    continue
                entry = entries[key]
                value, made_by, _, _ = entry
                assert made_by is not None, "a record has made the change"
                set_context(made_by)
                write(key, value, made_by)
                if entries.get(key) is entry:  # else what is downstream has changed it again
                    dirty.pop(key, None)
                    if value is None:
                        self._remove(key)
        finally:
            self._contexts.end_flush(before)

    def _remove(self, key: bytes) -> None:
        size = self._entries.pop(key)[2]
        self._reads.pop(key, None)
        self._size_bytes -= size
        self._memory.size_bytes -= size

    def _least_recently_used(self) -> bytes:
        """There is a value."""
        oldest, entries, reads = self._oldest, self._entries, self._reads
        while True:
            while oldest:
                use, key = oldest[-1]
                entry = entries.get(key)
                if entry is not None and max(entry[3], reads.get(key, 0)) == use:
                    return key
                oldest.pop()
            self._oldest = oldest = self._newest_first()

    def _newest_first(self) -> list[tuple[int, bytes]]:
        reads = self._reads
        return sorted(((max(entry[3], reads.get(key, 0)), key) for key, entry in self._entries.items()), reverse=True)


def _extra_bytes(headers: Headers, raw: RawRecord | None) -> int:
    """Of the headers of a record, and of the input record that is kept for a handler of errors.

    Differs from Kafka: the latter is counted. There each change keeps its input record, whatever the handler, and the
    cache does not know: small counts of large records take many times what `statestore.cache.max.bytes` allows.
    """
    size = sum(len(name) + (0 if value is None else len(value)) for name, value in headers)
    if raw is not None:
        size += (0 if raw.key is None else len(raw.key)) + (0 if raw.value is None else len(raw.value))
    return size
