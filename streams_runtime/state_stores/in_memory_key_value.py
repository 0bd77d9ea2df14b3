"""Bytes in memory, in key order, gone at `close`: a dict, and a sorted list of its keys that is made on demand.

A put costs a dict write. A range sorts the keys that came since the last range, then walks a snapshot of all keys. It
does not see entries that are put later; it sees later changes and deletions of entries it has not reached, as Kafka
documents. The task's thread writes; any thread may read. Source: `InMemoryKeyValueStore`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from threading import Lock

from streams_runtime.common.errors import InvalidStateStore
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.base import StoreContext

Entry = tuple[bytes, bytes]


class InMemoryKeyValueStore:
    """`KeyValueBytesStore`. Its methods raise InvalidStateStore while it is not open."""

    __slots__ = ("_added", "_entries", "_lock", "_name", "_open", "_sorted_keys")

    persistent = False

    def __init__(self, name: str) -> None:
        self._name = name
        self._open = False
        self._lock = Lock()  # guards the next two, and adding to the entries
        self._sorted_keys: list[bytes] | None = None
        """Never changed, only replaced. May hold deleted keys. None: no range was asked for since `restore`."""
        self._added: dict[bytes, None] = {}
        """Keys added since `_sorted_keys` was made. A dict, so that it cannot outgrow the entries."""
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

    def scan(self, start: bytes | None, before: bytes | None, *, reverse: bool = False) -> Iterator[Entry]:
        keys = self._sorted()
        first = 0 if start is None else bisect_left(keys, start)
        last = len(keys) if before is None else bisect_left(keys, before)
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
        """The content is gone. Iterators end with InvalidStateStore."""
        with self._lock:
            self._open = False
            self._sorted_keys = None
            self._added = {}
            self._entries = {}

    def _sorted(self) -> list[bytes]:
        with self._lock:
            if not self._open:  # a close in another thread is whole, or has not begun
                raise self._not_open()
            if self._sorted_keys is None:
                self._sorted_keys = sorted(self._entries.copy())
            elif self._added:
                # the old keys come first and in order, so this sort only merges
                candidates = dict.fromkeys(self._sorted_keys)
                candidates.update(self._added)
                self._added.clear()
                self._sorted_keys = sorted(filter(self._entries.__contains__, candidates))
            return self._sorted_keys

    def _read(self, entries: dict[bytes, bytes], keys: Sequence[bytes]) -> Iterator[Entry]:
        for key in keys:
            value = entries.get(key)
            if entries is not self._entries:
                raise self._not_open()
            if value is not None:
                yield key, value

    def _not_open(self) -> InvalidStateStore:
        return InvalidStateStore(f"store {self._name} is not open")
