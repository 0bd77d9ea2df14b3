"""Stores of bytes with a record cache. A flush of the cache forwards its changes to processors, and writes them to the
store below.

Rules:
- If the changelog would not accept a change, `put` raises an error at once, as it does without a cache. When `put`
  raises the error, the record that makes the change is still being processed. So the handler of processing errors can
  decide about this record.
- Reads include the changes in the cache. Only reads of the task's thread add values to the cache.
- A flush writes each changed key once to the store and its changelog. The write has the context of the last record that
  changed the key. The flush listener gets the new value and the old value. The old value is the value in the store
  below, which comes from the previous flush. If a key was put and deleted between two flushes, it is not forwarded and
  not written.
- Only a flush of the cache writes to the store below. So checkpoints, standbys and restored stores contain only flushed
  changes.
- In a standby, and in a task without a cache, this layer only forwards calls to the store below. `close` drops the
  changes that were not flushed.

Source: `CachedStateStore`, `CachingKeyValueStore`, `CachingWindowStore`, `CachingSessionStore`,
`SegmentedCacheFunction`. Differs from Kafka: a change is forwarded before it is written, so that a flush can be
repeated after an error of the log. `close` never flushes. Reading a range does not count as a use of its keys. A
reverse range leaves out deleted keys; Kafka returns them with the value null. A session store finds sessions from a
time before 1970 on, as it does for a record whose timestamp is less than the gap; in Kafka, such a read fails.
"""

from collections.abc import Iterator
from threading import get_ident
from typing import Any, TypeVar

from assignor.types import JAVA_LONG_MAX
from streams_runtime.state_stores.change_logging import (
    ChangeLoggingKeyValueBytesStore,
    ChangeLoggingSessionBytesStore,
    ChangeLoggingStore,
    ChangeLoggingWindowBytesStore,
)
from streams_runtime.state_stores.key_ranges import is_within, merged
from streams_runtime.state_stores.session_keys import SessionRange, by_window, end_of
from streams_runtime.state_stores.state_store import Entries, StoreContext, WrappedStateStore
from streams_runtime.state_stores.thread_cache import NamedCache, TaskCache
from streams_runtime.state_stores.window_keys import MAX_SEQUENCE, SUFFIX_BYTES, is_key_between, suffix_of, window_key

LoggingStore = TypeVar("LoggingStore", bound=ChangeLoggingStore[Any])

_SEGMENT_BYTES = 8
"""In Kafka, a cache key of a window store or session store begins with a segment number of this many bytes. Cache keys
of this project have no segment number.
"""


class CachingStore(WrappedStateStore[LoggingStore]):
    """The base of the stores with a record cache.

    `cache`: the record cache of this store; None in a standby and in a task without a cache. The cache keys are the
    keys of the changelog.
    """

    key_overhead = 0
    caches_reads = False
    """See `TaskCache.add`."""

    def __init__(self, inner: LoggingStore) -> None:
        super().__init__(inner)
        self._task_cache: TaskCache | None = None
        self.cache: NamedCache | None = None
        self._owner = 0  # the identifier of the task's thread

    # --- open and close

    def close(self) -> None:
        self._unbind()
        super().close()

    def _bind(self, context: StoreContext) -> None:
        self._unbind()
        if context.cache is not None:
            self._owner = get_ident()
            self._task_cache = context.cache
            self.cache = context.cache.add(self.inner, key_overhead=self.key_overhead, caches_reads=self.caches_reads)

    def _unbind(self) -> None:
        cache, self.cache = self.cache, None
        if cache is not None and self._task_cache is not None:
            self._task_cache.remove(cache)
        self._task_cache = None

    # --- reads

    def _read(self, cache: NamedCache, key: bytes) -> bytes | None:
        """Returns the value of a cache key. Any thread may call this method. Only reads of the task's thread count as
        uses of the key.
        """
        if get_ident() == self._owner:
            return cache.get(key)
        entry = cache.peek(key)
        return self.inner.read(key) if entry is None else entry[0]

    def committed(self) -> Any:
        return self.inner.committed()


