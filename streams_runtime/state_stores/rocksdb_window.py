"""Window stores in RocksDB. `rocksdb_segments` describes segments, retention and the index by time. Source:
`RocksDBWindowStore`, `RocksDBTimeOrderedWindowStore`.

Differs from Kafka: after a restart, Kafka does not know the used sequence numbers, so a new duplicate may overwrite an
old duplicate. In this project, a new duplicate comes after the old duplicates of its key and time.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import get_ident

from assignor.types import JAVA_LONG_MAX
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.key_ranges import after
from streams_runtime.state_stores.rocksdb_segments import RocksDBSegmentedStore, SegmentedKeys, segment_prefix
from streams_runtime.state_stores.state_store import StoreContext
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind
from streams_runtime.state_stores.window_keys import (
    MAX_SEQUENCE,
    NO_STREAM_TIME_MS,
    SEGMENT_BYTES,
    START,
    SUFFIX_BYTES,
    are_segmented_window_keys,
    are_window_keys,
    is_key_between,
    is_window_key,
    last_window_key,
    next_sequence,
    segment_interval_ms,
    suffix_of,
    window_key,
)


class RocksDBWindowStore(RocksDBSegmentedStore):
    """A `WindowBytesStore` on disk."""

    def __init__(
        self,
        name: str,
        retention_ms: int,
        *,
        retain_duplicates: bool,
        timestamped: bool = False,
        time_ordered: bool = False,
    ) -> None:
        """`timestamped`: True if each value begins with its timestamp. `time_ordered`: True if `fetch_all` has to
        return the windows in the order of time.
        """
        file_format = window_format(
            retention_ms, retain_duplicates=retain_duplicates, timestamped=timestamped, time_ordered=time_ordered
        )
        keys = SegmentedKeys(
            kind="window",
            time=START,
            order=START,
            order_bytes=SEGMENT_BYTES,
            suffix_bytes=SUFFIX_BYTES,
            is_key=lambda key: is_window_key(key, duplicates=retain_duplicates),
            are_keys=lambda keys, starts: are_window_keys(keys, starts, duplicates=retain_duplicates),
        )
        super().__init__(name, file_format, keys, reads_expiring=time_ordered)
        self._retain_duplicates = retain_duplicates
        self._sequence = 0
        self._numbered_to_ms = NO_STREAM_TIME_MS
        """Windows up to this start may have duplicates with numbers that this object has not assigned yet."""

    def open(self, context: StoreContext) -> None:
        if not self.is_open:
            self._sequence = 0
            super().open(context)
            self._numbered_to_ms = self._known.newest_ms

    def restore(self, batch: RecordBatch) -> None:
        super().restore(batch)
        self._numbered_to_ms = self._known.newest_ms

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> bytes:
        if self._retain_duplicates:
            self._sequence = self._next_sequence(key, start_ms)
            key = window_key(key[:-SUFFIX_BYTES], start_ms, self._sequence)
            if value is None:
                return key
        if not self.put_live(key, value, start_ms):
            self.inner.require_open()
            self._expired(self.name)
        return key

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        buffer, retention = self.inner, self._retention
        if start_ms < retention.earliest_readable_ms:
            buffer.require_open()
            return None
        stored = segment_prefix(start_ms // retention.segment_interval_ms) + key
        if self._retain_duplicates:
            newest = self._newest_duplicate(stored[:-SUFFIX_BYTES], start_ms)
            return None if newest is None else newest[1]
        if start_ms < self._in_memory_from_ms or get_ident() != buffer.owner_thread:
            return buffer.get(stored)
        return None if start_ms > self._known.newest_ms else buffer.get_in_memory(stored)

    def fetch_range(
        self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, bytes]]:
        known = self.known_keys(key, from_ms, to_ms)
        if known is not None:
            if not known:  # frequent in joins, and cheaper than an iterator over no keys
                return iter(())
            found, get = reversed(known) if reverse else known, self.inner.get
            return ((suffix_of(stored)[0], value) for stored in found if (value := get(stored)) is not None)
        from_ms, to_ms = max(from_ms, self._retention.earliest_readable_ms), min(to_ms, JAVA_LONG_MAX)
        length = SEGMENT_BYTES + len(key) + SUFFIX_BYTES

        def ranges() -> list[tuple[bytes, bytes]]:
            prefixes = (segment_prefix(each) + key for each in self.segments_between(from_ms, to_ms, reverse))
            return [
                (window_key(prefixed, from_ms, 0), after(window_key(prefixed, to_ms, MAX_SEQUENCE)))
                for prefixed in prefixes
            ]

        # All stored keys of the ranges begin with `key`. A stored key that is longer than `length` belongs to a longer
        # record key.
        entries = self.scan_segments(ranges, reverse=reverse)
        return ((suffix_of(stored)[0], value) for stored, value in entries if len(stored) == length)

    def fetch_all(
        self, from_ms: int, to_ms: int, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, bytes]]:
        from_ms = max(from_ms, self._retention.earliest_readable_ms)
        windows: Iterator[tuple[bytes, int, bytes]]
        if self._file_format.time_ordered:
            found = self.entries_by_time(from_ms, to_ms, reverse)
            windows = ((key[:-SUFFIX_BYTES], suffix_of(key)[0], value) for key, value in found)
        else:
            end = None if last is None else after(last_window_key(last))

            def ranges() -> list[tuple[bytes, bytes]]:
                return [
                    (
                        segment_prefix(segment) + (first or b""),
                        segment_prefix(segment + 1) if end is None else segment_prefix(segment) + end,
                    )
                    for segment in self.segments_between(from_ms, to_ms, reverse)
                ]

            windows = _decoded(self.scan_segments(ranges, reverse=reverse), from_ms, to_ms)
        is_between = is_key_between(first, last)
        return windows if first is last is None else (window for window in windows if is_between(window[0]))

    def _newest_duplicate(self, prefixed: bytes, start_ms: int) -> tuple[bytes, bytes] | None:
        """Returns the stored key and the value with a key's highest sequence number in a window; None if the key has no
        duplicates there. `prefixed`: the segment's prefix and the key.
        """
        first, last = window_key(prefixed, start_ms, 0), window_key(prefixed, start_ms, MAX_SEQUENCE)
        newest_first = self.inner.scan(first, after(last), reverse=True)
        # A longer key can begin with this key, and its entries can be between these bounds. So check the length of each
        # stored key.
        return next((entry for entry in newest_first if len(entry[0]) == len(last)), None)

    def _next_sequence(self, key: bytes, start_ms: int) -> int:
        """Returns the next sequence number that is above all numbers of the key in this window. After a restart, the
        store begins to number again, and a new duplicate has to come after the old duplicates. `key`: the window key
        with any sequence number.
        """
        sequence = next_sequence(self._sequence)
        if start_ms <= self._numbered_to_ms:
            prefixed = segment_prefix(start_ms // self._retention.segment_interval_ms) + key[:-SUFFIX_BYTES]
            newest = self._newest_duplicate(prefixed, start_ms)
            if newest is not None:
                sequence = max(sequence, next_sequence(suffix_of(newest[0])[1]))
            while self.inner.get(window_key(prefixed, start_ms, sequence)) is not None:
                sequence = next_sequence(sequence)
        if sequence < self._sequence:  # after the highest number, the numbers begin again
            self._numbered_to_ms = self._known.newest_ms
        return sequence

    def _note_eviction(self) -> None:
        """After an eviction, some present windows may be only in RocksDB. Windows that are newer than all present
        windows will be in memory.
        """
        super()._note_eviction()
        self._in_memory_from_ms = self._known.newest_ms + 1
        """All windows with this start or a later start are in memory, and are never read from RocksDB."""

    def _may_be_stored(self, stored: bytes) -> bool:
        return are_segmented_window_keys(stored)


def window_format(
    retention_ms: int, *, retain_duplicates: bool, timestamped: bool, time_ordered: bool = False
) -> StoreFormat:
    """Returns the format of the files of a window store."""
    kind = StoreKind.TIMESTAMPED_WINDOW if timestamped else StoreKind.WINDOW
    if retain_duplicates:
        kind = StoreKind.DUPLICATES_WINDOW
    return StoreFormat(kind, retention_ms, segment_interval_ms(retention_ms), time_ordered)


def _decoded(entries: Iterator[tuple[bytes, bytes]], from_ms: int, to_ms: int) -> Iterator[tuple[bytes, int, bytes]]:
    for stored, value in entries:
        start_ms, _ = suffix_of(stored)
        if from_ms <= start_ms <= to_ms:
            yield stored[SEGMENT_BYTES:-SUFFIX_BYTES], start_ms, value
