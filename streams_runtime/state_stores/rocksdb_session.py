"""Session stores in RocksDB. `rocksdb_segments` describes segments, retention and the index by time. Source:
`RocksDBSessionStore`, `RocksDBTimeOrderedSessionStore`.
"""

from __future__ import annotations

from assignor.types import JAVA_LONG_MAX
from streams_runtime.state_stores.key_ranges import after
from streams_runtime.state_stores.rocksdb_segments import RocksDBSegmentedStore, SegmentedKeys, segment_prefix
from streams_runtime.state_stores.session_keys import (
    END,
    SESSION_SUFFIX_BYTES,
    WINDOW,
    SessionRange,
    are_session_keys,
    by_window,
    end_of,
    is_session_key,
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
        if not self.put_live(session_key, value, end_of(session_key)):
            self.inner.require_open()
            self._expired(self.name)

    def remove(self, session_key: bytes) -> None:
        self.put_live(session_key, None, end_of(session_key))

    def fetch_session(self, session_key: bytes) -> bytes | None:
        end_ms = end_of(session_key)
        if not self._retention.earliest_readable_ms <= end_ms <= JAVA_LONG_MAX:
            self.inner.require_open()
            return None
        return self.inner.get(segment_prefix(end_ms // self._retention.segment_interval_ms) + session_key)

    def find_sessions(self, wanted: SessionRange, *, reverse: bool = False) -> Entries:
        wanted, get = wanted.from_end(self._retention.earliest_readable_ms), self.inner.get
        known = None
        if wanted.one_key is not None:
            known = self.known_keys(wanted.one_key, wanted.earliest_end_ms, JAVA_LONG_MAX)
        if known is None:
            entries = self._scanned(wanted)
        else:
            entries = ((stored[SEGMENT_BYTES:], value) for stored in known if (value := get(stored)) is not None)
        found = wanted.among(entries)
        return reversed(list(found)) if reverse else found

    def _scanned(self, wanted: SessionRange) -> Entries:
        """Returns the entries of `find_sessions`, and some more."""

        lowest, highest = wanted.bounds()

        def ranges() -> list[tuple[bytes, bytes]]:
            return [range_in(segment) for segment in self.segments_between(wanted.earliest_end_ms, JAVA_LONG_MAX)]

        def range_in(segment: int) -> tuple[bytes, bytes]:
            prefix = segment_prefix(segment)
            return prefix + lowest, segment_prefix(segment + 1) if highest is None else after(prefix + highest)

        return ((key[SEGMENT_BYTES:], value) for key, value in self.scan_segments(ranges))

    def find_sessions_by_end(self, earliest_end_ms: int, latest_end_ms: int) -> Entries:
        if self._file_format.time_ordered:
            # as in Kafka, this read includes sessions that have expired and whose segments still exist
            return self.entries_by_time(earliest_end_ms, latest_end_ms)
        found = self.find_sessions(SessionRange(None, None, earliest_end_ms, JAVA_LONG_MAX))
        return iter(sorted((entry for entry in found if end_of(entry[0]) <= latest_end_ms), key=by_window))
