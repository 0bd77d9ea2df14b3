"""Bytes in memory, in key order, until `close`: a dict, and a sorted list of its keys that is made on demand.

A put costs a dict write. A range sorts the keys that were added since the last range, then walks a snapshot of all
keys. Keys that are added later are not in the range. The range shows later changes and deletions of keys that
it has not reached, as Kafka documents. The task's thread writes; any thread may read. Source: `InMemoryKeyValueStore`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from threading import Lock

from streams_runtime.common.errors import InvalidStateStore
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.state_store import StoreContext

Entry = tuple[bytes, bytes]


class InMemoryKeyValueStore:
    """`KeyValueBytesStore`. Its methods raise InvalidStateStore while it is not open."""

    __slots__ = ("_added", "_entries", "_lock", "_name", "_open", "_sorted_keys")

    persistent = False

    def __init__(self, name: str) -> None:
        self._name = name
        self._open = False
        self._lock = Lock()  # held to use `_sorted_keys` or `_added`, and to add a key to `_entries`
        self._sorted_keys: list[bytes] | None = None
        """Replaced, never changed in place, because ranges read it. May have keys that were deleted since it was made.
        None: not made yet."""
        self._added: dict[bytes, None] = {}
        """Keys added since `_sorted_keys` was made. A dict: a key that is deleted and added again is in it once."""
        self._entries: dict[bytes, bytes] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_open(self) -> bool:
        return self._open

    def open(self, context: StoreContext) -> None:
        self._open = True

    def rebind(self, context: StoreContext) -> None:
        """Nothing here depends on the context."""

    def get(self, key: bytes) -> bytes | None:
        if not self._open:
            raise self._not_open()
        return self._entries.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        if not self._open:
            raise self._not_open()
        if value is None:
            if self._entries.pop(key, None) is not None and self._added:
                with self._lock:
                    self._added.pop(key, None)
        elif key in self._entries:
            self._entries[key] = value
        else:
            with self._lock:
                self._entries[key] = value
                if self._sorted_keys is not None:
                    self._added[key] = None

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def restore(self, batch: RecordBatch) -> None:
        """Records without a key are skipped, as in Kafka."""
        if not self._open:
            raise self._not_open()
        latest = dict(zip(batch.keys, batch.values, strict=True))
        latest.pop(None, None)
        deleted = [key for key, value in latest.items() if value is None]
        for key in deleted:
            del latest[key]
        with self._lock:
            self._sorted_keys = None
            self._added.clear()
            self._entries.update(latest)  # type: ignore[arg-type]  # no None is left in it
            for key in deleted:
                self._entries.pop(key, None)  # type: ignore[arg-type]

    def scan(self, start: bytes | None, exclusive_end: bytes | None, *, reverse: bool = False) -> Iterator[Entry]:
        keys = self._sorted()
        first = 0 if start is None else bisect_left(keys, start)
        last = len(keys) if exclusive_end is None else bisect_left(keys, exclusive_end)
        wanted = keys if first == 0 and last == len(keys) else keys[first:last]
        return self._read(self._entries, wanted[::-1] if reverse else wanted)

    def approximate_num_entries(self) -> int:
        if not self._open:
            raise self._not_open()
        return len(self._entries)

    def flush(self) -> None:
        """There is nothing to write to disk."""
        if not self._open:
            raise self._not_open()

    def close(self) -> None:
        """Drop the content. Open iterators raise InvalidStateStore."""
        with self._lock:
            self._open = False
            self._sorted_keys = None
            self._added = {}
            self._entries = {}

    def _sorted(self) -> list[bytes]:
        with self._lock:
            if not self._open:  # tested under the lock: `close` empties the store under it
                raise self._not_open()
            if self._sorted_keys is None:
                self._sorted_keys = sorted(self._entries.copy())
            elif self._added:
                # The old keys come first and are sorted, so this sort is little more than a merge. The filter leaves
                # out the keys that were deleted since.
                candidates = dict.fromkeys(self._sorted_keys)
                candidates.update(self._added)
                self._added.clear()
                self._sorted_keys = sorted(filter(self._entries.__contains__, candidates))
            return self._sorted_keys

    def _read(self, entries: dict[bytes, bytes], keys: Sequence[bytes]) -> Iterator[Entry]:
        for key in keys:
            value = entries.get(key)
            if entries is not self._entries:  # the store was closed meanwhile
                raise self._not_open()
            if value is not None:
                yield key, value

    def _not_open(self) -> InvalidStateStore:
        return InvalidStateStore(f"store {self._name} is not open")
