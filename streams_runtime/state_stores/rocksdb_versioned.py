"""Versioned stores in RocksDB. A versioned store keeps the older values of a key for a time, the history retention.

A version is valid from its timestamp until the key's next version begins. On disk, the newest version of a key is
separate from the older versions. The older versions are in segments. A version belongs to the segment of the time at
which it ends, so a whole segment expires together. In the store's database, a key consists of the segment's number (8
bytes, big-endian) and the record's key. For the newest version, 8 bytes 0xff take the place of the segment's number.
The value of the newest version begins with its timestamp (8 bytes). `segment_values` describes the value of a segment.

Rules:
- Observed stream time is the highest timestamp that was put or restored after the store was opened. A put is refused if
  its timestamp is below observed stream time minus the history retention.
- A deletion is never the newest version on disk. It is the end of an older version, or a version without value in a
  segment. So deletions also expire.
- `restore` expires versions at the same stream time as the puts did, so the result does not depend on batches.

Source: `RocksDBVersionedStore`, `LogicalKeyValueSegments`; KIP-889, KIP-968. Differs from Kafka: if a new version of an
application changes the length of segments, the store is restored from its changelog. Kafka does not find the old
versions then. If only the history retention becomes longer, the changelog is read again over the content, because it
may have versions that the store has deleted. Kafka never reads it again. After a restart, this store finds its segments
on disk; in Kafka 4.3, the older versions of a key are lost. Kafka restores a batch with the highest timestamp of the
batch as stream time; a deletion that has expired by then is missing, and an older version that was put after it becomes
the newest one. `versions` finds all versions of a time range; Kafka does not find a version that ends after the last
segment of the range.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Protocol

from assignor.types import JAVA_LONG_MAX
from streams_runtime.logs.base import RecordBatch
from streams_runtime.state_stores.key_ranges import after
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.state_stores.rocksdb_segments import SegmentedStore, segment_prefix
from streams_runtime.state_stores.segment_values import SegmentValue
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind
from streams_runtime.state_stores.transaction_buffer import TransactionBuffer
from streams_runtime.state_stores.value_and_timestamp import TIMESTAMP_BYTES, unpack_timestamp
from streams_runtime.state_stores.versioned import NOT_PUT, VALID_TO_UNDEFINED, VersionedRecord
from streams_runtime.state_stores.window_keys import NO_STREAM_TIME_MS, SEGMENT_BYTES

_pack_time = struct.Struct(">q").pack
_LATEST = b"\xff" * SEGMENT_BYTES


class _Rows(Protocol):
    """The rows of the database that a put reads and writes."""

    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes | None) -> None: ...


class _RestoredRows:
    """The changes of a batch that is restored, in front of the rows of the database."""

    def __init__(self, database: TransactionBuffer) -> None:
        self.changes: dict[bytes, bytes | None] = {}
        self._database = database

    def get(self, key: bytes) -> bytes | None:
        return self.changes[key] if key in self.changes else self._database.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        self.changes[key] = value


class RocksDBVersionedStore(SegmentedStore):
    """A `VersionedBytesStore` on disk."""

    def __init__(self, name: str, history_retention_ms: int) -> None:
        self._retention_ms = history_retention_ms
        self._interval_ms = version_segment_interval_ms(history_retention_ms)
        file_format = StoreFormat(StoreKind.VERSIONED, history_retention_ms, self._interval_ms)
        super().__init__(TransactionBuffer(RocksDBStore(name, file_format, self._convert)), _LATEST)
        self._opened()

    def _opened(self) -> None:
        self._observed_ms = NO_STREAM_TIME_MS

    # --- reads

    def get(self, key: bytes) -> bytes | None:
        return self.inner.get(_LATEST + key)

    def get_as_of(self, key: bytes, as_of_ms: int) -> bytes | None:
        latest = self.inner.get(_LATEST + key)
        if latest is not None and unpack_timestamp(latest)[0] <= as_of_ms:
            return latest
        if as_of_ms < self._observed_ms - self._retention_ms:
            return None
        for segment in self._segments_from(as_of_ms):
            row = self.inner.get(segment_prefix(segment) + key)
            if row is None:
                continue
            found = SegmentValue(row)
            if found.next_ms <= as_of_ms:
                return None
            if found.min_ms <= as_of_ms:
                version = found.find(as_of_ms)
                return None if version.value is None else _pack_time(version.valid_from_ms) + version.value
        return None

    def versions(self, key: bytes, from_ms: int, to_ms: int) -> Iterator[VersionedRecord[bytes]]:
        first_segment = (
            JAVA_LONG_MAX if to_ms < self._observed_ms - self._retention_ms else from_ms // self._interval_ms
        )
        while True:
            segments = self._segments.numbers
            prefixes = [segment_prefix(segment) for segment in segments if segment >= first_segment]
            ranges = [(prefix + key, after(prefix + key)) for prefix in (*prefixes, _LATEST)]
            rows = list(self.inner.scan_ranges(ranges))
            # All rows are read from one snapshot, so no version is missing that a put moves to another row. The rows
            # are read again if a put has made the segment of this row before the snapshot was taken.
            if self._segments.numbers == segments:
                break
        for stored, row in reversed(rows):
            if stored.startswith(_LATEST):
                if (latest_ms := unpack_timestamp(row)[0]) <= to_ms:
                    yield VersionedRecord(row[TIMESTAMP_BYTES:], latest_ms)
                continue
            for version in SegmentValue(row).versions():
                if version.value is not None and version.valid_from_ms <= to_ms and version.valid_to_ms > from_ms:
                    yield VersionedRecord(version.value, version.valid_from_ms, version.valid_to_ms)

    # --- changes

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> int:
        self.inner.require_open()
        if timestamp_ms < self._observed_ms - self._retention_ms:
            self._expired(self.name)
            return NOT_PUT
        self._observed_ms = max(self._observed_ms, timestamp_ms)
        return self._put(self.inner, self._observed_ms, key, value, timestamp_ms)

    def delete(self, key: bytes, timestamp_ms: int) -> bytes | None:
        present = self.get_as_of(key, timestamp_ms)
        return None if self.put(key, None, timestamp_ms) == NOT_PUT else present

    def restore(self, batch: RecordBatch) -> None:
        rows = _RestoredRows(self.inner)
        for key, value, timestamp_ms in zip(batch.keys, batch.values, batch.timestamps_ms, strict=True):
            if key is not None and timestamp_ms >= self._observed_ms - self._retention_ms:
                self._observed_ms = max(self._observed_ms, timestamp_ms)
                self._put(rows, self._observed_ms, key, value, timestamp_ms)
        self.inner.restore_changes(rows.changes, batch.offsets[-1])

    def _put(self, rows: _Rows, now_ms: int, key: bytes, value: bytes | None, timestamp_ms: int) -> int:
        """Puts a version. Returns the time at which the version ends, VALID_TO_UNDEFINED or NOT_PUT. `now_ms`: the
        stream time at which segments expire.
        """
        self._drop_expired(now_ms)
        latest, valid_to_ms = rows.get(_LATEST + key), None
        if latest is not None:
            latest_ms = unpack_timestamp(latest)[0]
            if timestamp_ms >= latest_ms:
                if timestamp_ms > latest_ms:
                    self._end_version(rows, now_ms, key, (latest_ms, latest[TIMESTAMP_BYTES:]), timestamp_ms)
                rows.put(_LATEST + key, None if value is None else _pack_time(timestamp_ms) + value)
                return VALID_TO_UNDEFINED
            valid_to_ms = latest_ms
        for segment in self._segments_from(timestamp_ms):
            data = rows.get(segment_prefix(segment) + key)
            if data is None:
                continue
            row = SegmentValue(data)
            if row.next_ms <= timestamp_ms:
                break
            if row.min_ms <= timestamp_ms:
                return self._put_into_row(rows, now_ms, key, (timestamp_ms, value), (segment, row))
            if row.min_ms < now_ms - self._retention_ms:
                return NOT_PUT
            valid_to_ms = row.min_ms
        if valid_to_ms is not None:
            return self._put_between_rows(rows, now_ms, key, (timestamp_ms, value), valid_to_ms)
        if value is None:
            return self._put_last_deletion(rows, now_ms, key, timestamp_ms)
        rows.put(_LATEST + key, _pack_time(timestamp_ms) + value)
        return VALID_TO_UNDEFINED

    def _put_into_row(
        self, rows: _Rows, now_ms: int, key: bytes, entry: tuple[int, bytes | None], place: tuple[int, SegmentValue]
    ) -> int:
        """Puts a version into a row whose time range contains the version's timestamp. If the version before it belongs
        to an older segment now, moves the version before it.
        """
        (timestamp_ms, _), (segment, row) = entry, place
        before = row.find(timestamp_ms)
        is_same_time = before.valid_from_ms == timestamp_ms
        moves_before = not is_same_time and timestamp_ms // self._interval_ms != segment
        if moves_before:
            self._end_version(rows, now_ms, key, (before.valid_from_ms, before.value), timestamp_ms)
        if is_same_time or moves_before:
            row.replace(before.position, entry)
        else:
            row.insert(before.position, entry)
        rows.put(segment_prefix(segment) + key, row.data)
        return before.valid_to_ms

    def _put_between_rows(
        self, rows: _Rows, now_ms: int, key: bytes, entry: tuple[int, bytes | None], valid_to_ms: int
    ) -> int:
        """Puts a version that no row contains. It ends at `valid_to_ms`, when the next version of its key begins."""
        timestamp_ms, value = entry
        segment = valid_to_ms // self._interval_ms
        if not self._is_live(segment, now_ms):
            return NOT_PUT
        data = rows.get(segment_prefix(segment) + key)
        if data is not None and (row := SegmentValue(data)).next_ms > timestamp_ms:
            row.insert_as_earliest(timestamp_ms, value)
            rows.put(segment_prefix(segment) + key, row.data)
        else:
            self._end_version(rows, now_ms, key, entry, valid_to_ms)
        return valid_to_ms

    def _put_last_deletion(self, rows: _Rows, now_ms: int, key: bytes, timestamp_ms: int) -> int:
        """Puts the deletion of a key that has no version now, and no later version."""
        segment = timestamp_ms // self._interval_ms
        if not self._is_live(segment, now_ms):
            return NOT_PUT
        data = rows.get(segment_prefix(segment) + key)
        ended_ms = timestamp_ms if data is None else SegmentValue(data).next_ms
        if data is None or ended_ms != timestamp_ms:  # otherwise, the end of the row is this deletion already
            self._end_version(rows, now_ms, key, (ended_ms, None), timestamp_ms)
        return VALID_TO_UNDEFINED

    def _end_version(
        self, rows: _Rows, now_ms: int, key: bytes, entry: tuple[int, bytes | None], valid_to_ms: int
    ) -> None:
        """Adds a version as the newest one of the segment in which it ends. Does nothing if the segment has expired."""
        segment, (valid_from_ms, value) = valid_to_ms // self._interval_ms, entry
        if not self._is_live(segment, now_ms):
            return
        data = rows.get(segment_prefix(segment) + key)
        if data is None:
            row = SegmentValue.of(value, valid_from_ms, valid_to_ms)
        else:
            row = SegmentValue(data)
            row.insert_as_latest(valid_from_ms, valid_to_ms, value)
        if segment not in self._segments.numbers:
            self._segments.numbers = tuple(sorted((*self._segments.numbers, segment)))
        rows.put(segment_prefix(segment) + key, row.data)

    # --- segments

    def _segments_from(self, time_ms: int) -> list[int]:
        """Returns the segments with versions that are valid at this time or later, newest first."""
        first = time_ms // self._interval_ms
        return [segment for segment in reversed(self._segments.numbers) if segment >= first]

    def _is_live(self, segment: int, now_ms: int) -> bool:
        return segment >= (now_ms - self._retention_ms) // self._interval_ms

    def _drop_expired(self, now_ms: int) -> None:
        segments = self._segments.numbers
        if segments and not self._is_live(segments[0], now_ms):
            live = tuple(segment for segment in segments if self._is_live(segment, now_ms))
            self.inner.delete_range(
                segment_prefix(segments[0]), segment_prefix((now_ms - self._retention_ms) // self._interval_ms)
            )
            self._segments.numbers = live

    def _convert(self, database: RocksDBStore, found: StoreFormat | None) -> None:
        """Called by `RocksDBStore.open` for files with another retention or an unknown format. If the retention has
        become longer, requests a restore. Raises StoreOfAnotherKind if the files have segments of another length, or
        other entries.
        """
        if found is not None and found.segment_interval_ms != self._interval_ms:
            raise database.wrong_kind(f"a versioned store with segments of {found.segment_interval_ms} ms")
        if found is None and not database.is_empty:
            raise database.wrong_kind("entries of an unknown format")
        if found is not None and (found.retention_ms or 0) < self._retention_ms:
            self._read_again(self.name, f"its retention is {self._retention_ms} ms and was {found.retention_ms} ms")
            database.forget_offset()


def version_segment_interval_ms(history_retention_ms: int) -> int:
    """Returns the length of a segment: the range of times at which its versions end. Source:
    `RocksDbVersionedKeyValueBytesStoreSupplier.defaultSegmentInterval`.
    """
    for retention_ms, parts, least_ms in ((60_000, 3, 2_000), (300_000, 5, 20_000), (3_600_000, 12, 60_000)):
        if history_retention_ms <= retention_ms:
            return max(history_retention_ms // parts, least_ms)
    return max(history_retention_ms // 24, 300_000)
