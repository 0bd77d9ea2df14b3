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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from assignor.types import JAVA_LONG_MAX
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.builders import KeyValueStoreBuilder
from streams_runtime.state_stores.key_value import SerdesKeyValueStore
from streams_runtime.state_stores.state_store import KeyValueBytesStore, StoreContext

_TIMESTAMP_AND_SIDE = struct.Struct(">q?")
_VARIABLE_SIZE_AND_COUNT = struct.Struct(">bi")
_LENGTH_AND_SIDE = struct.Struct(">i?")


class TimestampedKeyAndJoinSide(NamedTuple):
    """The key, the timestamp and the side of a record of a join."""

    key: Any
    timestamp_ms: int
    is_left: bool


class LeftOrRightValue(NamedTuple):
    value: Any
    is_left: bool


@dataclass(frozen=True)
class TimestampedKeyAndJoinSideSerde:
    key_serde: Serde[Any]

    def serialize(self, value: TimestampedKeyAndJoinSide, /) -> bytes:
        key = self.key_serde.serialize(value.key)
        return b"".join((_TIMESTAMP_AND_SIDE.pack(value.timestamp_ms, value.is_left), key))

    def deserialize(self, data: bytes, /) -> TimestampedKeyAndJoinSide:
        timestamp_ms, is_left = _TIMESTAMP_AND_SIDE.unpack_from(data)
        key = self.key_serde.deserialize(data[_TIMESTAMP_AND_SIDE.size :])
        return TimestampedKeyAndJoinSide(key, timestamp_ms, is_left)

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> TimestampedKeyAndJoinSideSerde:
        return TimestampedKeyAndJoinSideSerde(change(self.key_serde))


@dataclass(frozen=True)
class LeftOrRightValuesSerde:
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

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> LeftOrRightValuesSerde:
        return LeftOrRightValuesSerde(change(self.left_serde), change(self.right_serde))


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


class ListValueStore(SerdesKeyValueStore[TimestampedKeyAndJoinSide, list[LeftOrRightValue]]):
    """The records of a join that have no partner yet. `times`: the times of the join in this task."""

    def __init__(
        self,
        inner: KeyValueBytesStore,
        key_serde: Serde[TimestampedKeyAndJoinSide],
        value_serde: Serde[list[LeftOrRightValue]],
    ) -> None:
        super().__init__(inner, key_serde, value_serde)
        self.times = JoinTimes()

    def _bind(self, context: StoreContext) -> None:
        super()._bind(context)
        self.times = JoinTimes()

    def append(self, key: TimestampedKeyAndJoinSide, value: LeftOrRightValue) -> None:
        """Adds a value to the list of the key."""
        self.put(key, [*(self.get(key) or ()), value])

    def delete_if_present(self, key: TimestampedKeyAndJoinSide) -> None:
        """Deletes the list of the key. If the key has no list, nothing is logged."""
        stored_key = self._serialize_key(key)
        if self._get(stored_key) is not None:
            self._put(stored_key, None)


@dataclass(frozen=True)
class ListValueStoreBuilder(KeyValueStoreBuilder[TimestampedKeyAndJoinSide, list[LeftOrRightValue]]):
    """The builder of a `ListValueStore`."""

    def build(self) -> ListValueStore:
        return ListValueStore(self._bytes_store(), self.key_serde, self.value_serde)
