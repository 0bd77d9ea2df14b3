"""Two layers of a store. The upper layer sends changes to the changelog. The lower layer is a write-behind buffer for
RocksDB.

- `ChangeLoggingStore` puts a change into the store below, and then sends the change to the changelog.
- `WriteBehindStore` keeps changes in memory, and writes many changes at a time to RocksDB.

The changelog serves as the write-ahead log of the buffer. The stores use RocksDB without its own write-ahead log, so a
crash loses the changes in the buffer and in RocksDB's memtables. A restore reads the lost changes from the changelog. A
checkpoint is written only after a flush. So all changes up to the offset in a checkpoint are on disk.

Rules of the changelog: if the changelog does not accept a change, the change is refused before it is put into the
store. So the store and its changelog have the same content even if an error handler returns CONTINUE. A changelog
record has the timestamp of the record that made the change. In a timestamped store, the changelog record of a value has
the timestamp of the value. A standby sends no changes to the changelog, and neither does a store that uses a source
topic as its changelog. A restore sends no changes to the changelog either.

Rules of the buffer:
- Pending changes are the changes in the buffer. Pending changes are written when they exceed their share of memory.
  Pending changes are also written before the store flushes or closes, and before the task's thread scans the store.
- The buffer is also a read cache: after a write or a read, the key stays in memory. If a read has shown that the store
  does not have a key, the read cache remembers this. The owner of the store can pass a callback that is called when
  keys leave the read cache.
- Only the task's thread changes the store. Any thread may read the store. Reads include pending changes.
- The buffers of all stores of the process share one memory budget.

The reason for the buffer is speed: RocksDB takes about one microsecond for a single write, and two microseconds for a
read. In most stores, a few keys change often. With the buffer, a put or get of a frequently changed key is a dictionary
lookup. The buffer combines many puts of a key into one write to RocksDB. The buffer does not change the results of
reads.

Source: `ChangeLoggingKeyValueBytesStore`, `ChangeLoggingTimestampedKeyValueBytesStore`,
`ChangeLoggingWindowBytesStore`, `ChangeLoggingTimestampedWindowBytesStore`. Kafka has no write-behind buffer. In Kafka,
the record cache (KIP-63) avoids most of the writes.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock, get_ident

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.record_limits import NO_TIMESTAMP_CHECKS, BrokerChecks, RecordLimits
from streams_runtime.state_stores.key_ranges import is_within, merged
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.state_stores.state_store import (
    ChangeLogger,
    Entries,
    Inner,
    KeyValueBytesStore,
    NoRecords,
    RecordClock,
    StoreContext,
    WindowBytesStore,
    WrappedStateStore,
)
from streams_runtime.state_stores.value_and_timestamp import TIMESTAMP_BYTES, unpack_timestamp
from streams_runtime.state_stores.window_keys import SUFFIX_BYTES, suffix_of, window_key

ALL_STORES_BYTES = 64 * 1024 * 1024
LEAST_SHARE_BYTES = 256 * 1024
_ENTRY_BYTES = 200
"""The approximate size in bytes of a dictionary entry, its key object and its value object. The content of the key and
the value is not included.
"""

_NOT_IN_MEMORY = object()
"""A lookup in memory has this result if the key has to be read from RocksDB. The result None means that the store does
not have the key.
"""


class _NotLogged:
    def limits_of(self, store: str) -> RecordLimits:
        return RecordLimits(max_bytes=sys.maxsize, compacts=False)

    def check_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Accepts every change, because there is no changelog."""

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Does nothing."""


_NOT_LOGGED: ChangeLogger = _NotLogged()


class ChangeLoggingStore(WrappedStateStore[Inner], ABC):
    """The base of the stores that log changes. `timestamped`: True if each value begins with its timestamp.

    A record cache can skip `check` for most changes, because `check` accepts every change within two limits. The key
    and value together must have at most `always_accepted_bytes`. The timestamp must be at most
    `timestamp_checks.accepted_to_ms`.
    """

    def __init__(self, inner: Inner, *, timestamped: bool = False) -> None:
        super().__init__(inner)
        # each change needs the name, and the property `name` of `inner` is slow: it calls each layer below
        self._name = inner.name
        self._timestamped = timestamped
        self._use(_NOT_LOGGED, NoRecords())

    def _bind(self, context: StoreContext) -> None:
        self._use(_NOT_LOGGED if context.changes is None else context.changes, context.clock)

    def _use(self, changes: ChangeLogger, clock: RecordClock) -> None:
        self._clock = clock
        self._changes = changes
        self._log_change = changes.log_change
        self._limits: RecordLimits | None = None
        # With the limit -1, a record cache calls `check` for each change. The first call of `check` sets the real
        # limits.
        self.always_accepted_bytes = -1
        self.timestamp_checks: BrokerChecks = NO_TIMESTAMP_CHECKS

    def check(self, key: bytes, value: bytes | None) -> None:
        """Raises an error if the changelog does not accept a change.

        `key`: the key in the form that the changelog contains. `value`: the value in the form that the store contains.
        """
        if self._limits is None:  # read the limits at the first change, because a standby never needs them
            self._limits = limits = self._changes.limits_of(self._name)
            self.always_accepted_bytes, self.timestamp_checks = limits.max_bytes, limits.checks
        logged, timestamp_ms = self._logged(value, self._clock.record_timestamp_ms)
        if not self._limits.takes_unchecked(key, logged, timestamp_ms):
            self._changes.check_change(self._name, key, logged, timestamp_ms)

    @abstractmethod
    def read(self, key: bytes) -> bytes | None:
        """Returns the value of a key. `key`: the key in the form that the changelog contains."""

    @abstractmethod
    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        """Puts and logs a change that `check` has accepted. Must not be called for a store with duplicates.

        `key`: the key in the form that the changelog contains. `value`: the value in the form that the store contains.
        `record_ms`: the timestamp of the record that made the change.
        """

    def _logged(self, value: bytes | None, record_ms: int) -> tuple[bytes | None, int]:
        """For a stored value, returns the value and the timestamp of its changelog record."""
        if value is None or not self._timestamped:
            return value, record_ms
        return value[TIMESTAMP_BYTES:], unpack_timestamp(value)[0]


class ChangeLoggingKeyValueBytesStore(ChangeLoggingStore[KeyValueBytesStore]):
    """A `KeyValueBytesStore` that logs its changes."""

    def get(self, key: bytes) -> bytes | None:
        return self.inner.get(key)

    read = get

    def put(self, key: bytes, value: bytes | None) -> None:
        self.check(key, value)
        logged, timestamp_ms = self._logged(value, self._clock.record_timestamp_ms)
        self.inner.put(key, value)
        self._log_change(self._name, key, logged, timestamp_ms)

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            self.check(key, value)
        self.inner.put_all(entries)
        for key, value in entries:
            self._log_change(self._name, key, *self._logged(value, self._clock.record_timestamp_ms))

    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        logged, timestamp_ms = self._logged(value, record_ms)
        self.inner.put(key, value)
        self._log_change(self._name, key, logged, timestamp_ms)

    def scan(self, start: bytes | None, exclusive_end: bytes | None, *, reverse: bool = False) -> Entries:
        return self.inner.scan(start, exclusive_end, reverse=reverse)

    def approximate_num_entries(self) -> int:
        return self.inner.approximate_num_entries()


class ChangeLoggingWindowBytesStore(ChangeLoggingStore[WindowBytesStore]):
    """A `WindowBytesStore` that logs its changes. As in Kafka, a put into an expired window is also logged.

    Differs from Kafka: in a store with duplicates, a put of None deletes nothing and is not logged. Kafka logs a
    deletion with an unused sequence number.
    """

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> int | None:
        self.check(key, value)
        logged, timestamp_ms = self._logged(value, self._clock.record_timestamp_ms)
        sequence = self.inner.put(key, value, start_ms)
        if sequence is not None:  # The result None means that the store made no change.
            if sequence:  # `key` has the sequence number 0. Any other number needs a new key.
                key = window_key(key[:-SUFFIX_BYTES], start_ms, sequence)
            self._log_change(self._name, key, logged, timestamp_ms)
        return sequence

    def put_checked(self, key: bytes, value: bytes | None, record_ms: int) -> None:
        logged, timestamp_ms = self._logged(value, record_ms)
        self.inner.put(key, value, suffix_of(key)[0])
        self._log_change(self._name, key, logged, timestamp_ms)

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        return self.inner.fetch(key, start_ms)

    def read(self, key: bytes) -> bytes | None:
        return self.inner.fetch(key, suffix_of(key)[0])

    def fetch_range(self, key: bytes, from_ms: int, to_ms: int) -> Iterator[tuple[int, bytes]]:
        return self.inner.fetch_range(key, from_ms, to_ms)

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[bytes, int, bytes]]:
        return self.inner.fetch_all(from_ms, to_ms)


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
        """The memory of one store in bytes. Half of this memory is for pending changes, and half for the read cache."""
        return max(LEAST_SHARE_BYTES, ALL_STORES_BYTES // max(1, self._stores))


_budget = _Budget()


class WriteBehindStore(WrappedStateStore[RocksDBStore]):
    """A `KeyValueBytesStore` with a write-behind buffer in front of RocksDB.

    Raises the errors of `RocksDBStore`. `put` stores the change in memory. The write to RocksDB usually follows in a
    later call. If this write fails, that call raises the error.
    """

    def __init__(self, inner: RocksDBStore, on_evict: Callable[[], None] | None = None) -> None:
        """`on_evict`: a function that is called when keys leave the read cache, or are written to RocksDB directly."""
        super().__init__(inner)
        self._on_evict = on_evict
        self.owner_thread = 0  # the identifier of the task's thread; 0 while the store is closed
        self._max_bytes = LEAST_SHARE_BYTES // 2
        self._pending: dict[bytes, bytes | None] = {}
        self._clean: dict[bytes, bytes | None] = {}
        self._pending_bytes = self._clean_bytes = 0

    # --- open and close

    def require_open(self) -> None:
        self.inner.require_open()

    def open(self, context: StoreContext) -> None:
        if self.inner.is_open:
            return
        self.inner.open(context)
        _budget.add(1)
        self._bind(context)

    def flush(self) -> None:
        self._write_pending()
        self.inner.flush()

    def close(self) -> None:
        """Writes the pending changes and closes the store. Closes the store even if the changes cannot be written, and
        then raises ProcessorStateError.
        """
        if not self.inner.is_open:
            return
        _budget.add(-1)
        self.owner_thread = 0
        try:
            self._write_pending()
        finally:
            self._pending, self._pending_bytes = {}, 0
            self._evict()
            self.inner.close()

    def _bind(self, context: StoreContext) -> None:
        self.owner_thread = get_ident()
        self._max_bytes = _budget.share_bytes // 2

    # --- changes

    def put(self, key: bytes, value: bytes | None) -> None:
        if key.__class__ is not bytes or (value.__class__ is not bytes and value is not None):
            raise self._not_bytes(key, value)
        if not self.owner_thread:  # if `owner_thread` is 0, the store is closed
            self.inner.require_open()
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
        """Puts all entries. If a key or a value is not a bytes object, raises an error and puts no entry."""
        for key, value in entries:
            if not _are_bytes(key, value):
                raise self._not_bytes(key, value)
        for key, value in entries:
            self.put(key, value)

    def delete_range(self, start: bytes, exclusive_end: bytes) -> None:
        """See `RocksDBStore.delete_range`."""
        self._write_pending()
        self._evict()
        self.inner.delete_range(start, exclusive_end)

    def restore(self, batch: RecordBatch) -> None:
        self.write(batch.keys, batch.values)

    def write(self, keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> None:
        """Writes directly to RocksDB (`RocksDBStore.write`), without the buffer and the read cache."""
        if self._pending:
            self._write_pending()
        self._evict()
        self.inner.write(keys, values)

    # --- reads

    def get(self, key: bytes) -> bytes | None:
        value: bytes | object | None = self._pending.get(key, _NOT_IN_MEMORY)
        if value is _NOT_IN_MEMORY:
            value = self._clean.get(key, _NOT_IN_MEMORY)
            if value is _NOT_IN_MEMORY:
                value = self._load(key)
        return value  # type: ignore[return-value]

    def get_in_memory(self, key: bytes) -> bytes | None:
        """Returns a value like `get`, but never reads RocksDB. Only the task's thread may call this method. Call this
        method only for a key that is in memory, or that the store does not have.
        """
        value: bytes | object | None = self._pending.get(key, _NOT_IN_MEMORY)
        if value is _NOT_IN_MEMORY:
            return self._clean.get(key)
        return value  # type: ignore[return-value]

    def scan(self, start: bytes | None, exclusive_end: bytes | None, *, reverse: bool = False) -> Entries:
        """See `RocksDBStore.scan`."""
        changed = self._pending_in(is_within(start, exclusive_end))
        return merged(self.inner.scan(start, exclusive_end, reverse=reverse), changed, reverse=reverse)

    def approximate_num_entries(self) -> int:
        """Returns RocksDB's estimate plus the number of pending changes. A key counts twice if it is in RocksDB and has
        a pending change.
        """
        return self.inner.approximate_num_entries() + len(self._pending)

    # --- internals

    def _load(self, key: bytes) -> bytes | None:
        value = self.inner.get(key)
        if get_ident() == self.owner_thread:
            size = len(key) + _ENTRY_BYTES + (0 if value is None else len(value))
            if self._clean_bytes + size > self._max_bytes:
                self._evict()
            self._clean[key] = value
            self._clean_bytes += size
        return value

    def _pending_in(self, is_wanted: Callable[[bytes], bool]) -> Mapping[bytes, bytes | None]:
        """Returns the pending changes. The caller merges them with a scan of RocksDB. For the task's thread, the
        pending changes are written first, so the result is empty. The caller must call `_pending_in` before the scan,
        because a change may be written between the two calls. A change that is written between the two calls is found
        twice, which does no harm. In the reverse order, the caller could miss the change.
        """
        if not self._pending:
            return {}
        if get_ident() == self.owner_thread:
            self._write_pending()
            return {}
        return {key: value for key, value in self._pending.copy().items() if is_wanted(key)}

    def _write_pending(self) -> None:
        """Writes the pending changes to RocksDB. The changes stay in `_pending` during the write, so that other threads
        can read them.
        """
        pending = self._pending
        if not pending:
            return
        self.inner.write(pending.keys(), pending.values())
        if self._clean_bytes + self._pending_bytes > self._max_bytes:
            self._evict()
            self._clean, self._clean_bytes = pending, self._pending_bytes
        else:
            self._clean = self._clean | pending
            self._clean_bytes += self._pending_bytes
        self._pending, self._pending_bytes = {}, 0
        self._max_bytes = _budget.share_bytes // 2

    def _evict(self) -> None:
        """Empties the read cache."""
        self._clean, self._clean_bytes = {}, 0
        if self._on_evict is not None:
            self._on_evict()

    def _not_bytes(self, key: object, value: object) -> StreamsRuntimeError:
        wrong = value if isinstance(key, bytes) else key
        return StreamsRuntimeError(f"store {self.name} takes keys and values of bytes only, not {type(wrong).__name__}")


def _are_bytes(key: object, value: object) -> bool:
    return key.__class__ is bytes and (value.__class__ is bytes or value is None)
