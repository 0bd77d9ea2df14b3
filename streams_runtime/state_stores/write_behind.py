"""What was put into a RocksDB lately, kept in memory and written to it many changes at a time.

RocksDB takes about a microsecond for a single write and two for a read. Most stores change few keys often, so between
two batches a key costs a look into a dictionary, and is written once however often it changed.

Rules:
- Changes are written when they take their share of memory, and before the store flushes, closes, or scans a range.
  After a crash they are lost, as what RocksDB had in memory is: it keeps no log, and the checkpoint that says what a
  store has is written after a flush.
- What was written or read lately stays as a read cache, that a key is absent, too. Who owns the store can ask to hear
  when something of it is let go of.
- The task's thread changes and scans. Any other thread may read: it sees what was put, written or not.
- All stores of the process share one budget, as they share RocksDB's.

Source: none in Kafka, where a record cache (KIP-63) saves most of these writes. This is below such a cache and below
the changelog, and nothing of it can be seen but the time that it saves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Lock, get_ident

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.base import Entries, StoreContext
from streams_runtime.state_stores.key_ranges import is_within, merged
from streams_runtime.state_stores.rocksdb import RocksDBStore

ALL_STORES_BYTES = 64 * 1024 * 1024
LEAST_SHARE_BYTES = 256 * 1024
_ENTRY_BYTES = 200
"""What a dictionary and two objects take beside the bytes of key and value, roughly."""

_ASK = object()
"""Nothing in memory tells whether the store has the key."""


class _Budget:
    """How many stores of this process are open, and so how much each may hold back."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stores = 0

    def add(self, stores: int) -> None:
        with self._lock:
            self._stores += stores

    @property
    def share_bytes(self) -> int:
        """Of one store. Half of it is for changes and half for what is only read."""
        return max(LEAST_SHARE_BYTES, ALL_STORES_BYTES // max(1, self._stores))


_budget = _Budget()


class WriteBehindStore:
    """`KeyValueBytesStore`. Errors are those of `RocksDBStore`; one of a write may come with a later call."""

    __slots__ = ("_clean", "_clean_bytes", "_inner", "_lets_go", "_most_bytes", "_pending", "_pending_bytes", "owner")

    persistent = True

    def __init__(self, inner: RocksDBStore, lets_go: Callable[[], None] | None = None) -> None:
        """`lets_go`: called when something that was written is no longer in memory, or was never."""
        self._inner = inner
        self._lets_go = lets_go
        self.owner = 0  # the task's thread; 0 while the store is closed
        self._most_bytes = LEAST_SHARE_BYTES // 2
        self._pending: dict[bytes, bytes | None] = {}
        self._clean: dict[bytes, bytes | None] = {}
        self._pending_bytes = self._clean_bytes = 0

    # --- its life

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def is_open(self) -> bool:
        return self._inner.is_open

    def require_open(self) -> None:
        self._inner.require_open()

    def open(self, context: StoreContext) -> None:
        if self._inner.is_open:
            return
        self._inner.open(context)
        _budget.add(1)
        self._belong_here()

    def rebind(self, context: StoreContext) -> None:
        self._inner.rebind(context)
        self._belong_here()

    def flush(self) -> None:
        self._write_pending()
        self._inner.flush()

    def close(self) -> None:
        """Raises ProcessorStateError when what is pending cannot be written; the store is closed even so."""
        if not self._inner.is_open:
            return
        _budget.add(-1)
        self.owner = 0
        try:
            self._write_pending()
        finally:
            self._forget()
            self._inner.close()

    def _belong_here(self) -> None:
        self.owner = get_ident()
        self._most_bytes = _budget.share_bytes // 2

    # --- changes

    def put(self, key: bytes, value: bytes | None) -> None:
        if key.__class__ is not bytes or (value.__class__ is not bytes and value is not None):
            raise self._not_bytes(key, value)
        if not self.owner:
            self._inner.require_open()
        pending = self._pending
        before: bytes | object | None = pending.get(key, _ASK)
        pending[key] = value
        grown = 0 if value is None else len(value)
        if before is _ASK:
            grown += len(key) + _ENTRY_BYTES
        elif before is not None:
            grown -= len(before)  # type: ignore[arg-type]
        if grown:
            self._pending_bytes += grown
            if self._pending_bytes > self._most_bytes:
                self._write_pending()

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Puts all of them or, after an error, none."""
        for key, value in entries:
            if not _are_bytes(key, value):
                raise self._not_bytes(key, value)
        for key, value in entries:
            self.put(key, value)

    def delete_range(self, start: bytes, before: bytes) -> None:
        """As `RocksDBStore.delete_range`."""
        self._write_pending()
        self._forget_clean()
        self._inner.delete_range(start, before)

    def restore(self, batch: RecordBatch) -> None:
        self.write(batch.keys, batch.values)

    def write(self, keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> None:
        """As `RocksDBStore.write`: past the memory."""
        if self._pending:
            self._write_pending()
        self._forget_clean()
        self._inner.write(keys, values)

    # --- reads

    def get(self, key: bytes) -> bytes | None:
        value: bytes | object | None = self._pending.get(key, _ASK)
        if value is _ASK:
            value = self._clean.get(key, _ASK)
            if value is _ASK:
                value = self._load(key)
        return value  # type: ignore[return-value]

    def get_in_memory(self, key: bytes) -> bytes | None:
        """As `get`, by the task's thread, of a key that is in memory if the store has it."""
        value: bytes | object | None = self._pending.get(key, _ASK)
        if value is _ASK:
            return self._clean.get(key)
        return value  # type: ignore[return-value]

    def scan(self, start: bytes | None, before: bytes | None, *, reverse: bool = False) -> Entries:
        """As `RocksDBStore.scan`."""
        changed = self._changed(is_within(start, before))
        return merged(self._inner.scan(start, before, reverse=reverse), changed, reverse=reverse)

    def approximate_num_entries(self) -> int:
        """As of `RocksDBStore`; a key that has changed counts once more until that is written."""
        return self._inner.approximate_num_entries() + len(self._pending)

    # --- inside

    def _load(self, key: bytes) -> bytes | None:
        value = self._inner.get(key)
        if get_ident() == self.owner:
            self._clean_bytes += len(key) + _ENTRY_BYTES + (0 if value is None else len(value))
            if self._clean_bytes > self._most_bytes:
                self._forget_clean()
            self._clean[key] = value
        return value

    def _changed(self, is_wanted: Callable[[bytes], bool]) -> Mapping[bytes, bytes | None]:
        """What a scan does not find in RocksDB. Asked before the scan: what is written meanwhile is in both."""
        if not self._pending:
            return {}
        if get_ident() == self.owner:
            self._write_pending()
            return {}
        return {key: value for key, value in self._pending.copy().items() if is_wanted(key)}

    def _write_pending(self) -> None:
        """Other threads find a change in `_pending` until RocksDB has it."""
        pending = self._pending
        if not pending:
            return
        self._inner.write(pending.keys(), pending.values())
        if self._clean_bytes + self._pending_bytes > self._most_bytes:
            self._forget_clean()
            self._clean, self._clean_bytes = pending, self._pending_bytes
        else:
            self._clean = self._clean | pending
            self._clean_bytes += self._pending_bytes
        self._pending, self._pending_bytes = {}, 0
        self._most_bytes = _budget.share_bytes // 2

    def _forget(self) -> None:
        self._pending, self._pending_bytes = {}, 0
        self._forget_clean()

    def _forget_clean(self) -> None:
        self._clean, self._clean_bytes = {}, 0
        if self._lets_go is not None:
            self._lets_go()

    def _not_bytes(self, key: object, value: object) -> StreamsRuntimeError:
        wrong = value if isinstance(key, bytes) else key
        return StreamsRuntimeError(f"store {self.name} takes keys and values of bytes only, not {type(wrong).__name__}")


def _are_bytes(key: object, value: object) -> bool:
    return key.__class__ is bytes and (value.__class__ is bytes or value is None)
