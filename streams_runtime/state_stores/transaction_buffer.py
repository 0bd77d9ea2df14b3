"""The transaction buffer: the one buffer between operators and RocksDB.

A change of a processor passes through these layers. The record cache keeps the change until the cache is flushed; the
cache decides which changes an application sends (KIP-63). The change-logging layer sends the change to the changelog.
The transaction buffer keeps the change until the task has committed. RocksDB then gets all changes of the commit, and
the changelog offset that belongs to them, in one write batch.

Rules:
- A change is uncommitted until `commit`. `close` drops uncommitted changes, for example after an aborted transaction.
  So the store on disk is always the result of a commit.
- If the uncommitted changes of a thread exceed `statestore.uncommitted.max.bytes`, the thread commits early. Changes in
  the record cache count, too, because the commit moves them into the buffer. The buffer itself has no limit, because a
  transaction cannot be written in parts.
- Every read of the task's thread sees the uncommitted changes: `get`, `get_many`, and scans. A query of another thread
  reads through `read_only` with the isolation level that it needs.
- The buffer is also a read cache: after a commit or a read, the key stays in memory. If a read has shown that the store
  does not have a key, the read cache remembers this. The owner of the store can pass a callback that is called when
  keys leave the read cache. The read caches of all stores of the process share one memory budget.
- A restore writes whole batches of committed changes to RocksDB, with their offset, and without the buffer.
- With `enable.transactional.statestores=false`, the changes are also written when they exceed the store's share of the
  memory. The changelog offset is then written without them, at the next commit. So a crash under exactly-once may leave
  changes in the store that were never committed.
- Only the task's thread changes the store. Any thread may read the store.

The buffer also makes stores fast. RocksDB takes about one microsecond for a write, and two microseconds for a read. In
most stores, a few keys change often. A put or get of such a key is a dictionary lookup, and RocksDB gets many changes
of a key as one write.

Source: KIP-892; `AbstractTransactionBuffer`. In Kafka, the buffer is off by default, and has no read cache.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from threading import Lock, get_ident

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.key_ranges import is_within
from streams_runtime.state_stores.rocksdb import Changes, KeepOffset, NewOffset, Ranges, RocksDBStore, last_values
from streams_runtime.state_stores.state_store import Entries, StoreContext, StoreOffset, WrappedStateStore

ALL_STORES_BYTES = 64 * 1024 * 1024
LEAST_SHARE_BYTES = 256 * 1024
ENTRY_BYTES = 200
"""The approximate size in bytes of a dictionary entry, its key object and its value object. The content of the key and
the value is not included.
"""
_FEW_KEYS = 8
"""Up to this number of new keys, inserting them into a sorted list is faster than sorting the list again."""

_NOT_IN_MEMORY = object()
"""A lookup in memory has this result if the key has to be read from RocksDB. The result None means that the store does
not have the key.
"""


class _Budget:
    """Divides the memory ALL_STORES_BYTES among the open stores of this process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stores = 0

    def add(self, stores: int) -> None:
        with self._lock:
            self._stores += stores

    @property
    def share_bytes(self) -> int:
        """The memory of one store in bytes. Half of this memory is for the read cache. The other half is for changes,
        if the store is not transactional.
        """
        return max(LEAST_SHARE_BYTES, ALL_STORES_BYTES // max(1, self._stores))


_budget = _Budget()


class TransactionBuffer(WrappedStateStore[RocksDBStore]):
    """A `KeyValueBytesStore` with a transaction buffer in front of RocksDB. Raises the errors of `RocksDBStore`."""

    keeps_offset = True

    def __init__(self, inner: RocksDBStore, on_evict: Callable[[], None] | None = None) -> None:
        """`on_evict`: a function that is called when keys leave the read cache, or are written to RocksDB directly."""
        super().__init__(inner)
        self._on_evict = on_evict
        self.owner_thread = 0  # the identifier of the task's thread; 0 while the store is closed
        self._max_bytes = LEAST_SHARE_BYTES // 2
        self._is_transactional = True
        self._clean: dict[bytes, bytes | None] = {}
        self._clean_bytes = 0
        self._forget_changes()

    def _forget_changes(self) -> None:
        self._changes: dict[bytes, bytes | None] = {}
        self._change_bytes = 0
        self._deleted_ranges: list[tuple[bytes, bytes]] = []
        # The sorted keys of `_changes`, except the keys in `_unsorted`. None before the first scan, because a store
        # that is never scanned needs no sorted keys.
        self._sorted: list[bytes] | None = None
        self._unsorted: list[bytes] = []

    # --- open, commit and close

    @property
    def uncommitted_bytes(self) -> int:
        return self._change_bytes

    def require_open(self) -> None:
        self.inner.require_open()

    def open(self, context: StoreContext) -> None:
        if self.inner.is_open:
            return
        self.inner.open(context)
        _budget.add(1)
        self._bind(context)

    def commit(self, offset: StoreOffset | None) -> None:
        if self._changes or self._deleted_ranges or offset != self.inner.committed_offset:
            self._write_changes(offset)

    def close(self) -> None:
        """Drops the uncommitted changes, and closes the store."""
        if not self.inner.is_open:
            return
        _budget.add(-1)
        self.owner_thread = 0
        self._forget_changes()
        self._evict()
        self.inner.close()

    def _bind(self, context: StoreContext) -> None:
        self.owner_thread = get_ident()
        self._max_bytes = _budget.share_bytes // 2
        self._is_transactional = context.transactional

    # --- changes

    def put(self, key: bytes, value: bytes | None) -> None:
        if key.__class__ is not bytes or (value.__class__ is not bytes and value is not None):
            raise self._not_bytes(key, value)
        if not self.owner_thread:  # if `owner_thread` is 0, the store is closed
            self.inner.require_open()
        changes = self._changes
        previous: bytes | object | None = changes.get(key, _NOT_IN_MEMORY)
        changes[key] = value
        grown = 0 if value is None else len(value)
        if previous is _NOT_IN_MEMORY:
            grown += len(key) + ENTRY_BYTES
            if self._sorted is not None:
                self._unsorted.append(key)
        elif previous is not None:
            grown -= len(previous)  # type: ignore[arg-type]
        if grown:
            self._change_bytes += grown
            if self._change_bytes > self._max_bytes and not self._is_transactional:
                self._write_changes(KeepOffset.KEEP)

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Puts all entries. If a key or a value is not a bytes object, raises an error and puts no entry."""
        for key, value in entries:
            if key.__class__ is not bytes or (value.__class__ is not bytes and value is not None):
                raise self._not_bytes(key, value)
        for key, value in entries:
            self.put(key, value)

    def delete_range(self, start: bytes, exclusive_end: bytes) -> None:
        """Deletes the keys from `start` inclusive to `exclusive_end` exclusive, at the cost of a single write. The
        caller must not read these keys or put them again.
        """
        self._deleted_ranges.append((start, exclusive_end))

    def restore(self, batch: RecordBatch) -> None:
        """Writes changelog records to the store. Records without a key are skipped, as in Kafka."""
        self.restore_changes(last_values(batch.keys, batch.values), batch.offsets[-1])

    def restore_changes(self, changes: Changes, offset: int | None) -> None:
        """Writes committed changes and their changelog offset to RocksDB."""
        self._evict()
        self.inner.write(changes, offset, self._deleted_ranges)
        self._deleted_ranges = []

    # --- reads

    def get(self, key: bytes) -> bytes | None:
        value: bytes | object | None = self._changes.get(key, _NOT_IN_MEMORY)
        if value is _NOT_IN_MEMORY:
            value = self._clean.get(key, _NOT_IN_MEMORY)
            if value is _NOT_IN_MEMORY:
                value = self._load(key)
        return value  # type: ignore[return-value]

    def get_in_memory(self, key: bytes) -> bytes | None:
        """Returns a value like `get`, but never reads RocksDB. Only the task's thread may call this method. Call this
        method only for a key that is in memory, or that the store does not have.
        """
        value: bytes | object | None = self._changes.get(key, _NOT_IN_MEMORY)
        if value is _NOT_IN_MEMORY:
            return self._clean.get(key)
        return value  # type: ignore[return-value]

    def scan(self, start: bytes | None, exclusive_end: bytes | None, *, reverse: bool = False) -> Entries:
        """See `RocksDBStore.scan`."""
        return self.scan_ranges([(start, exclusive_end)], reverse=reverse)

    def scan_ranges(self, ranges: Ranges, *, reverse: bool = False) -> Entries:
        """See `RocksDBStore.scan_ranges`."""

        def read(changes: Changes) -> Entries:
            changed = {key: value for each in ranges for key, value in self._changed_between(changes, *each).items()}
            return self.inner.scan_ranges(ranges, reverse=reverse, changed=changed)

        return self._with_changes(read)

    def scan_index(self, bounds: tuple[bytes, bytes], stored_key: Callable[[bytes], bytes], reverse: bool) -> Entries:
        """See `RocksDBStore.scan_index`."""

        def read(changes: Changes) -> Entries:
            changed = (self._changed_between(changes, *bounds), changes)
            return self.inner.scan_index(bounds, stored_key, reverse, changed)

        return self._with_changes(read)

    def committed(self) -> RocksDBStore:
        """Returns a store for reads that ignore uncommitted changes."""
        return self.inner

    def approximate_num_entries(self) -> int:
        """Returns RocksDB's estimate plus the number of uncommitted changes. A key counts twice if it is in RocksDB and
        has an uncommitted change.
        """
        return self.inner.approximate_num_entries() + len(self._changes)

    # --- internals

    def _load(self, key: bytes) -> bytes | None:
        value = self.inner.get(key)
        if get_ident() == self.owner_thread:
            size = len(key) + ENTRY_BYTES + (0 if value is None else len(value))
            if self._clean_bytes + size > self._max_bytes:
                self._evict()
            self._clean[key] = value
            self._clean_bytes += size
        return value

    def _with_changes(self, read: Callable[[Changes], Entries]) -> Entries:
        """Calls `read` with the uncommitted changes, and returns its result, which has to be a snapshot of RocksDB.
        Another thread gets a copy of the changes, and reads again if a commit has written changes between the copy and
        the snapshot. Otherwise, a query could find neither the old nor the new place of an entry that was moved.
        """
        while True:
            changes = self._changes
            entries = read(changes if get_ident() == self.owner_thread else changes.copy())
            if self._changes is changes:
                return entries

    def _changed_between(self, changes: Changes, start: bytes | None, exclusive_end: bytes | None) -> Changes:
        if not changes:
            return {}
        if changes is not self._changes:
            is_wanted = is_within(start, exclusive_end)
            return {key: value for key, value in changes.items() if is_wanted(key)}
        keys = self._sorted_keys()
        first = 0 if start is None else bisect_left(keys, start)
        last = len(keys) if exclusive_end is None else bisect_left(keys, exclusive_end)
        return {key: changes[key] for key in keys[first:last]}

    def _sorted_keys(self) -> list[bytes]:
        keys = self._sorted
        if keys is None:
            keys = self._sorted = sorted(self._changes)
        elif len(self._unsorted) <= _FEW_KEYS:
            for key in self._unsorted:
                insort(keys, key)
        else:
            keys += self._unsorted
            keys.sort()
        self._unsorted = []
        return keys

    def _write_changes(self, offset: NewOffset) -> None:
        """Writes the changes to RocksDB. The changes stay in `_changes` during the write, so that other threads can
        read them.
        """
        changes, size = self._changes, self._change_bytes
        self.inner.write(changes, offset, self._deleted_ranges)
        if changes:
            self._keep_in_memory(changes, size)
        self._forget_changes()
        self._max_bytes = _budget.share_bytes // 2

    def _keep_in_memory(self, changes: dict[bytes, bytes | None], size: int) -> None:
        clean = self._clean
        if self._clean_bytes + size > self._max_bytes:
            self._evict()
            if size <= self._max_bytes:
                self._clean, self._clean_bytes = changes, size
            return
        keys_before = len(clean)
        value_bytes = sum(map(len, filter(None, changes.values())))
        replaced_bytes = sum(map(len, filter(None, map(clean.get, changes))))
        clean.update(changes)
        # entries of keys that were in memory before are counted already, except the growth of their values
        new_entries_bytes = (size - value_bytes) * (len(clean) - keys_before) // len(changes)
        self._clean_bytes += new_entries_bytes + value_bytes - replaced_bytes

    def _evict(self) -> None:
        """Empties the read cache."""
        self._clean, self._clean_bytes = {}, 0
        if self._on_evict is not None:
            self._on_evict()

    def _not_bytes(self, key: object, value: object) -> StreamsRuntimeError:
        wrong = value if isinstance(key, bytes) else key
        return StreamsRuntimeError(f"store {self.name} takes keys and values of bytes only, not {type(wrong).__name__}")
