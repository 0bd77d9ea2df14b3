"""Window stores in RocksDB. The windows of a segment have the same key prefix in the store's database. So one range
deletion deletes a whole segment.

On disk, a key consists of the segment's number (8 bytes, big-endian) and the window key. The retention determines the
length of segments. If a new version of an application changes the retention, `open` moves the windows to segments of
the new length. If the retention becomes longer, `open` also requests a restore. The reason is that the changelog may
contain windows that the store has already deleted. Source: `RocksDBWindowStore`, `RocksDBSegmentedBytesStore`.

Differs from Kafka: Kafka has one RocksDB for each segment. A store with one RocksDB needs less memory than a store with
several RocksDBs, and it opens faster. If the retention changes, a store of Kafka does not find its old windows. After a
restart, Kafka does not know the used sequence numbers, so a new duplicate may overwrite an old duplicate. In this
project, a new duplicate never overwrites an old one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from operator import add, itemgetter
from threading import get_ident

from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.errors import ChangelogOfAnotherKind
from streams_runtime.common.records import BytesColumn
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.key_ranges import after
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.state_stores.state_store import StoreContext, WrappedStateStore, ignore_expired, ignore_read_again
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind
from streams_runtime.state_stores.transaction_buffer import TransactionBuffer
from streams_runtime.state_stores.window_keys import (
    MAX_SEQUENCE,
    NO_STREAM_TIME_MS,
    SEGMENT_BYTES,
    START,
    SUFFIX_BYTES,
    WindowRetention,
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

_Database = TransactionBuffer | RocksDBStore

_window_starts = itemgetter(START)
_MOVE_BATCH_SIZE = 10_000

_logger = logging.getLogger(__name__)


class RocksDBWindowStore(WrappedStateStore[TransactionBuffer]):
    """A `WindowBytesStore` on disk."""

    def __init__(self, name: str, retention_ms: int, *, retain_duplicates: bool, timestamped: bool = False) -> None:
        """`timestamped`: True if each value begins with its timestamp."""
        self._file_format = window_format(retention_ms, retain_duplicates=retain_duplicates, timestamped=timestamped)
        super().__init__(TransactionBuffer(RocksDBStore(name, self._file_format, self._convert), self._note_eviction))
        self._retain_duplicates = retain_duplicates
        self._retention = WindowRetention(retention_ms)
        self._segments: tuple[int, ...] = ()
        """The numbers of the segments with windows, in ascending order. The tuple is always replaced as a whole,
        because other threads read it.
        """
        self._sequence = 0
        self._expired: Callable[[str], None] = ignore_expired
        self._read_again: Callable[[str, str], None] = ignore_read_again
        self._newest_ms = NO_STREAM_TIME_MS
        """An upper bound for the starts of all windows in the store."""
        self._numbered_to_ms = NO_STREAM_TIME_MS
        """Windows up to this start may have duplicates with numbers that this object has not assigned yet."""
        self._in_memory_from_ms = 0
        """All windows with this start or a later start are in memory, and are never read from RocksDB.
        """

    def open(self, context: StoreContext) -> None:
        if self.is_open:
            return
        self._read_again = context.read_again
        super().open(context)
        self._retention = WindowRetention(self._retention.retention_ms)
        self._segments = tuple(self._existing_segments())
        self._sequence = 0
        interval_ms = self._retention.segment_interval_ms
        self._newest_ms = (self._segments[-1] + 1) * interval_ms - 1 if self._segments else NO_STREAM_TIME_MS
        self._numbered_to_ms = self._newest_ms
        self._note_eviction()

    def _bind(self, context: StoreContext) -> None:
        self._expired = context.expired

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> int:
        retention, sequence = self._retention, 0
        segment = start_ms // retention.segment_interval_ms
        if self._retain_duplicates:
            sequence = self._sequence = self._next_sequence(_prefix(segment) + key, start_ms)
            if value is None:
                return sequence
        if start_ms > retention.observed_ms and retention.observe(start_ms):
            self._drop_expired()
        if segment < retention.first_live_segment:
            self.inner.require_open()
            self._expired(self.name)
            return sequence
        stored = _prefix(segment) + key
        if sequence:
            stored = window_key(stored[:-SUFFIX_BYTES], start_ms, sequence)
        if segment not in self._segments:
            self._segments = tuple(sorted((*self._segments, segment)))
        if start_ms > self._newest_ms:
            self._newest_ms = start_ms
        self.inner.put(stored, value)
        return sequence

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        buffer, retention = self.inner, self._retention
        if (
            start_ms >= self._in_memory_from_ms
            and start_ms >= retention.earliest_readable_ms
            and get_ident() == buffer.owner_thread
        ):
            if start_ms > self._newest_ms:
                return None
            if not self._retain_duplicates:
                return buffer.get_in_memory(_prefix(start_ms // retention.segment_interval_ms) + key)
        return self.fetch_from(buffer, key, start_ms)

    def fetch_range(
        self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, bytes]]:
        return self.fetch_range_from(self.inner, key, from_ms, to_ms, reverse)

    def fetch_all(
        self, from_ms: int, to_ms: int, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, bytes]]:
        return self.fetch_all_from(self.inner, from_ms, to_ms, (first, last), reverse)

    def committed(self) -> CommittedWindows:
        return CommittedWindows(self)

    # The methods of `WindowBytesStore`, with a `database` to read from: with or without the uncommitted changes.

    def fetch_from(self, database: _Database, key: bytes, start_ms: int) -> bytes | None:
        if start_ms < self._retention.earliest_readable_ms:
            self.inner.require_open()
            return None
        stored = _prefix(start_ms // self._retention.segment_interval_ms) + key
        if not self._retain_duplicates:
            return database.get(stored)
        last = window_key(stored[:-SUFFIX_BYTES], start_ms, MAX_SEQUENCE)
        newest_first = database.scan(stored, after(last), reverse=True)
        # A longer key can begin with this key, and its entries can be between these bounds. So check the length of each
        # stored key.
        return next((value for found, value in newest_first if len(found) == len(last)), None)

    def fetch_range_from(
        self, database: _Database, key: bytes, from_ms: int, to_ms: int, reverse: bool
    ) -> Iterator[tuple[int, bytes]]:
        from_ms, to_ms = max(from_ms, self._retention.earliest_readable_ms), min(to_ms, JAVA_LONG_MAX)
        length = SEGMENT_BYTES + len(key) + SUFFIX_BYTES
        ranges = []
        for segment in self._segments_between(from_ms, to_ms, reverse):
            prefixed = _prefix(segment) + key
            first, last = window_key(prefixed, from_ms, 0), window_key(prefixed, to_ms, MAX_SEQUENCE)
            ranges.append((first, after(last)))
        # All stored keys between `first` and `last` begin with `key`. A stored key that is longer than `first` belongs
        # to a longer record key.
        entries = database.scan_ranges(ranges, reverse=reverse)
        return ((suffix_of(stored)[0], value) for stored, value in entries if len(stored) == length)

    def fetch_all_from(
        self,
        database: _Database,
        from_ms: int,
        to_ms: int,
        keys: tuple[bytes | None, bytes | None],
        reverse: bool,
    ) -> Iterator[tuple[bytes, int, bytes]]:
        """`keys`: the first and the last key; None for no bound."""
        from_ms, (first, last) = max(from_ms, self._retention.earliest_readable_ms), keys
        end = None if last is None else after(last_window_key(last))
        ranges = [
            (_prefix(segment) + (first or b""), _prefix(segment + 1) if end is None else _prefix(segment) + end)
            for segment in self._segments_between(from_ms, to_ms, reverse)
        ]
        windows = _decoded(database.scan_ranges(ranges, reverse=reverse), from_ms, to_ms)
        is_between = is_key_between(first, last)
        return windows if first is last is None else (window for window in windows if is_between(window[0]))

    def restore(self, batch: RecordBatch) -> None:
        """Writes changelog records to the store. Raises ChangelogOfAnotherKind if a key is not a window key."""
        keys, values, starts = _columns(batch)
        offset = batch.offsets[-1]
        if not keys:
            self.inner.restore_columns((), (), offset)
            return
        if not are_window_keys(keys, starts, duplicates=self._retain_duplicates):
            foreign = next(key for key in keys if not is_window_key(key, duplicates=self._retain_duplicates))
            raise ChangelogOfAnotherKind(self.name, batch.partition, batch.offsets, foreign, "window")
        # the starts are big-endian and not negative, so the order of their bytes is the order of the times
        first, last = int.from_bytes(min(starts), "big"), int.from_bytes(max(starts), "big")
        expired = self._retention.observe(last)
        self._newest_ms = self._numbered_to_ms = max(self._newest_ms, last)
        self._write_restored(keys, values, starts, first, last, offset)
        if expired:
            self._drop_expired()

    def _write_restored(
        self, keys: Sequence[bytes], values: BytesColumn, starts: list[bytes], first: int, last: int, offset: int
    ) -> None:
        interval_ms, first_live = self._retention.segment_interval_ms, self._retention.first_live_segment
        segment = first // interval_ms
        if segment == last // interval_ms:
            if segment < first_live:
                self.inner.restore_columns((), (), offset)
                return
            found = {segment}
            stored = map(add, repeat(_prefix(segment)), keys)
        else:
            segment_of = {start: int.from_bytes(start, "big") // interval_ms for start in set(starts)}
            found = {number for number in segment_of.values() if number >= first_live}
            if segment < first_live:
                live = [index for index, start in enumerate(starts) if segment_of[start] >= first_live]
                keys, starts = [keys[index] for index in live], [starts[index] for index in live]
                values = [values[index] for index in live]
            prefixes = {start: _prefix(number) for start, number in segment_of.items()}
            stored = map(add, map(prefixes.__getitem__, starts), keys)
        self._segments = tuple(sorted(found.union(self._segments)))
        # `RocksDBStore.write` iterates over the keys only once, so an iterator of keys is passed and no list is made.
        self.inner.restore_columns(stored if all(values) else list(stored), values, offset)

    def _next_sequence(self, stored: bytes, start_ms: int) -> int:
        """Returns the next sequence number that the key does not have in this window. After a restart or a restore, the
        store may have duplicates with the next numbers. `stored`: the key in the database, with any sequence number.
        """
        sequence = next_sequence(self._sequence)
        while (
            start_ms <= self._numbered_to_ms
            and self.inner.get(window_key(stored[:-SUFFIX_BYTES], start_ms, sequence)) is not None
        ):
            sequence = next_sequence(sequence)
        if sequence < self._sequence:  # after the highest number, the numbers begin again
            self._numbered_to_ms = self._newest_ms
        return sequence

    def _note_eviction(self) -> None:
        """Is called when keys have left the read cache. After an eviction, some present windows may be only in RocksDB.
        Windows that are newer than all present windows will be in memory.
        """
        self._in_memory_from_ms = self._newest_ms + 1

    def _drop_expired(self) -> None:
        first_live = self._retention.first_live_segment
        if self._segments and self._segments[0] < first_live:
            self.inner.delete_range(_prefix(self._segments[0]), _prefix(first_live))
            self._segments = tuple(segment for segment in self._segments if segment >= first_live)

    def _segments_between(self, from_ms: int, to_ms: int, reverse: bool) -> list[int]:
        """Returns the segments with these starts in ascending order, or in descending order if `reverse` is True."""
        self.inner.require_open()
        interval_ms = self._retention.segment_interval_ms
        first, last = from_ms // interval_ms, to_ms // interval_ms
        segments = reversed(self._segments) if reverse else self._segments
        return [segment for segment in segments if first <= segment <= last] if from_ms <= to_ms else []

    def _convert(self, database: RocksDBStore, found: StoreFormat | None) -> None:
        """Converts files that have a different retention or an unknown format. Called by `RocksDBStore.open`."""
        retention_ms, interval_ms = self._retention.retention_ms, self._retention.segment_interval_ms
        moved = 0
        if found is None or found.segment_interval_ms != interval_ms:
            moved = self._move_windows(database, found)
        if moved:
            _logger.info(
                "store %s: %d windows were moved to segments of %d ms, since its retention is %d ms now",
                self.name,
                moved,
                interval_ms,
                retention_ms,
            )
        found_ms = None if found is None else found.retention_ms
        is_longer = found_ms is not None and found_ms < retention_ms
        # After a crash during the move of windows, the format file may have no retention.
        was_unknown = found_ms is None and (moved > 0 or found is not None)
        if is_longer or was_unknown:
            was = "another" if found_ms is None else f"{found_ms} ms"
            self._read_again(self.name, f"its retention is {retention_ms} ms and was {was}")
            database.forget_offset()

    def _move_windows(self, database: RocksDBStore, found: StoreFormat | None) -> int:
        """Moves each window to the segment in which this store looks for it. Returns the number of moved windows.

        After a crash, the move can be repeated, even with the old retention. The reason is that each batch is written
        atomically, and that the format file has no segment length until all windows are moved. If a window exists under
        its old key and under its new key, the value under the new key is kept. This value is newer, because the newest
        version of the application has put it.
        """
        moved = 0
        changes: dict[bytes | None, bytes | None] = {}
        for stored, value in database.scan(None, None):
            new_key = self._key_in_its_segment(database, stored)
            if new_key == stored:
                continue
            if not moved:
                retention_ms = None if found is None else found.retention_ms
                database.record_format(StoreFormat(self._file_format.kind, retention_ms))
            moved += 1
            changes[stored] = None
            if database.get(new_key) is None:
                changes[new_key] = value
            if len(changes) >= _MOVE_BATCH_SIZE:
                database.write(changes.keys(), changes.values())
                changes = {}
        if changes:
            database.write(changes.keys(), changes.values())
        return moved

    def _key_in_its_segment(self, database: RocksDBStore, stored: bytes) -> bytes:
        """Returns the key that this store uses for the window.

        Raises StoreOfAnotherKind if `stored` is not a window key.
        """
        if not are_segmented_window_keys(stored) or not is_window_key(stored, duplicates=self._retain_duplicates):
            raise database.wrong_kind("keys of another kind")
        return _prefix(suffix_of(stored)[0] // self._retention.segment_interval_ms) + stored[SEGMENT_BYTES:]

    def _existing_segments(self) -> Iterator[int]:
        start = b""
        while (entry := next(self.inner.scan(start, None), None)) is not None:
            segment = int.from_bytes(entry[0][:SEGMENT_BYTES], "big")
            yield segment
            start = _prefix(segment + 1)


class CommittedWindows:
    """Reads a window store without its uncommitted changes. Expired windows are left out by the stream time of all
    changes, including uncommitted changes.
    """

    def __init__(self, store: RocksDBWindowStore) -> None:
        self._store = store
        self._database = store.inner.committed()

    @property
    def name(self) -> str:
        return self._store.name

    @property
    def is_open(self) -> bool:
        return self._store.is_open

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        return self._store.fetch_from(self._database, key, start_ms)

    def fetch_range(
        self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, bytes]]:
        return self._store.fetch_range_from(self._database, key, from_ms, to_ms, reverse)

    def fetch_all(
        self, from_ms: int, to_ms: int, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, bytes]]:
        return self._store.fetch_all_from(self._database, from_ms, to_ms, (first, last), reverse)


def window_format(retention_ms: int, *, retain_duplicates: bool, timestamped: bool) -> StoreFormat:
    """Returns the format of the files of a window store."""
    kind = StoreKind.TIMESTAMPED_WINDOW if timestamped else StoreKind.WINDOW
    if retain_duplicates:
        kind = StoreKind.DUPLICATES_WINDOW
    return StoreFormat(kind, retention_ms, segment_interval_ms(retention_ms))


@lru_cache(maxsize=1024)
def _prefix(segment: int) -> bytes:
    return segment.to_bytes(SEGMENT_BYTES, "big")


def _columns(batch: RecordBatch) -> tuple[Sequence[bytes], BytesColumn, list[bytes]]:
    """Returns three columns of the records that have a key: the keys, the values, and the window starts as bytes."""
    keys: Sequence[bytes] = batch.keys  # type: ignore[assignment]  # if a key is None, the lines below raise TypeError
    try:
        return keys, batch.values, list(map(_window_starts, keys))
    except TypeError:
        keys = [key for key in batch.keys if key is not None]
        values = [value for key, value in zip(batch.keys, batch.values, strict=True) if key is not None]
        return keys, values, list(map(_window_starts, keys))


def _decoded(entries: Iterator[tuple[bytes, bytes]], from_ms: int, to_ms: int) -> Iterator[tuple[bytes, int, bytes]]:
    for stored, value in entries:
        start_ms, _ = suffix_of(stored)
        if from_ms <= start_ms <= to_ms:
            yield stored[SEGMENT_BYTES:-SUFFIX_BYTES], start_ms, value
