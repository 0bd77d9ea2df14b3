"""A write-behind buffer in front of RocksDB: changes stay in memory, and are written many at a time.

RocksDB takes about a microsecond for a single write and two for a read. Most stores change few keys often. Between two
batches each put or get of such a key is a dictionary lookup, and the batch writes the key once, however often it
changed.

Rules:
- Pending changes are written when they exceed their share of memory, and before the store flushes, closes, or is
  scanned by the task's thread. A crash loses pending changes, and also the memtables, because RocksDB writes no log
  here. A restore brings them back from the changelog: a checkpoint is only written after a flush, so it never has
  the offset of a change that was still pending.
- Keys that were written or read lately stay in memory as a read cache, and so do keys that the store does not have. The
  owner of the store can pass a callback that is called when keys leave the read cache.
- Only the task's thread changes the store. Any thread may read, and sees pending changes, too.
- All stores of the process share one budget of memory, as they share RocksDB's memory.

Source: none in Kafka, where a record cache (KIP-63) saves most of these writes. This buffer is below the record cache
and below the changelog. It changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Lock, get_ident

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.base import Entries, StoreContext, WrappedStateStore
from streams_runtime.state_stores.key_ranges import is_within, merged
from streams_runtime.state_stores.rocksdb import RocksDBStore

ALL_STORES_BYTES = 64 * 1024 * 1024
LEAST_SHARE_BYTES = 256 * 1024
_ENTRY_BYTES = 200
"""Roughly the memory of an entry of a dictionary and its two objects, without the bytes of key and value."""

_NOT_IN_MEMORY = object()
"""The result of a lookup in memory when RocksDB has to be asked. The result None says that the store does not have the
key."""


class _Budget:
    """Divides ALL_STORES_BYTES among the open stores of this process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stores = 0

    def add(self, stores: int) -> None:
        with self._lock:
            self._stores += stores

    @property
    def share_bytes(self) -> int:
        """The memory of one store: one half for pending changes, and one for the read cache."""
        return max(LEAST_SHARE_BYTES, ALL_STORES_BYTES // max(1, self._stores))


_budget = _Budget()


class WriteBehindStore(WrappedStateStore[RocksDBStore]):
    """`KeyValueBytesStore`. Raises the errors of `RocksDBStore`. The error of a write may come from a later call than
    the one that made the change, because that call only puts the change into memory.
    """

    __slots__ = (
        "_clean", "_clean_bytes", "_max_bytes", "_on_evict", "_pending", "_pending_bytes", "owner_thread",
    )  # fmt: skip

    def __init__(self, inner: RocksDBStore, on_evict: Callable[[], None] | None = None) -> None:
        """`on_evict`: called when keys leave the read cache, or are written without entering it."""
        super().__init__(inner)
        self._on_evict = on_evict
        self.owner_thread = 0  # the task's thread; 0 while the store is closed
        self._max_bytes = LEAST_SHARE_BYTES // 2
        self._pending: dict[bytes, bytes | None] = {}
        self._clean: dict[bytes, bytes | None] = {}
        self._pending_bytes = self._clean_bytes = 0

    # --- open and close

    def require_open(self) -> None:
        self._inner.require_open()

    def open(self, context: StoreContext) -> None:
        if self._inner.is_open:
            return
        self._inner.open(context)
        _budget.add(1)
        self._bind_to_thread()

    def rebind(self, context: StoreContext) -> None:
        self._inner.rebind(context)
        self._bind_to_thread()

    def flush(self) -> None:
        self._write_pending()
        self._inner.flush()

    def close(self) -> None:
        """Raises ProcessorStateError when the pending changes cannot be written. The store is closed even then."""
        if not self._inner.is_open:
            return
        _budget.add(-1)
        self.owner_thread = 0
        try:
            self._write_pending()
        finally:
            self._pending, self._pending_bytes = {}, 0
            self._evict()
            self._inner.close()

    def _bind_to_thread(self) -> None:
        self.owner_thread = get_ident()
        self._max_bytes = _budget.share_bytes // 2

    # --- changes

    def put(self, key: bytes, value: bytes | None) -> None:
        if key.__class__ is not bytes or (value.__class__ is not bytes and value is not None):
            raise self._not_bytes(key, value)
        if not self.owner_thread:  # only a closed store has no owner
            self._inner.require_open()
        pending = self._pending
        previous: bytes | object | None = pending.get(key, _NOT_IN_MEMORY)
        pending[key] = value
        grown = 0 if value is None else len(value)
        if previous is _NOT_IN_MEMORY:
            grown += len(key) + _ENTRY_BYTES
        elif previous is not None:
            grown -= len(previous)  # type: ignore[arg-type]
        if grown:
            self._pending_bytes += grown
            if self._pending_bytes > self._max_bytes:
                self._write_pending()

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Puts all of them or, after an error, none."""
        for key, value in entries:
            if not _are_bytes(key, value):
                raise self._not_bytes(key, value)
        for key, value in entries:
            self.put(key, value)

    def delete_range(self, start: bytes, exclusive_end: bytes) -> None:
        """As `RocksDBStore.delete_range`."""
        self._write_pending()
        self._evict()
        self._inner.delete_range(start, exclusive_end)

    def restore(self, batch: RecordBatch) -> None:
        self.write(batch.keys, batch.values)

    def write(self, keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> None:
        """As `RocksDBStore.write`: at once, without entering the buffer or the read cache."""
        if self._pending:
            self._write_pending()
        self._evict()
        self._inner.write(keys, values)

    # --- reads

    def get(self, key: bytes) -> bytes | None:
        value: bytes | object | None = self._pending.get(key, _NOT_IN_MEMORY)
        if value is _NOT_IN_MEMORY:
            value = self._clean.get(key, _NOT_IN_MEMORY)
            if value is _NOT_IN_MEMORY:
                value = self._load(key)
        return value  # type: ignore[return-value]

    def get_in_memory(self, key: bytes) -> bytes | None:
        """As `get`, but RocksDB is not asked. Only for the task's thread, and only for a key that the caller knows to
        be either in memory or absent from the store.
        """
        value: bytes | object | None = self._pending.get(key, _NOT_IN_MEMORY)
        if value is _NOT_IN_MEMORY:
            return self._clean.get(key)
        return value  # type: ignore[return-value]

    def scan(self, start: bytes | None, exclusive_end: bytes | None, *, reverse: bool = False) -> Entries:
        """As `RocksDBStore.scan`."""
        changed = self._pending_in(is_within(start, exclusive_end))
        return merged(self._inner.scan(start, exclusive_end, reverse=reverse), changed, reverse=reverse)

    def approximate_num_entries(self) -> int:
        """The estimate of `RocksDBStore` and the pending changes. A key with both counts twice."""
        return self._inner.approximate_num_entries() + len(self._pending)

    # --- inside

    def _load(self, key: bytes) -> bytes | None:
        value = self._inner.get(key)
        if get_ident() == self.owner_thread:
            size = len(key) + _ENTRY_BYTES + (0 if value is None else len(value))
            if self._clean_bytes + size > self._max_bytes:
                self._evict()
            self._clean[key] = value
            self._clean_bytes += size
        return value

    def _pending_in(self, is_wanted: Callable[[bytes], bool]) -> Mapping[bytes, bytes | None]:
        """Changes to merge into a scan of RocksDB: none for the task's thread, which writes them first.

        To be called before the scan: a change that is written between the two reads is then found twice, not missed.
        """
        if not self._pending:
            return {}
        if get_ident() == self.owner_thread:
            self._write_pending()
            return {}
        return {key: value for key, value in self._pending.copy().items() if is_wanted(key)}

    def _write_pending(self) -> None:
        """A change stays in `_pending` until it is in RocksDB, so that other threads find it at any time."""
        pending = self._pending
        if not pending:
            return
        self._inner.write(pending.keys(), pending.values())
        if self._clean_bytes + self._pending_bytes > self._max_bytes:
            self._evict()
            self._clean, self._clean_bytes = pending, self._pending_bytes
        else:
            self._clean = self._clean | pending
            self._clean_bytes += self._pending_bytes
        self._pending, self._pending_bytes = {}, 0
        self._max_bytes = _budget.share_bytes // 2

    def _evict(self) -> None:
        """Empty the read cache."""
        self._clean, self._clean_bytes = {}, 0
        if self._on_evict is not None:
            self._on_evict()

    def _not_bytes(self, key: object, value: object) -> StreamsRuntimeError:
        wrong = value if isinstance(key, bytes) else key
        return StreamsRuntimeError(f"store {self.name} takes keys and values of bytes only, not {type(wrong).__name__}")


def _are_bytes(key: object, value: object) -> bool:
    return key.__class__ is bytes and (value.__class__ is bytes or value is None)