class CachingKeyValueStore(CachingStore[ChangeLoggingKeyValueBytesStore]):
    """A `KeyValueBytesStore` with a record cache. Values that the task reads from the store below stay in the cache."""

    caches_reads = True

    def put(self, key: bytes, value: bytes | None) -> None:
        if self.cache is None:
            self.inner.put(key, value)
        else:
            self.cache.put(key, value)

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        if self.cache is None:
            self.inner.put_all(entries)
            return
        for key, value in entries:  # check all entries before the first put, so that after an error no entry is put
            self.inner.check(key, value)
        for key, value in entries:
            self.cache.put(key, value)

    def get(self, key: bytes) -> bytes | None:
        # read `self.cache` only once, because the task's thread may close the store and set it to None at any time
        cache = self.cache
        return self.inner.get(key) if cache is None else self._read(cache, key)

    def get_flushed(self, key: bytes) -> bytes | None:
        """Returns a value like `get`, but ignores unflushed changes. Changes of the record that is being processed are
        an exception: the method returns them.
        """
        if self.cache is not None and (entry := self.cache.changed_by_present_record(key)) is not None:
            return entry[0]
        return self.inner.get(key)

    def scan(self, start: bytes | None, exclusive_end: bytes | None, *, reverse: bool = False) -> Entries:
        cache = self.cache
        # Read the cache before the store, because a change may be flushed between the two reads. A change that is
        # flushed between the reads is found twice, which does no harm. In the reverse order, the change could be
        # missed.
        changed = {} if cache is None else cache.dirty_items(is_within(start, exclusive_end))
        return merged(self.inner.scan(start, exclusive_end, reverse=reverse), changed, reverse=reverse)

    def approximate_num_entries(self) -> int:
        """Returns the number of entries of the store below. Does not count unflushed changes in the cache."""
        return self.inner.approximate_num_entries()


