"""The store of a left or outer join of two streams. It keeps the records that have no join partner yet.

When the window of such a record closes, the join forwards the record without a partner. Several records may have the
same key, timestamp and side, so the value of an entry is a list. The changelog gets the whole list after each change.

The key of an entry consists of the record's timestamp (8 bytes, big-endian), its side (1 byte: 1 for the left side) and
the bytes of its key. So the entries are sorted by time. The bytes of a list are the byte 1, which means that the values
have different lengths, the number of values (4 bytes), and each value after its length (4 bytes). A value consists of
its side (1 byte) and the bytes of the record's value.
Source: `ListValueStore`, `ListValueStoreBuilder`, `ChangeLoggingListValueBytesStore`, `TimestampedKeyAndJoinSide`,
`LeftOrRightValue`, `ListSerializer`, `KStreamImplJoin.TimeTracker`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import takewhile
from typing import Any, NamedTuple

from assignor.types import JAVA_LONG_MAX
from streams_runtime.serdes import Serde, WithInnerSerdes
from streams_runtime.state_stores.builders import KeyValueStoreBuilder
from streams_runtime.state_stores.key_ranges import after
from streams_runtime.state_stores.key_value import KeyValueStore
from streams_runtime.state_stores.state_store import Entries, KeyValueBytesStore, StoreContext

_TIMESTAMP_AND_SIDE = struct.Struct(">q?")
_VARIABLE_SIZE_AND_COUNT = struct.Struct(">bi")
_LENGTH_AND_SIDE = struct.Struct(">i?")
_TIMESTAMP = struct.Struct(">q")
_SIDE = _TIMESTAMP.size
"""The index of the byte of the side in a key."""
_SLICE_MS, _LONGER = 16, 8
"""The length of the first slice of time, and the ratio of the lengths of two consecutive slices."""


class TimestampedKeyAndJoinSide(NamedTuple):
    """The key, the timestamp and the side of a record of a join."""

    key: Any
    timestamp_ms: int
    is_left: bool


class LeftOrRightValue(NamedTuple):
    value: Any
    is_left: bool


@dataclass(frozen=True)
class TimestampedKeyAndJoinSideSerde(WithInnerSerdes):
    key_serde: Serde[Any]

    def serialize(self, value: TimestampedKeyAndJoinSide, /) -> bytes:
        key = self.key_serde.serialize(value.key)
        return b"".join((_TIMESTAMP_AND_SIDE.pack(value.timestamp_ms, value.is_left), key))

    def deserialize(self, data: bytes, /) -> TimestampedKeyAndJoinSide:
        timestamp_ms, is_left = _TIMESTAMP_AND_SIDE.unpack_from(data)
        key = self.key_serde.deserialize(data[_TIMESTAMP_AND_SIDE.size :])
        return TimestampedKeyAndJoinSide(key, timestamp_ms, is_left)


@dataclass(frozen=True)
class LeftOrRightValuesSerde(WithInnerSerdes):
    """The serde of a list of values. Each value is a value of the left stream or of the right stream."""

    left_serde: Serde[Any]
    right_serde: Serde[Any]

    def serialize(self, values: list[LeftOrRightValue], /) -> bytes:
        parts = [_VARIABLE_SIZE_AND_COUNT.pack(1, len(values))]
        for value, is_left in values:
            data = (self.left_serde if is_left else self.right_serde).serialize(value)
            parts += (_LENGTH_AND_SIDE.pack(len(data) + 1, is_left), data)
        return b"".join(parts)

    def deserialize(self, data: bytes, /) -> list[LeftOrRightValue]:
        values, begin = [], _VARIABLE_SIZE_AND_COUNT.size
        for _ in range(_VARIABLE_SIZE_AND_COUNT.unpack_from(data)[1]):
            length, is_left = _LENGTH_AND_SIDE.unpack_from(data, begin)
            begin += _LENGTH_AND_SIDE.size
            end = begin + length - 1  # the length includes the byte of the side
            value = (self.left_serde if is_left else self.right_serde).deserialize(data[begin:end])
            values.append(LeftOrRightValue(value, is_left))
            begin = end
        return values


NOT_SCANNED_MS = JAVA_LONG_MAX + 1


class JoinTimes:
    """The times that the two sides of a join share.

    `stream_time_ms`: the highest timestamp of both sides; -1 before the first record. `scan_from_ms`: the timestamp at
    which the last scan of the store has ended, or the timestamp of an older record that was put since; JAVA_LONG_MAX if
    the store is empty; NOT_SCANNED_MS if the store has not been scanned since it was opened, and may have entries.
    """

    def __init__(self) -> None:
        self.stream_time_ms = -1
        self.scan_from_ms = NOT_SCANNED_MS


class ListValueStore(KeyValueStore[TimestampedKeyAndJoinSide, list[LeftOrRightValue]]):
    """The records of a join that have no partner yet. `times`: the times of the join in this task.

    Each newest record of a join may read the oldest entries. A scan of all entries would be slow, because it also reads
    the changes that are not committed, and the deletions at the beginning of the store. So the store remembers bounds
    of its entries, and reads the entries in short slices of time.
    """

    def __init__(
        self,
        inner: KeyValueBytesStore,
        key_serde: Serde[TimestampedKeyAndJoinSide],
        value_serde: Serde[list[LeftOrRightValue]],
    ) -> None:
        super().__init__(inner, key_serde, value_serde)
        self._reset()

    def _reset(self) -> None:
        self.times = JoinTimes()
        # For the right and the left side: a lower bound of the keys of its entries; None if the side has no entry.
        self._first: list[bytes | None] = [b"", b""]
        # An upper bound of the timestamps of all entries; None if it is not known.
        self._last_ms: int | None = None

    def _bind(self, context: StoreContext) -> None:
        super()._bind(context)
        self._reset()

    def append(self, key: TimestampedKeyAndJoinSide, value: LeftOrRightValue) -> None:
        """Adds a value to the list of the key."""
        self.put(key, [*(self.get(key) or ()), value])
        stored_key, first = self._serialize_key(key), self._first[key.is_left]
        self._first[key.is_left] = stored_key if first is None else min(first, stored_key)
        if self._last_ms is not None:
            self._last_ms = max(self._last_ms, key.timestamp_ms)

    def delete_if_present(self, key: TimestampedKeyAndJoinSide) -> None:
        """Deletes the list of the key. If the key has no list, nothing is logged."""
        stored_key = self._serialize_key(key)
        if self._get(stored_key) is not None:
            self._put(stored_key, None)

    def entries_before(
        self, right_ms: int, left_ms: int
    ) -> Iterator[tuple[TimestampedKeyAndJoinSide, list[LeftOrRightValue]]]:
        """Returns the entries of the right side before `right_ms` and of the left side before `left_ms`, sorted by
        timestamp, side and key. The caller has to delete each entry before it takes the next one.
        """
        sides = [
            takewhile(partial(_is_before, _TIMESTAMP.pack(max(0, end_ms))), self._entries_of(is_left))
            for is_left, end_ms in ((False, right_ms), (True, left_ms))
        ]
        for stored_key, values in merge(*sides):
            yield self._deserialize_key(stored_key), self._deserialize_value(values)

    def scan_end_ms(self, deleted_ms: int) -> int:
        """Returns the timestamp at which a scan of the entries ends. The scan has read all entries of `entries_before`,
        the last of which was at `deleted_ms`; -1 if there was none. The scan continues to the first entry of each
        side, and to one more entry. If one side has no entry, the scan continues to the last entry.
        """
        right, left = self._first
        if right is not None and left is not None:
            later = max(right, left)
            return _timestamp_of(next((key for key, _ in self._entries_from(after(later))), later))
        last_ms = max(deleted_ms, self._last_entry_ms())
        return JAVA_LONG_MAX if last_ms < 0 else last_ms

    def _entries_of(self, is_left: bool) -> Entries:
        """Returns the entries of a side, and keeps the lower bound of the side at the last returned entry."""
        first = self._first[is_left]
        if first is not None:
            for entry in self._entries_from(first):
                if entry[0][_SIDE] == is_left:
                    self._first[is_left] = entry[0]
                    yield entry
            self._first[is_left] = None

    def _entries_from(self, start: bytes) -> Entries:
        if not start:
            yield from self.inner.scan(None, None)
            return
        last_ms, from_ms, slice_ms = self._upper_bound_ms(), _timestamp_of(start), _SLICE_MS
        while from_ms <= last_ms:
            from_ms += slice_ms
            end = _TIMESTAMP.pack(from_ms) if from_ms <= JAVA_LONG_MAX else None
            yield from self.inner.scan(start, end)
            start, slice_ms = end or b"", slice_ms * _LONGER

    def _upper_bound_ms(self) -> int:
        if self._last_ms is None:
            last = next(self.inner.scan(None, None, reverse=True), None)
            self._last_ms = -1 if last is None else _timestamp_of(last[0])
        return self._last_ms

    def _last_entry_ms(self) -> int:
        """Returns the timestamp of the last entry; -1 if the store has no entry."""
        lowest = min((first for first in self._first if first is not None), default=None)
        if lowest is None:
            return -1
        end_ms, slice_ms = self._upper_bound_ms() + 1, _SLICE_MS
        while end_ms > 0:
            start_ms = max(0, end_ms - slice_ms)
            start, end = _TIMESTAMP.pack(start_ms), _TIMESTAMP.pack(min(end_ms, JAVA_LONG_MAX))
            last = next(self.inner.scan(start, end, reverse=True), None)
            if last is not None:
                self._last_ms = _timestamp_of(last[0])
                return self._last_ms
            if lowest >= start:
                break
            end_ms, slice_ms = start_ms, slice_ms * _LONGER
        return -1


def _is_before(end: bytes, entry: tuple[bytes, bytes]) -> bool:
    return entry[0] < end


def _timestamp_of(stored_key: bytes) -> int:
    return int.from_bytes(stored_key[:_SIDE], "big")


@dataclass(frozen=True)
class ListValueStoreBuilder(KeyValueStoreBuilder[TimestampedKeyAndJoinSide, list[LeftOrRightValue]]):
    """The builder of a `ListValueStore`."""

    def build(self) -> ListValueStore:
        return ListValueStore(self._bytes_store(), self.key_serde, self.value_serde)
