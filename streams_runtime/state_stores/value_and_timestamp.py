"""A value with its timestamp as bytes in a store: 8 bytes of milliseconds, big-endian, then the value.

In the changelog the value stands alone and the timestamp is the record's. So a restore puts the two together, a whole
column at a time. Source: `ValueAndTimestampSerde`, `ValueAndTimestampSerializer`,
`RecordConverters.rawValueToTimestampedValue`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, Generic, NamedTuple, TypeVar, overload

from streams_runtime.serdes import LongSerde, Serde, serializer_of
from streams_runtime.state_stores.base import ValueAndTimestamp

V = TypeVar("V")

TIMESTAMP_BYTES = 8
_TIMESTAMP_AND_LONG = struct.Struct(">qq")
_pack = struct.Struct(">q").pack
unpack_timestamp = struct.Struct(">q").unpack_from
"""Bytes of a store to a tuple with the timestamp alone."""

EntryReader = Callable[[bytes], tuple[int, Any]]
"""The bytes of a store to the timestamp in milliseconds and the value."""

EntryWriter = Callable[[int, Any], bytes]
"""Timestamp and value, which is not None, to the bytes of a store."""


@dataclass(frozen=True)
class ValueAndTimestampSerde(Generic[V]):
    """`value_serde`: of the value alone."""

    value_serde: Serde[V]

    def serialize(self, value: ValueAndTimestamp[V], /) -> bytes:
        return _pack(value.timestamp_ms) + self.value_serde.serialize(value.value)

    def deserialize(self, data: bytes, /) -> ValueAndTimestamp[V]:
        return ValueAndTimestamp(self.value_serde.deserialize(data[TIMESTAMP_BYTES:]), unpack_timestamp(data)[0])

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> ValueAndTimestampSerde[V]:
        return ValueAndTimestampSerde(change(self.value_serde))

    def entry_reader(self) -> EntryReader:
        """As `deserialize`, without a `ValueAndTimestamp`."""
        if isinstance(self.value_serde, LongSerde):  # one call of C for what most counts and sums are
            return _TIMESTAMP_AND_LONG.unpack
        deserialize = self.value_serde.deserialize
        return lambda stored: (unpack_timestamp(stored)[0], deserialize(stored[TIMESTAMP_BYTES:]))

    def entry_writer(self) -> EntryWriter:
        """As `serialize`, without a `ValueAndTimestamp`."""
        if isinstance(self.value_serde, LongSerde):
            return _TIMESTAMP_AND_LONG.pack
        serialize = serializer_of(self.value_serde)
        return lambda timestamp_ms, value: _pack(timestamp_ms) + serialize(value)


class TableEntries(NamedTuple):
    """How operators of the DSL use a timestamped store: they keep the place of a key, and read and write entries as
    timestamp and value. All of it passes the record cache and the changelog as the methods of the store do. For the
    thread of the task, until the store is closed or rebound.

    `place`: what `get` and `put` take for a key, and in a window store for the start of the window as well. `put` takes
    the timestamp of the entry, too.
    `set_flush_listener`: as `CachingStore.set_flush_listener`; None without a record cache. `key_of`: from the place in
    the cache, of which that listener hears, to the key.
    """

    place: Callable[..., Any]
    get: Callable[[Any], bytes | None]
    put: Callable[[Any, bytes | None, int], object]
    read: EntryReader
    write: EntryWriter
    key_of: Callable[[bytes], Any]
    set_flush_listener: Callable[..., bool] | None = None


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
