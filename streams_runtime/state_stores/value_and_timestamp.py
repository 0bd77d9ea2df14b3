"""A value with its timestamp as bytes in a store: 8 bytes of milliseconds, big-endian, then the value.

In the changelog the value stands alone and the timestamp is the record's. So a restore puts the two together, a whole
column at a time. Source: `ValueAndTimestampSerializer`, `RecordConverters.rawValueToTimestampedValue`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from operator import add
from typing import Any, overload

from streams_runtime.serdes import LONG, Serde, serializer_of

TIMESTAMP_BYTES = 8
_TIMESTAMP_AND_LONG = struct.Struct(">qq")
_pack = struct.Struct(">q").pack
unpack_timestamp = struct.Struct(">q").unpack_from
"""Bytes of a store to a tuple with the timestamp alone."""


def with_timestamp(value: bytes, timestamp_ms: int) -> bytes:
    return _pack(timestamp_ms) + value


def raw_value(stored: bytes) -> bytes:
    return stored[TIMESTAMP_BYTES:]


def timestamp_of(stored: bytes) -> int:
    return unpack_timestamp(stored)[0]  # type: ignore[no-any-return]


EntryReader = Callable[[bytes], tuple[int, Any]]
"""The bytes of a store to the timestamp in milliseconds and the value."""

EntryWriter = Callable[[int, Any], bytes]
"""Timestamp and value, which is not None, to the bytes of a store."""


def entry_reader(value_serde: Serde[Any]) -> EntryReader:
    if value_serde == LONG:  # one call of C for what most counts and sums are
        return _TIMESTAMP_AND_LONG.unpack
    deserialize = value_serde.deserialize

    def read(stored: bytes) -> tuple[int, Any]:
        return unpack_timestamp(stored)[0], deserialize(stored[TIMESTAMP_BYTES:])

    return read


def entry_writer(value_serde: Serde[Any]) -> EntryWriter:
    if value_serde == LONG:
        return _TIMESTAMP_AND_LONG.pack
    serialize = serializer_of(value_serde)

    def write(timestamp_ms: int, value: Any) -> bytes:
        return _pack(timestamp_ms) + serialize(value)

    return write


class ValuesWithTimestamps(Sequence[bytes | None]):
    """A column of values and a column of timestamps as one column of both. None stays None.

    The two are put together while the column is read, which is cheaper than a list.
    """

    __slots__ = ("_timestamps_ms", "_values")

    def __init__(self, values: Sequence[bytes | None], timestamps_ms: Sequence[int]) -> None:
        self._values = values
        self._timestamps_ms = timestamps_ms

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> ValuesWithTimestamps: ...
    def __getitem__(self, index: int | slice) -> bytes | ValuesWithTimestamps | None:
        if isinstance(index, slice):
            return ValuesWithTimestamps(self._values[index], self._timestamps_ms[index])
        value = self._values[index]
        return None if value is None else _pack(self._timestamps_ms[index]) + value

    def __iter__(self) -> Iterator[bytes | None]:
        if all(self._values):  # none is None (or empty), so no Python code has to run for each record
            return map(add, map(_pack, self._timestamps_ms), self._values)
        return map(self.__getitem__, range(len(self._values)))
