"""Keys of windows as bytes: the key, then eight bytes of the window's start in milliseconds, big-endian.

A topic of windowed keys is partitioned by the key alone, so that all windows of a key are in one partition. Source:
`TimeWindowedSerializer`, `TimeWindowedDeserializer`, `WindowKeySchema.toBinary`, `WindowedStreamPartitioner`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from streams_runtime.logs.partitioner import partition_of
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.base import Windowed
from streams_runtime.state_stores.window_keys import window_end_ms

K = TypeVar("K")

_START = struct.Struct(">q")


@dataclass(frozen=True)  # no slots: Python 3.11 cannot make a slotted frozen dataclass with its type named
class TimeWindowedSerde(Generic[K]):
    """The end of a window is not written, as in Kafka. `window_size_ms` gives it back."""

    key_serde: Serde[K]
    window_size_ms: int

    def serialize(self, value: Windowed[K], /) -> bytes:
        return b"".join((self.key_serde.serialize(value.key), _START.pack(value.start_ms)))  # also of a bytearray

    def deserialize(self, data: bytes, /) -> Windowed[K]:
        start_ms = _START.unpack_from(data, len(data) - 8)[0]
        key = self.key_serde.deserialize(data[:-8])
        return Windowed(key, start_ms, window_end_ms(start_ms, self.window_size_ms))

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> TimeWindowedSerde[K]:
        return replace(self, key_serde=change(self.key_serde))


@dataclass(frozen=True)  # no slots: Python 3.11 cannot make a slotted frozen dataclass with its type named
class WindowedStreamPartitioner(Generic[K]):
    """The default partitioner of sinks whose key serde is a TimeWindowedSerde."""

    key_serde: Serde[K]

    def __call__(self, key: Windowed[K], value: Any, partitions: int) -> int:
        return partition_of(self.key_serde.serialize(key.key), partitions)

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> WindowedStreamPartitioner[K]:
        return replace(self, key_serde=change(self.key_serde))
