"""The protocol of serdes, serdes with the same formats as Kafka's own serdes, and a serde for JSON. Serdes for a schema
registry are in the package `schema_registry`. Source: `Serde`, `Serializer`, `Deserializer`, `Serdes`.

In Kafka, each call of a serde has the topic as an argument. In this runtime, only a `TopicSerde` gets the topic, and
only once: before the first record. A serde with inner serdes has to be a `NestedSerde`, so that its inner serdes also
get the topic.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from streams_runtime.common.records import bytes_of

T = TypeVar("T")

_OWN_PACKAGE = "streams_runtime."
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_FLOAT64 = struct.Struct(">d")


class Serde(Protocol[T]):
    """Converts objects to bytes and back. A serde never gets None: the runtime writes None as null without calling the
    serde. If a serde cannot read a record, the runtime's error names the topic, partition and offset of the record. If
    a serde cannot write a key or value, the error names the sink or store.
    """

    def serialize(self, value: T, /) -> bytes: ...
    def deserialize(self, data: bytes, /) -> T: ...


@runtime_checkable
class NestedSerde(Protocol):
    """A serde, a partitioner or a processor that has inner serdes."""

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> Any:
        """Returns a copy of the object with new inner serdes. `change`: a function that returns the new serde for an
        inner serde.
        """


@runtime_checkable
class TopicSerde(Protocol[T]):
    """A serde that writes different bytes for different topics, such as the serdes of a schema registry."""

    def for_topic(self, topic: str, *, is_key: bool) -> Serde[T]:
        """Returns the serde for the keys or the values of a topic. `topic`: the topic's full name; for a store, the
        full name of its changelog.
        """


def serde_for_topic(serde: Serde[T], topic: str, *, is_key: bool) -> Serde[T]:
    """Returns the serde for this topic. Only a `TopicSerde` or a `NestedSerde` is replaced. Any other serde is returned
    unchanged.
    """
    by_topic, nested = _kind(type(serde))
    if by_topic:
        of_topic: Serde[T] = cast("TopicSerde[T]", serde).for_topic(topic, is_key=is_key)
        return of_topic
    if nested:
        changed: Serde[T] = cast(NestedSerde, serde).with_inner(
            lambda inner: serde_for_topic(inner, topic, is_key=is_key)
        )
        return changed
    return serde


def serializer_of(serde: Serde[T]) -> Callable[[T], bytes]:
    """Returns a function that serializes with the serde. If a user's serde returns an object that is not bytes, the
    function raises TypeError. So sinks, stores and producers always get bytes. The serde may also return None, which is
    null in a topic.
    """
    serialize = serde.serialize
    if type(serde).__module__.startswith(_OWN_PACKAGE):  # this package's serdes always return bytes
        return serialize

    def checked(value: T, /) -> bytes:
        written = serialize(value)
        if type(written) is bytes or written is None:
            return written
        try:
            return bytes_of(written)
        except TypeError as error:
            raise TypeError(f"{type(serde).__name__}.serialize: {error}") from None

    return checked


def serde_fault(given: object, *methods: str) -> str | None:
    """Returns the end of an error message that says why an object is not a serde. Returns None if the object is a
    serde. `methods`: the methods that a serde must have.
    """
    name = getattr(given, "__qualname__", "")
    if isinstance(given, type):
        return f"must be an object, not the class {name}: make one, as in {name}()"
    if all(callable(getattr(given, method, None)) for method in methods):
        return None
    return f"must have {' and '.join(methods)}, and {given!r} has not"


@lru_cache
def _kind(serde: type) -> tuple[bool, bool]:
    """Returns two values: True if the class is a `TopicSerde`, and True if it is a `NestedSerde`. The result is cached,
    because each new task calls this function, and `issubclass` is slow for a protocol.
    """
    return issubclass(serde, TopicSerde), issubclass(serde, NestedSerde)


@dataclass(frozen=True, slots=True)
class BytesSerde:
    """The serde of bytes, which it returns unchanged. `serialize` also accepts a bytearray and a memoryview."""

    def serialize(self, value: bytes, /) -> bytes:
        return value if type(value) is bytes else bytes_of(value)

    def deserialize(self, data: bytes, /) -> bytes:
        return data


@dataclass(frozen=True, slots=True)
class StringSerde:
    """The serde of text. The bytes are UTF-8."""

    def serialize(self, value: str, /) -> bytes:
        return value.encode()

    # `deserialize` is `bytes.decode` itself, because a method that calls `bytes.decode` would take twice the time.
    # `serialize` is a method, because its error for a value of a wrong type is clearer than the error of `str.encode`.
    deserialize = staticmethod(bytes.decode)


@dataclass(frozen=True, slots=True)
class IntegerSerde:
    """The serde of signed integers of four bytes. The bytes are big-endian, as in Kafka's `IntegerSerializer`."""

    def serialize(self, value: int, /) -> bytes:
        return _INT32.pack(value)

    def deserialize(self, data: bytes, /) -> int:
        return int(_INT32.unpack(data)[0])


@dataclass(frozen=True, slots=True)
class LongSerde:
    """The serde of signed integers of eight bytes. The bytes are big-endian, as in Kafka's `LongSerializer`."""

    def serialize(self, value: int, /) -> bytes:
        return _INT64.pack(value)

    def deserialize(self, data: bytes, /) -> int:
        return int(_INT64.unpack(data)[0])


@dataclass(frozen=True, slots=True)
class DoubleSerde:
    """The serde of floats of eight bytes. The bytes are big-endian, as in Kafka's `DoubleSerializer`."""

    def serialize(self, value: float, /) -> bytes:
        return _FLOAT64.pack(value)

    def deserialize(self, data: bytes, /) -> float:
        return float(_FLOAT64.unpack(data)[0])


@dataclass(frozen=True, slots=True)
class JsonSerde:
    """The serde of JSON values. The keys of objects are sorted, so that equal values have equal bytes."""

    def serialize(self, value: Any, /) -> bytes:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def deserialize(self, data: bytes, /) -> Any:
        return json.loads(data)


# without slots, because `Serdes[int](...)` fails in Python 3.11 for a frozen generic class with slots
@dataclass(frozen=True)
class Serdes(Generic[T]):
    """A serde that consists of two functions."""

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
