"""The record cache of one store in one task: values by key, of which those that are dirty were not written yet.

Rules:
- Dirty keys are flushed in the order of their last change, and a flush writes each of them once.
- The value that was not used for the longest time is evicted first. If it is dirty, it is flushed, and then all other
  dirty keys of this store are flushed, too, and stay in the cache.
- A key that was deleted leaves the cache when that is flushed.
- Sizes are counted as Kafka counts them, so that a cache of the same size evicts at the same record; an input record
  that is kept for a handler of errors counts as well.

The task's thread writes; any thread may read. A value is written before it leaves the cache or counts as clean, so
that a reader never sees the value before it again; so does a flush that failed, which can be tried again.

Which value was not used for the longest time is asked only when the cache is full. So a use costs a number and no place
in a list: values are put in order of these numbers when the first is evicted, and again when all of that order are gone
or were used since.
Source: `NamedCache`, `LRUCacheEntry`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Protocol

from streams_runtime.common.records import RawRecord, RecordContext

Entry = tuple[bytes | None, RecordContext | None, int, int]
"""A value, None for a deletion; the record that changed it, None for a value that was only read; its size; the number
of its use."""

_OVERHEAD = 24 + 1 + 8 + 8 + 4
"""Of a node in Kafka's list, its flag, and timestamp, offset and partition of its record."""


class Memory(Protocol):
    """What all caches of a thread take together, and may take. Source: `ThreadCache`."""

    size_bytes: int
    max_bytes: int


class NamedCache:
    """`write`: writes and forwards a value. `key_overhead`: what a key takes in Kafka's cache beyond its bytes here."""

    __slots__ = (
        "_dirty", "_entries", "_memory", "_oldest", "_overhead", "_reads", "_size_bytes", "_uses", "_write",
    )  # fmt: skip

    def __init__(
        self, memory: Memory, write: Callable[[bytes, bytes | None, RecordContext], None], key_overhead: int = 0
    ) -> None:
        self._memory = memory
        self._write = write
        self._overhead = _OVERHEAD + key_overhead
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

    def get(self, key: bytes) -> Entry | None:
        """As `peek`, and the value counts as used."""
        entry = self._entries.get(key)
        if entry is not None:
            self._reads[key] = next(self._uses)
        return entry

    def peek(self, key: bytes) -> Entry | None:
        """What the cache has of a key. Any thread may call."""
        return self._entries.get(key)

    def is_dirty(self, key: bytes) -> bool:
        """Whether its value was not written yet."""
        return key in self._dirty

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

    def put(self, key: bytes, value: bytes | None, context: RecordContext) -> None:
        """A change. May flush, and raises what that raises; the change is in the cache even then."""
        _, headers, metadata, raw = context
        size = self._overhead + len(key)
        if value is not None:
            size += len(value)
        if metadata is not None:
            size += len(metadata[0])
        if headers or raw is not None:
            size += _extra_bytes(context)
        entries, dirty = self._entries, self._dirty
        before = entries.get(key)
        entries[key] = (value, context, size, next(self._uses))
        if key in dirty:
            del dirty[key]
        dirty[key] = None
        if before is not None:
            size -= before[2]
        self._grow(size)  # also by nothing: an eviction that forwards here has not made its room yet

    def put_clean(self, key: bytes, value: bytes) -> None:
        """A value that was read from the store, and is not in the cache. May flush, and raises what that raises."""
        size = self._overhead + len(key) + len(value)
        self._entries[key] = (value, None, size, next(self._uses))
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
        for key in keys:
            if key not in self._dirty:  # a flush inside of this one has written it
                continue
            entry = self._entries[key]
            value, context = entry[:2]
            assert context is not None, "a change has a context"
            self._write(key, value, context)
            if self._entries.get(key) is entry:  # else what is downstream has changed it again
                self._dirty.pop(key, None)
                if value is None:
                    self._remove(key)

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


def _extra_bytes(context: RecordContext) -> int:
    """Of the headers of a record, and of the input record that is kept for a handler of errors.

    Differs from Kafka: the latter is counted. There each change keeps its input record, whatever the handler, and the
    cache does not know: small counts of large records take many times what `statestore.cache.max.bytes` allows.
    """
    size = sum(len(name) + (0 if value is None else len(value)) for name, value in context.headers)
    raw: RawRecord | None = context.raw
    if raw is not None:
        size += (0 if raw.key is None else len(raw.key)) + (0 if raw.value is None else len(raw.value))
    return size
