"""The record cache of one store in one task: values by key, of which those that are dirty were not written yet.

Rules:
- Dirty keys are flushed in the order of their last change, and a flush writes each of them once.
- The value that was not used for the longest time is evicted first. If it is dirty, it is flushed, and then all other
  dirty keys of this store are flushed, too, and stay in the cache.
- A key that was deleted leaves the cache when that is flushed.
- Sizes are counted as Kafka counts them, so that a cache of the same size evicts at the same record.

The task's thread writes; any thread may read. A value is written before it leaves the cache or counts as clean, so
that a reader never sees the value before it again; so does a flush that failed, which can be tried again.
Source: `NamedCache`, `LRUCacheEntry`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from streams_runtime.records import Headers, RecordContext, RecordMetadata

AnyContext = RecordContext | tuple[int, Headers, tuple[str, int, int] | None]
"""A fused loop, which makes one for each record, makes plain tuples. See `as_context`."""

Entry = tuple[bytes | None, AnyContext | None, int]
"""A value, None for a deletion; the record that changed it, None for a value that was only read; its size."""

_OVERHEAD = 24 + 1 + 8 + 8 + 4
"""Of a node in Kafka's list, its flag, and timestamp, offset and partition of its record."""


class Memory(Protocol):
    """What all caches of a thread take together, and may take. Source: `ThreadCache`."""

    size_bytes: int
    max_bytes: int


class NamedCache:
    """`write`: writes and forwards a value. `entries`: least recently used first. `dirty`: by their last change.

    `flush_keys`: flushes those of these keys that are dirty; a fused loop may take its place. `key_overhead`: what a
    key takes in Kafka's cache beyond its bytes here.
    """

    __slots__ = ("_write", "dirty", "entries", "flush_keys", "key_overhead", "memory", "size_bytes")

    def __init__(self, memory: Memory, write: Callable[[bytes, Entry], None], key_overhead: int = 0) -> None:
        self.memory = memory
        self._write = write
        self.key_overhead = key_overhead
        self.entries: OrderedDict[bytes, Entry] = OrderedDict()
        self.dirty: dict[bytes, None] = {}
        self.size_bytes = 0
        self.flush_keys: Callable[[list[bytes]], None] = self._flush_one_by_one

    def put(self, key: bytes, value: bytes | None, context: AnyContext) -> None:
        """A change. May flush, and raises what that raises; the change is in the cache even then."""
        dirty = self.dirty
        dirty.pop(key, None)
        dirty[key] = None
        size = len(key) + self.key_overhead + change_overhead(context)
        self._place(key, (value, context, size if value is None else size + len(value)))

    def put_clean(self, key: bytes, value: bytes) -> None:
        """A value that was read from the store, and is not in the cache. May flush, and raises what that raises."""
        self._place(key, (value, None, len(key) + self.key_overhead + _OVERHEAD + len(value)))

    def make_room(self) -> None:
        """As long as all caches take too much, evict. Raises what a flush raises."""
        memory, entries = self.memory, self.entries
        while memory.size_bytes > memory.max_bytes and entries:
            self.evict_one()

    def flush(self) -> None:
        """Write what is dirty now. After an error, what was not written stays dirty."""
        self.flush_keys(list(self.dirty))

    def evict_one(self) -> None:
        """Let go of the value that was not used for the longest time. Raises what a flush raises."""
        key, entry = next(iter(self.entries.items()))
        if key in self.dirty:
            self.flush_keys([key, *(other for other in self.dirty if other != key)])
        if self.entries.get(key) is entry and key not in self.dirty:
            self._remove(key)

    def evict_clean(self) -> None:
        """As long as all caches take too much, let go of what is not dirty."""
        for key in [key for key in self.entries if key not in self.dirty]:
            if self.memory.size_bytes <= self.memory.max_bytes:
                return
            self._remove(key)

    def clear(self) -> None:
        """Forget everything, also what is dirty."""
        self.memory.size_bytes -= self.size_bytes
        self.size_bytes = 0
        self.dirty.clear()
        self.entries.clear()

    def _place(self, key: bytes, entry: Entry) -> None:
        entries = self.entries
        before = entries.get(key)
        entries[key] = entry
        grown = entry[2]
        if before is not None:
            entries.move_to_end(key)
            grown -= before[2]
        self.size_bytes += grown
        self.memory.size_bytes += grown
        self.make_room()

    def write_one(self, key: bytes, entry: Entry) -> None:
        """Write one change, and let it count as written."""
        self._write(key, entry)
        if self.entries.get(key) is entry:  # else what is downstream has changed it again
            self.dirty.pop(key, None)
            if entry[0] is None:
                self._remove(key)

    def _flush_one_by_one(self, keys: list[bytes]) -> None:
        for key in keys:
            if key in self.dirty:  # else a flush inside of this one has written it
                self.write_one(key, self.entries[key])

    def _remove(self, key: bytes) -> None:
        size = self.entries.pop(key)[2]
        self.size_bytes -= size
        self.memory.size_bytes -= size


def as_context(context: AnyContext) -> RecordContext:
    """With the names of its parts."""
    timestamp_ms, headers, metadata = context
    return RecordContext(timestamp_ms, headers, None if metadata is None else RecordMetadata(*metadata))


def change_overhead(context: AnyContext) -> int:
    """What a change takes beside its key and its value, in bytes."""
    _, headers, metadata = context
    size = _OVERHEAD if metadata is None else _OVERHEAD + len(metadata[0])
    for name, value in headers:
        size += len(name) + (0 if value is None else len(value))
    return size