class CachingWindowStore(CachingStore[ChangeLoggingWindowBytesStore]):
    """A `WindowBytesStore` with a record cache, without duplicates.

    `segment_interval_ms`: the segment interval of the store below. The cache keys are the window keys. Values that are
    read from the store below are not added to the cache. A change of an expired window is cached and forwarded like any
    other change. The expired window can be read while it is in the cache. When an expired window is flushed, the store
    below drops it.
    """

    key_overhead = _SEGMENT_BYTES

    def __init__(self, inner: ChangeLoggingWindowBytesStore, segment_interval_ms: int) -> None:
        super().__init__(inner)
        self._segment_interval_ms = segment_interval_ms

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> bytes:
        if self.cache is None:
            return self.inner.put(key, value, start_ms)
        self.cache.put(key, value)
        return key

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        cache = self.cache
        # No window starts before 0 or after JAVA_LONG_MAX. If `start_ms` is outside of this range, the caller has made
        # `key` with a different start within the range. The cache may have this `key` for another window, so do not
        # read the cache.
        if cache is None or not 0 <= start_ms <= JAVA_LONG_MAX:
            return self.inner.fetch(key, start_ms)
        return self._read(cache, key)

    def fetch_range(
        self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, bytes]]:
        cache, changed = self.cache, {}
        if cache is not None and from_ms <= to_ms and to_ms >= 0 and from_ms <= JAVA_LONG_MAX:
            first = window_key(key, max(from_ms, 0), 0)
            last = window_key(key, min(to_ms, JAVA_LONG_MAX), MAX_SEQUENCE)
            changed = {suffix_of(each)[0]: value for each, value in cache.items_of(key, first, last)}
        return merged(self.inner.fetch_range(key, from_ms, to_ms, reverse=reverse), changed, reverse=reverse)

    def fetch_all(
        self, from_ms: int, to_ms: int, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, bytes]]:
        is_between = is_key_between(first, last)
        cached = {key: value for key, value in self._cached(from_ms, to_ms).items() if is_between(key[:-SUFFIX_BYTES])}
        stored = self.inner.fetch_all(from_ms, to_ms, first, last, reverse=reverse)
        if not cached:
            return stored
        interval_ms = self._segment_interval_ms
        # The store below returns its windows sorted by segment and window key. So the merge compares pairs of segment
        # and window key.
        changed = {(suffix_of(key)[0] // interval_ms, key): value for key, value in cached.items()}
        by_segment = (
            ((start_ms // interval_ms, window_key(key, start_ms, 0)), value) for key, start_ms, value in stored
        )
        windows = merged(by_segment, changed, reverse=reverse)
        # split each window key into the record's key and the window's start
        return ((key[:-SUFFIX_BYTES], suffix_of(key)[0], value) for (_segment, key), value in windows)

    def _cached(self, from_ms: int, to_ms: int) -> dict[bytes, bytes | None]:
        """Returns the windows in the cache, including windows that have expired in the store below. The caller must
        read the cache before the store below, because a change may be flushed between the two reads. A change that is
        flushed between the reads is found twice, which does no harm. In the reverse order, the change could be missed.
        """
        cache = self.cache
        if cache is None:
            return {}
        return {key: value for key, value in cache.items() if from_ms <= suffix_of(key)[0] <= to_ms}


class CachingSessionStore(CachingStore[ChangeLoggingSessionBytesStore]):
    """A `SessionBytesStore` with a record cache.

    `segment_interval_ms`: the segment interval of the store below. The cache keys are the session keys. Values that are
    read from the store below are not added to the cache.
    """

    key_overhead = _SEGMENT_BYTES

    def __init__(self, inner: ChangeLoggingSessionBytesStore, segment_interval_ms: int) -> None:
        super().__init__(inner)
        self._segment_interval_ms = segment_interval_ms

    def put(self, session_key: bytes, value: bytes | None) -> None:
        if self.cache is None:
            self.inner.put(session_key, value)
        else:
            self.cache.put(session_key, value)

    def remove(self, session_key: bytes) -> None:
        if self.cache is None:
            self.inner.remove(session_key)
        else:
            self.cache.put(session_key, None)

    def fetch_session(self, session_key: bytes) -> bytes | None:
        cache = self.cache
        return self.inner.fetch_session(session_key) if cache is None else self._read(cache, session_key)

    def find_sessions(self, wanted: SessionRange, *, reverse: bool = False) -> Entries:
        # The cache is read before the store, for the reason that `CachingWindowStore._cached` describes.
        cache, key, cached = self.cache, wanted.one_key, []
        if cache is not None:
            lowest, highest = wanted.bounds()
            cached = cache.items() if key is None or highest is None else cache.items_of(key, lowest, highest)
        stored = self.inner.find_sessions(wanted, reverse=reverse)
        if not cached:
            return stored
        changed = dict(wanted.among(cached))
        if key is not None:
            return merged(stored, changed, reverse=reverse)
        # The store below returns the sessions of several keys sorted by segment and session key.
        interval_ms = self._segment_interval_ms
        by_segment = (((end_of(key) // interval_ms, key), value) for key, value in stored)
        changed_by_segment = {(end_of(key) // interval_ms, key): value for key, value in changed.items()}
        return ((key, value) for (_, key), value in merged(by_segment, changed_by_segment, reverse=reverse))

    def find_sessions_by_end(self, earliest_end_ms: int, latest_end_ms: int) -> Entries:
        cached = [] if self.cache is None else self.cache.items()
        found: dict[bytes, bytes | None] = dict(self.inner.find_sessions_by_end(earliest_end_ms, latest_end_ms))
        found.update(entry for entry in cached if earliest_end_ms <= end_of(entry[0]) <= latest_end_ms)
        sessions = ((key, value) for key, value in found.items() if value is not None)
        return iter(sorted(sessions, key=by_window))
