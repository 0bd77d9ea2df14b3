"""The formats of Kafka's own serdes, and JSON. Source: `Serdes`."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from streams_runtime.common.records import bytes_of

T = TypeVar("T")

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_FLOAT64 = struct.Struct(">d")


@dataclass(frozen=True, slots=True)
class BytesSerde:
    """Takes bytes, and what has bytes in it as bytearray has."""

    def serialize(self, value: bytes, /) -> bytes:
        return value if type(value) is bytes else bytes_of(value)

    def deserialize(self, data: bytes, /) -> bytes:
        return data


@dataclass(frozen=True, slots=True)
class StringSerde:
    """UTF-8."""

    def serialize(self, value: str, /) -> bytes:
        return value.encode()

    # a function of Python's own takes half of the time; not so above, where its error would say less about the value
    deserialize = staticmethod(bytes.decode)


@dataclass(frozen=True, slots=True)
class IntegerSerde:
    """Four bytes, big-endian, signed: Kafka's `IntegerSerializer`."""

    def serialize(self, value: int, /) -> bytes:
        return _INT32.pack(value)

    def deserialize(self, data: bytes, /) -> int:
        return int(_INT32.unpack(data)[0])


@dataclass(frozen=True, slots=True)
class LongSerde:
    """Eight bytes, big-endian, signed: Kafka's `LongSerializer`."""

    def serialize(self, value: int, /) -> bytes:
        return _INT64.pack(value)

    def deserialize(self, data: bytes, /) -> int:
        return int(_INT64.unpack(data)[0])


@dataclass(frozen=True, slots=True)
class DoubleSerde:
    """Eight bytes, big-endian: Kafka's `DoubleSerializer`."""

    def serialize(self, value: float, /) -> bytes:
        return _FLOAT64.pack(value)

    def deserialize(self, data: bytes, /) -> float:
        return float(_FLOAT64.unpack(data)[0])


@dataclass(frozen=True, slots=True)
class JsonSerde:
    """JSON with sorted keys, so that equal values have equal bytes."""

    def serialize(self, value: Any, /) -> bytes:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def deserialize(self, data: bytes, /) -> Any:
        return json.loads(data)


@dataclass(frozen=True)  # no slots: Python 3.11 cannot make a slotted frozen dataclass as `Serdes[int](...)`
class Serdes(Generic[T]):
    """A serde made of two functions."""

    serializer: Any
    deserializer: Any

    def serialize(self, value: T, /) -> bytes:
        return bytes_of(self.serializer(value))

    def deserialize(self, data: bytes, /) -> T:
        return self.deserializer(data)  # type: ignore[no-any-return]


BYTES = BytesSerde()
STRING = StringSerde()
INTEGER = IntegerSerde()
LONG = LongSerde()
DOUBLE = DoubleSerde()
JSON = JsonSerde()
