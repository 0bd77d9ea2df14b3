"""The bases of the stores in RocksDB with segments: `SegmentedStore` of all of them, and `RocksDBSegmentedStore` of
window stores and session stores, whose entries expire.

The entries of a segment have the same key prefix in the store's database. So one range deletion deletes a whole
segment. On disk, a key consists of the segment's number (8 bytes, big-endian) and the key of the changelog. The
retention determines the length of segments. If a new version of an application changes the retention, `open` moves the
entries to segments of the new length. If the retention becomes longer, `open` also requests a restore. The reason is
that the changelog may contain entries that the store has already deleted.

A store with the order of time also has an index: for each entry, a key that begins with the time of the entry. The
index keys begin with the byte 0x80, so they are after all segments. If a new version of an application begins or ends
to need the order of time, `open` makes or deletes the index.
Source: `AbstractRocksDBSegmentedBytesStore`, `AbstractSegments`, `AbstractRocksDBTimeOrderedSegmentedBytesStore`.

Differs from Kafka: Kafka has one RocksDB for each segment. A store with one RocksDB needs less memory than a store with
several RocksDBs, and it opens faster. If the retention changes, a store of Kafka does not find its old entries.
"""

from __future__ import annotations

import logging
import struct
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from operator import add, itemgetter
from threading import get_ident

from streams_runtime.common.errors import ChangelogOfAnotherKind
from streams_runtime.common.records import BytesColumn
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.known_keys import KnownKeys
from streams_runtime.state_stores.rocksdb import RocksDBStore, last_values
from streams_runtime.state_stores.state_store import (
    Entries,
    StoreContext,
    WrappedStateStore,
    ignore_expired,
    ignore_read_again,
)
from streams_runtime.state_stores.store_format import StoreFormat
from streams_runtime.state_stores.transaction_buffer import TransactionBuffer
from streams_runtime.state_stores.window_keys import NO_STREAM_TIME_MS, SEGMENT_BYTES, WindowRetention

INDEX = b"\x80"
"""The first byte of all index keys. Segment numbers are not negative, so their first byte is lower."""

_MOVE_BATCH_SIZE = 10_000

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SegmentedKeys:
    """The byte format of the keys in a changelog. `kind`: the kind of store, for errors. `time`: the slice with the
    time that decides the segment, as 8 big-endian bytes. `order`: the slice that an index key has before the key
    itself; it begins with the time. `order_bytes`: the length of this slice. `suffix_bytes`: the number of bytes after
    the record key. `is_key`: returns True if a store of this kind may have written the key. `are_keys`: a function
    (keys, their slices `time`) that returns True if `is_key` is True for all keys.
    """

    kind: str
    time: slice
    order: slice
    order_bytes: int
    suffix_bytes: int
    is_key: Callable[[bytes], bool]
    are_keys: Callable[[Sequence[bytes], Sequence[bytes]], bool]

    def time_of(self, key: bytes) -> int:
        return int.from_bytes(key[self.time], "big")


class Segments:
    """The numbers of the segments with entries, in ascending order. The tuple is always replaced as a whole, because
    other threads read it. A store and its views for queries share one object.
    """

    numbers: tuple[int, ...] = ()


class SegmentedStore(WrappedStateStore[TransactionBuffer]):
    """The base of all stores on disk with segments. `first_other_key`: the first key that belongs to no segment."""

    def __init__(self, buffer: TransactionBuffer, first_other_key: bytes) -> None:
        super().__init__(buffer)
        self._first_other_key = first_other_key
        self._segments = Segments()
        self._expired: Callable[[str], None] = ignore_expired
        self._read_again: Callable[[str, str], None] = ignore_read_again

    def open(self, context: StoreContext) -> None:
        if self.is_open:
            return
        self._read_again = context.read_again
        super().open(context)
        self._segments.numbers = tuple(existing_segments(self.inner, self._first_other_key))
        self._opened()

    @abstractmethod
    def _opened(self) -> None:
        """Resets the stream time. Called after the store was opened."""

    def _bind(self, context: StoreContext) -> None:
        self._expired = context.expired


