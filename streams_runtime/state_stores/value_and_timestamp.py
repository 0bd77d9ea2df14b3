"""Converts values with timestamps to the bytes in a store. The first 8 bytes are the timestamp in milliseconds
(big-endian), and the other bytes are the value.

A changelog record has the value without these 8 bytes. The timestamp of the value is the timestamp of the record. So a
restore adds the record's timestamp before each value. Source: `ValueAndTimestampSerde`, `ValueAndTimestampSerializer`,
`RecordConverters.rawValueToTimestampedValue`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, Generic, NamedTuple, overload

from streams_runtime.common.records import BytesColumn, V
from streams_runtime.serdes import LongSerde, Serde, WithInnerSerdes, serializer_of
from streams_runtime.state_stores.state_store import ValueAndTimestamp

TIMESTAMP_BYTES = 8
_TIMESTAMP_AND_LONG = struct.Struct(">qq")
_pack = struct.Struct(">q").pack
unpack_timestamp = struct.Struct(">q").unpack_from
"""Reads the timestamp of a stored value. Returns a tuple with the timestamp as its only item."""

EntryReader = Callable[[bytes], tuple[int, Any]]
"""The type of a function that converts a stored value to a timestamp in milliseconds and the value."""

EntryWriter = Callable[[int, Any], bytes]
"""The type of a function that converts a timestamp and a value to the stored bytes. The value must not be None."""


@dataclass(frozen=True)
class ValueAndTimestampSerde(WithInnerSerdes, Generic[V]):
    """The serde of a value with its timestamp. `value_serde`: the serde of the value without its timestamp."""

    value_serde: Serde[V]

    def serialize(self, value: ValueAndTimestamp[V], /) -> bytes:
        return _pack(value.timestamp_ms) + self.value_serde.serialize(value.value)

    def deserialize(self, data: bytes, /) -> ValueAndTimestamp[V]:
        return ValueAndTimestamp(self.value_serde.deserialize(data[TIMESTAMP_BYTES:]), unpack_timestamp(data)[0])

    def serializer(self) -> Callable[[ValueAndTimestamp[V]], bytes | None]:
        """Returns a function like `serialize`. For a ValueAndTimestamp with the value None, the function returns None,
        which means a deletion.
        """
        serialize = self.value_serde.serialize
        return lambda given: None if given.value is None else _pack(given.timestamp_ms) + serialize(given.value)

    def entry_reader(self) -> EntryReader:
        """Returns a function like `deserialize` that returns a plain tuple instead of a `ValueAndTimestamp`."""
        if isinstance(self.value_serde, LongSerde):  # fast path for counts and most sums: one call into C
            return _TIMESTAMP_AND_LONG.unpack
        deserialize = self.value_serde.deserialize
        return lambda stored: (unpack_timestamp(stored)[0], deserialize(stored[TIMESTAMP_BYTES:]))

    def entry_writer(self) -> EntryWriter:
        """Returns a function (timestamp, value) that serializes like `serialize`."""
        if isinstance(self.value_serde, LongSerde):
            return _TIMESTAMP_AND_LONG.pack
        serialize = serializer_of(self.value_serde)
        return lambda timestamp_ms, value: _pack(timestamp_ms) + serialize(value)


class EntryAccess(NamedTuple):
    """The functions that operators of the DSL use to read and write a timestamped store. These functions do not make a
    `ValueAndTimestamp`. Like the methods of the store, the functions use the record cache and the changelog. Only the
    task's thread may call the functions. The functions must not be called after the store was closed or rebound.

    `stored_key_of`: converts a key to the form that `get` and `put` need. In a window store, the arguments of
    `stored_key_of` are the key and the start of the window. `put`: writes an entry; its third argument is the timestamp
    of the entry.
    `read`: converts the bytes that `get` returns to the timestamp and the value. `write`: converts a timestamp and a
    value to the bytes for `put`.
    `set_flush_listener`: sets the listener of the record cache; None if there is no record cache. `key_of`: converts a
    cache key to the key of the entry. The listener gets cache keys. In a window store, the result is a `Windowed` key.
    """

    stored_key_of: Callable[..., Any]
    get: Callable[[Any], bytes | None]
    put: Callable[[Any, bytes | None, int], object]
    read: EntryReader
    write: EntryWriter
    key_of: Callable[[bytes], Any]
    set_flush_listener: Callable[..., None] | None = None


class ValuesWithTimestamps(Sequence[bytes | None]):
    """The values of a batch. Each value begins with its timestamp. The value None stays None.

    The timestamp is added to a value each time the value is read. This is cheaper than a list of all values with their
    timestamps.
    """

    __slots__ = ("_timestamps_ms", "_values")

    def __init__(self, values: BytesColumn, timestamps_ms: Sequence[int]) -> None:
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
        # fast path if no value is None or empty: it runs no Python code for each record
        if all(self._values):
            return map(add, map(_pack, self._timestamps_ms), self._values)
        return map(self.__getitem__, range(len(self._values)))
