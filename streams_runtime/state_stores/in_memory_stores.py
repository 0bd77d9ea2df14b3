"""A key-value store and window stores of bytes, which keep their content in memory until `close`.

Only the task's thread may write to a store. Any thread may read. Source: `InMemoryKeyValueStore`,
`InMemoryWindowStore`.

Differs from Kafka: expired windows are removed in whole segments, as on disk, and not at every call. A restored
duplicate keeps the sequence number of its changelog record. In a store with duplicates, `fetch` returns the latest
duplicate, as on disk.

As in Kafka, a put of None into a store with duplicates advances stream time in memory, but not on disk.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import ClassVar, Generic, TypeVar

from streams_runtime.common.errors import ChangelogOfAnotherKind, InvalidStateStore
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.state_store import Entries, StoreContext, ignore_expired
from streams_runtime.state_stores.window_keys import (
    SUFFIX_BYTES,
    WindowRetention,
    is_key_between,
    is_window_key,
    next_sequence,
    suffix_of,
    window_key,
)

Entry = TypeVar("Entry")
Item = TypeVar("Item")
Bucket = dict[bytes, Entry]
"""The windows with the same start, by key."""


class InMemoryStore:
    """The base of all stores in memory. The methods of a store in memory raise InvalidStateStore while the store is not
    open.

    Another thread may close the store during a read. `close` first sets `is_open` to False, then replaces the content.
    A read first gets the content, then checks `is_open`. So a read never uses the empty content of a closed store.
    """

    persistent = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_open = False

    def open(self, context: StoreContext) -> None:
        self.is_open = True
        self.rebind(context)

    def rebind(self, context: StoreContext) -> None:
        """Does nothing, because the store does not depend on the context."""

    def flush(self) -> None:
        """Checks that the store is open. A store in memory writes nothing to disk."""
        self._require_open()

    def _require_open(self) -> None:
        if not self.is_open:
            raise self._not_open()

    def _not_open(self) -> InvalidStateStore:
        return InvalidStateStore(f"store {self.name} is not open")


class InMemoryKeyValueStore(InMemoryStore):
    """A `KeyValueBytesStore` with a dict of entries and a sorted list of keys. A put writes only to the dict. The
    method `range` first adds all new keys to the sorted list. It then iterates over a snapshot of the keys. Keys that
    are added after the snapshot are not in the range. If a key is changed before the iterator reaches it, the iterator
    returns the new value (as Kafka documents). If a key is deleted before the iterator reaches it, the key is left out.
    Source: `InMemoryKeyValueStore`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # a thread holds this lock while it uses `_sorted_keys` or `_added`, and while it adds a key to `_entries`
        self._lock = Lock()
        self._sorted_keys: list[bytes] | None = None
        """The sorted keys; None if the list has not been made yet. The list may contain deleted keys. The list is
        replaced and never changed in place, because ranges read it.
        """
        self._added: dict[bytes, None] = {}
        """The keys that were added after `_sorted_keys` was made. The keys are in a dict, because a key may be deleted
        and added again.
        """
        self._entries: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        entries = self._entries
        if not self.is_open:
            raise self._not_open()
        return entries.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        if not self.is_open:
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
        """Writes changelog records to the store. Records without a key are skipped, as in Kafka."""
        self._require_open()
        latest = dict(zip(batch.keys, batch.values, strict=True))
        latest.pop(None, None)
        deleted = [key for key, value in latest.items() if value is None]
        for key in deleted:
            del latest[key]
        with self._lock:
            self._sorted_keys = None
            self._added.clear()
            self._entries.update(latest)  # type: ignore[arg-type]  # all keys with the value None were removed
            for key in deleted:
                self._entries.pop(key, None)  # type: ignore[arg-type]

    def scan(self, start: bytes | None, exclusive_end: bytes | None, *, reverse: bool = False) -> Entries:
        entries, keys = self._sorted()
        first = 0 if start is None else bisect_left(keys, start)
        last = len(keys) if exclusive_end is None else bisect_left(keys, exclusive_end)
        wanted = keys if first == 0 and last == len(keys) else keys[first:last]
        return self._read(entries, wanted[::-1] if reverse else wanted)

    def approximate_num_entries(self) -> int:
        entries = self._entries
        self._require_open()
        return len(entries)

    def close(self) -> None:
        """Drops the content. Open iterators raise InvalidStateStore."""
        with self._lock:
            self.is_open = False
            self._sorted_keys = None
            self._added = {}
            self._entries = {}

    def _sorted(self) -> tuple[dict[bytes, bytes], list[bytes]]:
        """Returns the entries and their sorted keys.

        The entries and the keys are read under the lock, so that no `close` comes between the two reads. If the store
        were closed between the two reads, its dict would be empty, and a range would find no key instead of raising an
        error.
        """
        with self._lock:
            if not self.is_open:  # this check needs the lock, because `close` holds the lock while it empties the store
                raise self._not_open()
            if self._sorted_keys is None:
                self._sorted_keys = sorted(self._entries.copy())
            elif self._added:
                # The sort below is fast, because the old keys come first and are already sorted. The filter removes
                # deleted keys.
                candidates = dict.fromkeys(self._sorted_keys)
                candidates.update(self._added)
                self._added.clear()
                self._sorted_keys = sorted(filter(self._entries.__contains__, candidates))
            return self._entries, self._sorted_keys

    def _read(self, entries: dict[bytes, bytes], keys: Sequence[bytes]) -> Entries:
        for key in keys:
            value = entries.get(key)
            if entries is not self._entries:  # the store was closed meanwhile
                raise self._not_open()
            if value is not None:
                yield key, value