class RocksDBSegmentedStore(SegmentedStore):
    """The segments of a store on disk, and their restore and expiry. A view without the uncommitted changes leaves out
    entries that have expired by the stream time of all changes.
    """

    def __init__(
        self, name: str, file_format: StoreFormat, keys: SegmentedKeys, *, reads_expiring: bool = False
    ) -> None:
        """`file_format`: with a retention and a segment interval. `reads_expiring`: see `WindowRetention`."""
        self._file_format = file_format
        self._reads_expiring = reads_expiring
        database = RocksDBStore(name, file_format, self._convert)
        super().__init__(TransactionBuffer(database, self._note_eviction), INDEX)
        self._keys = keys
        self._times_of = itemgetter(keys.time)
        self._opened()

    def _opened(self) -> None:
        retention_ms, segments = self._file_format.retention_ms, self._segments.numbers
        assert retention_ms is not None
        self._retention = WindowRetention(retention_ms, self._drop_expired, reads_expiring=self._reads_expiring)
        newest_ms = (segments[-1] + 1) * self._retention.segment_interval_ms - 1 if segments else NO_STREAM_TIME_MS
        keys = self._keys
        self._known = KnownKeys(keys.suffix_bytes, keys.time_of, self._retention, newest_ms, self._stored_keys)
        self._note_eviction()

    def _note_eviction(self) -> None:
        """Is called when keys have left the read cache, or are written to RocksDB directly."""
        self._known.forget()

    # --- changes

    def put_live(self, key: bytes, value: bytes | None, time_ms: int) -> bool:
        """Advances observed stream time. Puts an entry and returns True, unless its segment has expired."""
        segment = self._retention.observe(time_ms)
        if segment is None:
            return False
        if segment not in self._segments.numbers:
            self._segments.numbers = tuple(sorted((*self._segments.numbers, segment)))
        stored = segment_prefix(segment) + key
        self._known.note(stored, time_ms, value is None)
        self.inner.put(stored, value)
        if self._file_format.time_ordered:
            self.inner.put(self._index_key(key), None if value is None else b"")
        return True

    def _drop_expired(self) -> None:
        first_live, segments = self._retention.first_live_segment, self._segments.numbers
        if segments and segments[0] < first_live:
            first, interval_ms = segments[0], self._retention.segment_interval_ms
            self.inner.delete_range(segment_prefix(first), segment_prefix(first_live))
            if self._file_format.time_ordered:
                self.inner.delete_range(_index_bound(first * interval_ms), _index_bound(first_live * interval_ms))
            self._segments.numbers = tuple(segment for segment in segments if segment >= first_live)

    # --- reads

    def scan_segments(self, ranges: Callable[[], list[tuple[bytes, bytes]]], *, reverse: bool = False) -> Entries:
        """Returns the entries of ranges of the database, from one snapshot. `ranges`: makes the ranges from the present
        segments.

        Reads again if the task has added a segment before the snapshot was taken. Otherwise, a query of another thread
        would not find an entry that the same commit has moved to the new segment.
        """
        while True:
            segments = self._segments.numbers
            entries = self.inner.scan_ranges(ranges(), reverse=reverse)
            if self._segments.numbers == segments:
                return entries

    def segments_between(self, from_ms: int, to_ms: int, reverse: bool = False) -> list[int]:
        """Returns the segments with these times in ascending order, or in descending order if `reverse` is True."""
        self.inner.require_open()
        interval_ms = self._retention.segment_interval_ms
        first, last = from_ms // interval_ms, to_ms // interval_ms
        segments = reversed(self._segments.numbers) if reverse else self._segments.numbers
        return [segment for segment in segments if first <= segment <= last] if from_ms <= to_ms else []

    def known_keys(self, record_key: bytes, from_ms: int, to_ms: int) -> list[bytes] | None:
        """See `KnownKeys.between`. Also returns None in another thread, which has to read the database."""
        return self._known.between(record_key, from_ms, to_ms) if get_ident() == self.inner.owner_thread else None

    def _stored_keys(self, record_key: bytes, limit: int) -> list[bytes]:
        """See `LoadKeys`."""
        interval_ms = self._retention.segment_interval_ms
        ranges: list[tuple[bytes, bytes]] = []
        for segment in self._segments.numbers:
            prefixed, from_ms = segment_prefix(segment) + record_key, segment * interval_ms
            ranges.append((prefixed + _time_bytes(from_ms), prefixed + _time_bytes(from_ms + interval_ms)))
        length = SEGMENT_BYTES + len(record_key) + self._keys.suffix_bytes
        return [*islice((key for key, _ in self.inner.scan_ranges(ranges) if len(key) == length), limit)]

    def entries_by_time(self, from_ms: int, to_ms: int, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Returns the entries whose times are between the bounds, inclusive, in the order of the index, or in the
        reverse order. Only for a store with the order of time.
        """
        interval_ms = self._retention.segment_interval_ms
        # entries of expired segments are in the database until the next commit
        from_ms = max(from_ms, self._retention.first_live_segment * interval_ms)
        if from_ms > to_ms:
            return iter(())
        at, time_of = len(INDEX) + self._keys.order_bytes, self._keys.time_of

        def stored_key(index_key: bytes) -> bytes:
            key = index_key[at:]
            return segment_prefix(time_of(key) // interval_ms) + key

        found = self.inner.scan_index((_index_bound(from_ms), _index_bound(to_ms + 1)), stored_key, reverse=reverse)
        return ((stored[SEGMENT_BYTES:], value) for stored, value in found)

    # --- restore

    def restore(self, batch: RecordBatch) -> None:
        """Writes changelog records to the store. Raises ChangelogOfAnotherKind if a key has another format."""
        keys, values, times = self._columns(batch)
        offset = batch.offsets[-1]
        if not keys:
            self.inner.restore_changes({}, offset)
            return
        if not self._keys.are_keys(keys, times):
            foreign = next(key for key in keys if not self._keys.is_key(key))
            raise ChangelogOfAnotherKind(self.name, batch.partition, batch.offsets, foreign, self._keys.kind)
        # the times are big-endian and not negative, so the order of their bytes is the order of the times
        first, last = int.from_bytes(min(times), "big"), int.from_bytes(max(times), "big")
        # If segments expire, the records are written together with this deletion. A close after the restore could drop
        # a later deletion, and the stored offset would say that the records which have expired the segments were read.
        self._retention.observe(last)
        self._known.newest_ms = max(self._known.newest_ms, last)
        self._write_restored(keys, values, times, first, last, offset)

    def _columns(self, batch: RecordBatch) -> tuple[Sequence[bytes], BytesColumn, list[bytes]]:
        """Returns three columns of the records that have a key: the keys, the values, and the times as bytes."""
        keys: Sequence[bytes] = batch.keys  # type: ignore[assignment]  # if a key is None, the lines below raise TypeError
        try:
            return keys, batch.values, list(map(self._times_of, keys))
        except TypeError:
            keys = [key for key in batch.keys if key is not None]
            values = [value for key, value in zip(batch.keys, batch.values, strict=True) if key is not None]
            return keys, values, list(map(self._times_of, keys))

    def _write_restored(
        self, keys: Sequence[bytes], values: BytesColumn, times: list[bytes], first: int, last: int, offset: int
    ) -> None:
        interval_ms, first_live = self._retention.segment_interval_ms, self._retention.first_live_segment
        segment = first // interval_ms
        if segment == last // interval_ms:
            if segment < first_live:
                self.inner.restore_changes({}, offset)
                return
            found = {segment}
            stored = map(add, repeat(segment_prefix(segment)), keys)
        else:
            segment_of = {time: int.from_bytes(time, "big") // interval_ms for time in set(times)}
            found = {number for number in segment_of.values() if number >= first_live}
            if segment < first_live:
                live = [index for index, time in enumerate(times) if segment_of[time] >= first_live]
                keys, times = [keys[index] for index in live], [times[index] for index in live]
                values = [values[index] for index in live]
            prefixes = {time: segment_prefix(number) for time, number in segment_of.items()}
            stored = map(add, map(prefixes.__getitem__, times), keys)
        self._segments.numbers = tuple(sorted(found.union(self._segments.numbers)))
        if self._file_format.time_ordered:
            index = [None if value is None else b"" for value in values]
            changes = last_values((*stored, *map(self._index_key, keys)), (*values, *index))
        else:
            changes = last_values(stored, values)
        self.inner.restore_changes(changes, offset)

    # --- files of another format

    def _convert(self, database: RocksDBStore, found: StoreFormat | None) -> None:
        """Converts files that have a different retention or an unknown format. Called by `RocksDBStore.open`."""
        retention_ms, interval_ms = self._retention.retention_ms, self._retention.segment_interval_ms
        moved = 0
        if found is None or found.segment_interval_ms != interval_ms:
            moved = self._move_entries(database, found)
        if moved:
            _logger.info(
                "store %s: %d entries were moved to segments of %d ms, since its retention is %d ms now",
                self.name,
                moved,
                interval_ms,
                retention_ms,
            )
        self._convert_index(database, found)
        found_ms = None if found is None else found.retention_ms
        is_longer = found_ms is not None and found_ms < retention_ms
        # After a crash during the move of entries, the format file may have no retention.
        was_unknown = found_ms is None and (moved > 0 or found is not None)
        if is_longer or was_unknown:
            was = "another" if found_ms is None else f"{found_ms} ms"
            self._read_again(self.name, f"its retention is {retention_ms} ms and was {was}")
            database.forget_offset()

    def _convert_index(self, database: RocksDBStore, found: StoreFormat | None) -> None:
        """Makes the index, or deletes an index that this store does not need."""
        has_index = found is not None and found.time_ordered
        if has_index and not self._file_format.time_ordered:
            database.write({}, deleted_ranges=[(INDEX, _INDEX_END)])
        elif self._file_format.time_ordered and not has_index:
            index = (self._index_key(stored[SEGMENT_BYTES:]) for stored, _ in database.scan(None, INDEX))
            while batch := list(islice(index, _MOVE_BATCH_SIZE)):
                database.write(dict.fromkeys(batch, b""))

    def _move_entries(self, database: RocksDBStore, found: StoreFormat | None) -> int:
        """Moves each entry to the segment in which this store reads it. Returns the number of moved entries.

        After a crash, the move can be repeated, even with the old retention. The reason is that each batch is written
        atomically, and that the format file has no segment length until all entries are moved. If an entry exists under
        its old key and under its new key, the value under the new key is kept. This value is newer, because the newest
        version of the application has put it.
        """
        moved = 0
        changes: dict[bytes, bytes | None] = {}
        for stored, value in database.scan(None, INDEX):
            new_key = self._key_in_its_segment(database, stored)
            if new_key == stored:
                continue
            if not moved:
                retention_ms, has_index = (None, False) if found is None else (found.retention_ms, found.time_ordered)
                database.record_format(StoreFormat(self._file_format.kind, retention_ms, time_ordered=has_index))
            moved += 1
            changes[stored] = None
            if database.get(new_key) is None:
                changes[new_key] = value
            if len(changes) >= _MOVE_BATCH_SIZE:
                database.write(changes)
                changes = {}
        if changes:
            database.write(changes)
        return moved

    def _key_in_its_segment(self, database: RocksDBStore, stored: bytes) -> bytes:
        """Returns the key that this store uses for the entry.

        Raises StoreOfAnotherKind if `stored` is not the key of an entry.
        """
        key = stored[SEGMENT_BYTES:]
        if not self._may_be_stored(stored) or not self._keys.is_key(key):
            raise database.wrong_kind("keys of another kind")
        return segment_prefix(self._keys.time_of(key) // self._retention.segment_interval_ms) + key

    def _may_be_stored(self, stored: bytes) -> bool:
        """Returns False if the key cannot be in a store of this kind, whatever the length of the segments is."""
        return True

    def _index_key(self, key: bytes) -> bytes:
        return INDEX + key[self._keys.order] + key


_time_bytes: Callable[[int], bytes] = struct.Struct(">Q").pack
segment_prefix = _time_bytes
"""Returns the first bytes of all keys of a segment, which are the segment's number."""


def existing_segments(database: TransactionBuffer, exclusive_end: bytes) -> Iterator[int]:
    """Returns the numbers of the segments with entries, in ascending order. `exclusive_end`: the first key that belongs
    to no segment.
    """
    start = b""
    while (entry := next(database.scan(start, exclusive_end), None)) is not None:
        segment = int.from_bytes(entry[0][:SEGMENT_BYTES], "big")
        yield segment
        start = segment_prefix(segment + 1)


_INDEX_END = b"\x81"


def _index_bound(time_ms: int) -> bytes:
    """Returns the lowest possible index key of this time."""
    return INDEX + _time_bytes(time_ms)
