"""Session stores in RocksDB. `rocksdb_segments` describes segments, retention and the index by time. Source:
`RocksDBSessionStore`, `RocksDBTimeOrderedSessionStore`.
"""

from __future__ import annotations

from assignor.types import JAVA_LONG_MAX
from streams_runtime.state_stores.key_ranges import after
from streams_runtime.state_stores.rocksdb_segments import (
    CommittedReads,
    Database,
    RocksDBSegmentedStore,
    SegmentedKeys,
    segment_prefix,
)
from streams_runtime.state_stores.session_keys import (
    END,
    SESSION_SUFFIX_BYTES,
    WINDOW,
    are_session_keys,
    by_window,
    end_of,
    is_session_key,
    is_within,
    last_session_key,
    session_key,
)
from streams_runtime.state_stores.state_store import Entries
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind
from streams_runtime.state_stores.window_keys import SEGMENT_BYTES, segment_interval_ms

_KEYS = SegmentedKeys(
    kind="session",
    time=END,
    order=WINDOW,
    order_bytes=SESSION_SUFFIX_BYTES,
    suffix_bytes=SESSION_SUFFIX_BYTES,
    is_key=is_session_key,
    are_keys=are_session_keys,
)


class RocksDBSessionStore(RocksDBSegmentedStore):
    """A `SessionBytesStore` on disk. `time_ordered`: True if `find_sessions_by_end` has to be fast."""

    def __init__(self, name: str, retention_ms: int, *, time_ordered: bool = False) -> None:
        interval_ms = segment_interval_ms(retention_ms)
        super().__init__(name, StoreFormat(StoreKind.SESSION, retention_ms, interval_ms, time_ordered), _KEYS)

    def put(self, session_key: bytes, value: bytes | None) -> None:
        end_ms = end_of(session_key)
        if self.observe(end_ms):
            self.put_live(session_key, value, end_ms)
        else:
            self.inner.require_open()
            self._expired(self.name)

    def remove(self, session_key: bytes) -> None:
        end_ms = end_of(session_key)
        if self.observe(end_ms):
            self.put_live(session_key, None, end_ms)

    def fetch_session(self, session_key: bytes) -> bytes | None:
        return self.fetch_from(self.inner, session_key)

    def find_sessions(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end_ms: int,
        latest_start_ms: int,
        *,
        reverse: bool = False,
    ) -> Entries:
        return self.find_from(self.inner, from_key, to_key, (earliest_end_ms, latest_start_ms), reverse)

    def find_sessions_by_end(self, earliest_end_ms: int, latest_end_ms: int) -> Entries:
        return self.find_by_end_from(self.inner, earliest_end_ms, latest_end_ms)

    def committed(self) -> CommittedSessions:
        return CommittedSessions(self)

    # The reads of `SessionBytesStore`, with a `database` to read from: with or without the uncommitted changes.

    def fetch_from(self, database: Database, session_key: bytes) -> bytes | None:
        end_ms = end_of(session_key)
        if not self._retention.earliest_readable_ms <= end_ms <= JAVA_LONG_MAX:
            self.inner.require_open()
            return None
        return database.get(segment_prefix(end_ms // self._retention.segment_interval_ms) + session_key)

    def find_from(
        self, database: Database, from_key: bytes | None, to_key: bytes | None, times: tuple[int, int], reverse: bool
    ) -> Entries:
        """`times`: the earliest end and the latest start."""
        earliest_ms, latest_ms = max(times[0], self._retention.earliest_readable_ms), min(times[1], JAVA_LONG_MAX)
        self.inner.require_open()
        if latest_ms < 0 or earliest_ms > JAVA_LONG_MAX:
            return iter(())
        entries = None
        if database is self.inner and from_key is not None and from_key == to_key:
            last = session_key(from_key, latest_ms, JAVA_LONG_MAX)
            entries = self.entries_of_key(from_key, session_key(from_key, 0, earliest_ms), last)
        stored = self._scanned(database, from_key, to_key, earliest_ms, latest_ms) if entries is None else entries
        found = (entry for entry in stored if is_within(entry[0], from_key, to_key, earliest_ms, latest_ms))
        return reversed(list(found)) if reverse else found

    def _scanned(
        self, database: Database, from_key: bytes | None, to_key: bytes | None, earliest_ms: int, latest_ms: int
    ) -> Entries:
        """Returns the entries of `find_sessions`, and some more."""

        def ranges() -> list[tuple[bytes, bytes]]:
            return [range_in(segment) for segment in self.segments_between(earliest_ms, JAVA_LONG_MAX)]

        def range_in(segment: int) -> tuple[bytes, bytes]:
            prefix, exclusive_end = segment_prefix(segment), segment_prefix(segment + 1)
            if to_key is not None:
                exclusive_end = after(prefix + last_session_key(to_key, latest_ms))
            is_one_key = from_key == to_key and from_key is not None
            first = prefix + (from_key or b"")
            return session_key(first, 0, earliest_ms) if is_one_key else first, exclusive_end

        return ((key[SEGMENT_BYTES:], value) for key, value in self.scan_segments(database, ranges))

    def find_by_end_from(self, database: Database, earliest_end_ms: int, latest_end_ms: int) -> Entries:
        if self._file_format.time_ordered:
            # as in Kafka, this read includes sessions that have expired and whose segments still exist
            return self.entries_by_time(database, earliest_end_ms, latest_end_ms)
        found = self.find_from(database, None, None, (earliest_end_ms, JAVA_LONG_MAX), reverse=False)
        return iter(sorted((entry for entry in found if end_of(entry[0]) <= latest_end_ms), key=by_window))


class CommittedSessions(CommittedReads[RocksDBSessionStore]):
    """Reads a session store without its uncommitted changes."""

    def fetch_session(self, session_key: bytes) -> bytes | None:
        return self._store.fetch_from(self._database, session_key)

    def find_sessions(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        earliest_end_ms: int,
        latest_start_ms: int,
        *,
        reverse: bool = False,
    ) -> Entries:
        return self._store.find_from(self._database, from_key, to_key, (earliest_end_ms, latest_start_ms), reverse)

    def find_sessions_by_end(self, earliest_end_ms: int, latest_end_ms: int) -> Entries:
        return self._store.find_by_end_from(self._database, earliest_end_ms, latest_end_ms)