class WindowBuckets(Generic[Entry]):
    """The windows of a store by their start. A dict maps each start to a bucket with its windows. A sorted list
    contains the starts.

    Only the task's thread changes the windows. Any thread may read the windows. Methods that use both the dict and the
    list hold the lock. Usually records are in the order of time, so adding a window has a fast path for this case.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_start: dict[int, Bucket[Entry]] = {}
        self._starts: list[int] = []

    def find(self, start_ms: int) -> Bucket[Entry] | None:
        return self._by_start.get(start_ms)

    def find_or_add(self, start_ms: int) -> Bucket[Entry]:
        bucket = self._by_start.get(start_ms)
        if bucket is None:
            bucket = {}
            with self._lock:
                self._by_start[start_ms] = bucket
                if not self._starts or start_ms > self._starts[-1]:
                    self._starts.append(start_ms)
                else:
                    insort(self._starts, start_ms)
        return bucket

    def remove(self, start_ms: int) -> None:
        with self._lock:
            if self._by_start.pop(start_ms, None) is not None:
                del self._starts[bisect_left(self._starts, start_ms)]

    def remove_before(self, start_ms: int) -> None:
        with self._lock:
            count = bisect_left(self._starts, start_ms)
            for expired_ms in self._starts[:count]:
                del self._by_start[expired_ms]
            del self._starts[:count]

    def between(self, from_ms: int, to_ms: int) -> list[tuple[int, Bucket[Entry]]]:
        """Returns pairs of a start and its bucket, in the order of time. The starts are between `from_ms` and `to_ms`,
        inclusive.
        """
        with self._lock:
            starts = self._starts[bisect_left(self._starts, from_ms) : bisect_right(self._starts, to_ms)]
            return [(start_ms, self._by_start[start_ms]) for start_ms in starts]


class ExpiringInMemoryStore(InMemoryStore, ABC, Generic[Entry]):
    """The base of the window stores and session stores in memory. `kind`: the kind of store, for errors."""

    kind: ClassVar[str]

    def __init__(self, name: str, retention_ms: int) -> None:
        super().__init__(name)
        self._retention = WindowRetention(retention_ms, self._drop_expired)
        self._buckets: WindowBuckets[Entry] = WindowBuckets()
        self._expired: Callable[[str], None] = ignore_expired

    def rebind(self, context: StoreContext) -> None:
        self._expired = context.expired

    def restore(self, batch: RecordBatch) -> None:
        """Writes changelog records to the store. Raises ChangelogOfAnotherKind if a key has another format."""
        self._require_open()
        for key, value in zip(batch.keys, batch.values, strict=True):
            if key is None:
                continue
            if not self._is_key(key):
                raise ChangelogOfAnotherKind(self.name, batch.partition, batch.offsets, key, self.kind)
            self._restore(key, value)

    def close(self) -> None:
        """Drops the content. Open iterators raise InvalidStateStore."""
        self.is_open = False
        self._buckets = WindowBuckets()
        self._retention = WindowRetention(self._retention.retention_ms, self._drop_expired)

    @abstractmethod
    def _is_key(self, key: bytes) -> bool:
        """Returns True if a store of this kind may have written the key."""

    @abstractmethod
    def _restore(self, key: bytes, value: bytes | None) -> None: ...

    def _observe(self, time_ms: int) -> bool:
        """Advances observed stream time, and drops the segments that expire. Returns True if an entry with this time
        can be read.
        """
        self._retention.observe(time_ms)
        return time_ms >= self._retention.earliest_readable_ms

    def _drop_expired(self) -> None:
        self._drop_before(self._retention.first_live_segment * self._retention.segment_interval_ms)

    def _drop_before(self, time_ms: int) -> None:
        self._buckets.remove_before(time_ms)

    def _readable(self, buckets: WindowBuckets[Entry], from_ms: int, to_ms: int) -> list[tuple[int, Bucket[Entry]]]:
        self._require_open()
        return buckets.between(max(from_ms, self._retention.earliest_readable_ms), to_ms)

    def _while_open(self, buckets: WindowBuckets[Entry], items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if buckets is not self._buckets:  # the store was closed meanwhile
                raise self._not_open()
            yield item


class _InMemoryWindows(ExpiringInMemoryStore[Entry]):
    """The base of the two window stores in memory. An entry belongs to one key and one window start. `Entry`: the type
    of an entry; it is one value or all duplicates.
    """

    kind = "window"
    _retains_duplicates = False

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        buckets = self._buckets
        self._require_open()
        bucket = buckets.find(start_ms) if start_ms >= self._retention.earliest_readable_ms else None
        entry = None if bucket is None else bucket.get(key[:-SUFFIX_BYTES])
        values = [] if entry is None else self._values(entry)
        return values[-1] if values else None

    def fetch_range(
        self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, bytes]]:
        buckets = self._buckets
        found = [
            (start_ms, value)
            for start_ms, bucket in self._readable(buckets, from_ms, to_ms)
            if (entry := bucket.get(key)) is not None
            for value in self._values(entry)
        ]
        return self._while_open(buckets, reversed(found) if reverse else found)

    def fetch_all(
        self, from_ms: int, to_ms: int, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, bytes]]:
        """Returns the windows, sorted by time and then by key. The iterator may also return changes that are made after
        this call.
        """
        buckets = self._buckets
        found, is_between = self._readable(buckets, from_ms, to_ms), is_key_between(first, last)
        return self._while_open(buckets, self._decoded(found, is_between, reverse))

    def _is_key(self, key: bytes) -> bool:
        return is_window_key(key, duplicates=self._retains_duplicates)

    def _restore(self, key: bytes, value: bytes | None) -> None:
        start_ms, sequence = suffix_of(key)
        if self._observe(start_ms):
            self._set(key[:-SUFFIX_BYTES], value, start_ms, sequence)

    @abstractmethod
    def _set(self, key: bytes, value: bytes | None, start_ms: int, sequence: int) -> None: ...

    @abstractmethod
    def _values(self, entry: Entry) -> list[bytes]:
        """Returns the values of an entry, sorted by sequence number. The list may be empty, because another thread may
        delete the last value at the same time.
        """

    def _remove_if_empty(self, bucket: Bucket[Entry], start_ms: int) -> None:
        if not bucket:
            self._buckets.remove(start_ms)

    def _decoded(
        self, found: list[tuple[int, Bucket[Entry]]], is_wanted: Callable[[bytes], bool], reverse: bool
    ) -> Iterator[tuple[bytes, int, bytes]]:
        for start_ms, bucket in reversed(found) if reverse else found:
            snapshot = bucket.copy()
            for key in sorted(filter(is_wanted, snapshot), reverse=reverse):
                values = self._values(snapshot[key])
                for value in reversed(values) if reverse else values:
                    yield key, start_ms, value


class InMemoryWindowStore(_InMemoryWindows[bytes]):
    """A `WindowBytesStore` with one value for each key and start."""

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> bytes:
        self._require_open()
        if self._observe(start_ms):
            self._set(key[:-SUFFIX_BYTES], value, start_ms, 0)
        else:
            self._expired(self.name)
        return key

    def _set(self, key: bytes, value: bytes | None, start_ms: int, sequence: int) -> None:
        if value is not None:
            self._buckets.find_or_add(start_ms)[key] = value
        elif (bucket := self._buckets.find(start_ms)) is not None:
            bucket.pop(key, None)
            self._remove_if_empty(bucket, start_ms)

    def _values(self, entry: bytes) -> list[bytes]:
        return [entry]


class InMemoryDuplicatesWindowStore(_InMemoryWindows[dict[int, bytes]]):
    """A `WindowBytesStore` with duplicates: several values may have the same key and start, but different sequence
    numbers.
    """

    _retains_duplicates = True

    def __init__(self, name: str, retention_ms: int) -> None:
        super().__init__(name, retention_ms)
        self._sequence = 0

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> bytes:
        self._require_open()
        plain_key = key[:-SUFFIX_BYTES]
        self._sequence = self._free_sequence(plain_key, start_ms, next_sequence(self._sequence))
        if not self._observe(start_ms):
            self._expired(self.name)
        elif value is not None:
            self._set(plain_key, value, start_ms, self._sequence)
        return window_key(plain_key, start_ms, self._sequence)

    def _set(self, key: bytes, value: bytes | None, start_ms: int, sequence: int) -> None:
        if value is not None:
            self._buckets.find_or_add(start_ms).setdefault(key, {})[sequence] = value
            return
        bucket = self._buckets.find(start_ms)
        duplicates = None if bucket is None else bucket.get(key)
        if bucket is not None and duplicates is not None:
            duplicates.pop(sequence, None)
            if not duplicates:
                del bucket[key]
                self._remove_if_empty(bucket, start_ms)

    def _values(self, entry: dict[int, bytes]) -> list[bytes]:
        duplicates = entry.copy()
        return [duplicates[sequence] for sequence in sorted(duplicates)]

    def _free_sequence(self, key: bytes, start_ms: int, sequence: int) -> int:
        """Returns the first number from `sequence` on that is above all numbers of the key in this window. After a
        restart, the store begins to number again, and a new duplicate has to come after the old duplicates.
        """
        taken = (self._buckets.find(start_ms) or {}).get(key, {})
        sequence = max(sequence, next_sequence(max(taken, default=-1)))
        while sequence in taken:
            sequence = next_sequence(sequence)
        return sequence
