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
from typing import Any, Protocol

from streams_runtime.common.records import RawRecord, RecordContext, RecordMetadata

Source = tuple[str, tuple[()], int]
"""Topic, no headers and partition: what all records of a run share that a fused loop goes over."""

Entry = (
    tuple[bytes | None, RecordContext | None, int, int]
    | tuple[bytes | None, Source, int, int, int, int, RawRecord | None]
)
"""A value, None for a deletion; the record that changed it, None for a value that was only read; its size; the number
of its use. A fused loop, which makes one for each record, makes no context: with the source of its record come that
record's timestamp and offset, and the record as it was read. See `context_of`.
"""

_OVERHEAD = 24 + 1 + 8 + 8 + 4
"""Of a node in Kafka's list, its flag, and timestamp, offset and partition of its record."""


class Memory(Protocol):
    """What all caches of a thread take together, and may take. Source: `ThreadCache`."""

    size_bytes: int
    max_bytes: int


class NamedCache:
    """`write`: writes and forwards a value. `dirty`: by their last change. `uses`: the next number of a use.
    `reads`: the last use of what was read after it was put.

    `flush_keys`: flushes those of these keys that are dirty; a fused loop may take its place. `key_overhead`: what a
    key takes in Kafka's cache beyond its bytes here.
    """

    __slots__ = (
        "_oldest",
        "_write",
        "dirty",
        "entries",
        "flush_keys",
        "key_overhead",
        "memory",
        "reads",
        "size_bytes",
        "uses",
    )

    def __init__(self, memory: Memory, write: Callable[[bytes, Entry], None], key_overhead: int = 0) -> None:
        self.memory = memory
        self._write = write
        self.key_overhead = key_overhead
        self.entries: dict[bytes, Entry] = {}
        self.dirty: dict[bytes, None] = {}
        self.uses = count()
        self.reads: dict[bytes, int] = {}
        self._oldest: list[tuple[int, bytes]] = []
        """Uses and keys, the oldest one last; those that were used again since do not count."""
        self.size_bytes = 0
        self.flush_keys: Callable[[list[bytes]], None] = self._flush_one_by_one

    def put(self, key: bytes, value: bytes | None, context: RecordContext) -> None:
        """A change. May flush, and raises what that raises; the change is in the cache even then."""
        dirty = self.dirty
        dirty.pop(key, None)
        dirty[key] = None
        size = len(key) + self.key_overhead + change_overhead(context)
        size += 0 if value is None else len(value)
        self._place(key, (value, context, size, next(self.uses)))

    def put_clean(self, key: bytes, value: bytes) -> None:
        """A value that was read from the store, and is not in the cache. May flush, and raises what that raises."""
        size = len(key) + self.key_overhead + _OVERHEAD + len(value)
        memory = self.memory
        self.entries[key] = (value, None, size, next(self.uses))
        self.size_bytes += size
        memory.size_bytes += size
        if memory.size_bytes > memory.max_bytes:
            self.make_room()

    def used(self, key: bytes) -> None:
        """The value was read. It is in the cache."""
        self.reads[key] = next(self.uses)

    def make_room(self) -> None:
        """As long as all caches take too much, evict. Raises what a flush raises."""
        memory, entries, reads, dirty = self.memory, self.entries, self.reads, self.dirty
        while memory.size_bytes > memory.max_bytes and entries:
            if dirty or not self._oldest:
                self.evict_one()
                continue
            use, key = self._oldest.pop()  # in one look at each: a store with many keys does this for each record
            entry = entries.get(key)
            if entry is None or entry[3] > use or (reads and reads.get(key, 0) > use):
                continue  # it was used again, or is gone
            del entries[key]
            if reads:
                reads.pop(key, None)
            self.size_bytes -= entry[2]
            memory.size_bytes -= entry[2]

    def flush(self) -> None:
        """Write what is dirty now. After an error, what was not written stays dirty."""
        self.flush_keys(list(self.dirty))

    def evict_one(self) -> None:
        """Let go of the value that was not used for the longest time. Raises what a flush raises."""
        key = self._least_recently_used()
        entry = self.entries[key]
        if key in self.dirty:
            self.flush_keys([key, *(other for other in self.dirty if other != key)])
        if self.entries.get(key) is entry and key not in self.dirty:
            self._remove(key)

    def evict_clean(self) -> None:
        """As long as all caches take too much, let go of what is not dirty."""
        for _, key in reversed(self._newest_first()):
            if key in self.dirty:
                continue
            if self.memory.size_bytes <= self.memory.max_bytes:
                return
            self._remove(key)

    def clear(self) -> None:
        """Forget everything, also what is dirty."""
        self.memory.size_bytes -= self.size_bytes
        self.size_bytes = 0
        self.dirty.clear()
        self.entries.clear()
        self.reads.clear()
        self._oldest.clear()

    def _place(self, key: bytes, entry: Entry) -> None:
        entries = self.entries
        before = entries.get(key)
        entries[key] = entry
        grown = entry[2]
        if before is not None:
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
        self.reads.pop(key, None)
        self.size_bytes -= size
        self.memory.size_bytes -= size

    def _least_recently_used(self) -> bytes:
        """There is a value."""
        oldest, entries, reads = self._oldest, self.entries, self.reads
        while True:
            while oldest:
                use, key = oldest[-1]
                entry = entries.get(key)
                if entry is not None and max(entry[3], reads.get(key, 0)) == use:
                    return key
                oldest.pop()
            self._oldest = oldest = self._newest_first()

    def _newest_first(self) -> list[tuple[int, bytes]]:
        reads = self.reads
        return sorted(((max(entry[3], reads.get(key, 0)), key) for key, entry in self.entries.items()), reverse=True)


def context_of(entry: Entry) -> RecordContext:
    """The record that made this change."""
    made_by: Any = entry[1]
    if isinstance(made_by, RecordContext):
        return made_by
    topic, headers, partition = made_by
    of_record: Any = entry
    return RecordContext(of_record[4], headers, RecordMetadata(topic, partition, of_record[5]), of_record[6])


def change_overhead(context: RecordContext) -> int:
    """What a change takes beside its key and its value, in bytes."""
    _, headers, metadata, raw = context
    size = _OVERHEAD if metadata is None else _OVERHEAD + len(metadata[0])
    if raw is not None:
        size += raw_bytes(raw)
    for name, value in headers:
        size += len(name) + (0 if value is None else len(value))
    return size


def raw_bytes(raw: RawRecord) -> int:
    """What an input record takes that a change keeps for the handler of errors.

    Differs from Kafka: it is counted. There each change keeps its input record, whatever the handler, and the cache
    does not know: small counts of large records take many times what `statestore.cache.max.bytes` allows.
    """
    return (0 if raw.key is None else len(raw.key)) + (0 if raw.value is None else len(raw.value))
