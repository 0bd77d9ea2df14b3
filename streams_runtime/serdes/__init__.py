"""The protocol of serdes, the serdes with the formats of Kafka's own serdes, and a serde for JSON. The package
`schema_registry` has serdes that use a schema registry. Source: `Serde`, `Serializer`, `Deserializer`, `Serdes`.

Kafka passes the topic to each call of a serde. This runtime passes the topic only to a `TopicSerde`, and only once,
before the first record. A serde with inner serdes has to be a `NestedSerde`, so that the inner serdes get the topic,
too.
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
    """Converts objects to bytes and back. A serde never gets None, because the runtime writes a key or value of None as
    null, without the serde. The runtime reports an error of a serde with the topic, partition and offset of the record,
    or with the node.
    """

    def serialize(self, value: T, /) -> bytes: ...
    def deserialize(self, data: bytes, /) -> T: ...


@runtime_checkable
class NestedSerde(Protocol):
    """A serde, a partitioner or a processor that has inner serdes."""

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> Any:
        """Returns a copy of the object, in which each inner serde is replaced by the result of `change`."""


@runtime_checkable
class TopicSerde(Protocol[T]):
    """A serde whose bytes depend on the topic, such as the serdes of a schema registry."""

    def for_topic(self, topic: str, *, is_key: bool) -> Serde[T]:
        """Returns the serde for the keys or the values of a topic. `topic`: the topic's full name; for a store, the
        full name of its changelog.
        """


def serde_for_topic(serde: Serde[T], topic: str, *, is_key: bool) -> Serde[T]:
    """Returns the serde to use for this topic, which is `serde` itself unless it is a `TopicSerde` or a
    `NestedSerde`.
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
    """Returns a function that serializes with the serde. If a user's serde returns something other than bytes, the
    function raises TypeError. So sinks, stores and producers never get a result that is not bytes. The returned
    function accepts None, which is null in a topic.
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
    """Returns the reason why `given` is not a serde, as the end of an error message. Returns None if `given` is a
    serde. `methods`: the methods that the serde needs.
    """
    name = getattr(given, "__qualname__", "")
    if isinstance(given, type):
        return f"must be an object, not the class {name}: make one, as in {name}()"
    if all(callable(getattr(given, method, None)) for method in methods):
        return None
    return f"must have {' and '.join(methods)}, and {given!r} has not"


@lru_cache
def _kind(serde: type) -> tuple[bool, bool]:
    """Returns whether the class is a `TopicSerde`, and whether it is a `NestedSerde`. The result is cached, because
    each new task checks its serdes, and `issubclass` with a protocol is slow.
    """
    return issubclass(serde, TopicSerde), issubclass(serde, NestedSerde)


@dataclass(frozen=True, slots=True)
class BytesSerde:
    """The serde of bytes. Returns the bytes unchanged. `serialize` also accepts bytearray and
    memoryview.
    """

    def serialize(self, value: bytes, /) -> bytes:
        return value if type(value) is bytes else bytes_of(value)

    def deserialize(self, data: bytes, /) -> bytes:
        return data


@dataclass(frozen=True, slots=True)
class StringSerde:
    """The serde of text. The bytes are UTF-8."""

    def serialize(self, value: str, /) -> bytes:
        return value.encode()

    # `bytes.decode` itself takes half the time of a method that calls it. `serialize` is a method: its error for a
    # value of another type describes the value better than the error of `str.encode`.
    deserialize = staticmethod(bytes.decode)


@dataclass(frozen=True, slots=True)
class IntegerSerde:
    """The serde of integers with four bytes, big-endian and signed, as Kafka's `IntegerSerializer` writes them."""

    def serialize(self, value: int, /) -> bytes:
        return _INT32.pack(value)

    def deserialize(self, data: bytes, /) -> int:
        return int(_INT32.unpack(data)[0])


@dataclass(frozen=True, slots=True)
class LongSerde:
    """The serde of integers with eight bytes, big-endian and signed, as Kafka's `LongSerializer` writes them."""

    def serialize(self, value: int, /) -> bytes:
        return _INT64.pack(value)

    def deserialize(self, data: bytes, /) -> int:
        return int(_INT64.unpack(data)[0])


@dataclass(frozen=True, slots=True)
class DoubleSerde:
    """The serde of floats with eight bytes, big-endian, as Kafka's `DoubleSerializer` writes them."""

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


@dataclass(frozen=True)  # no slots: Python 3.11 fails at `Serdes[int](...)` of a slotted frozen dataclass
class Serdes(Generic[T]):
    """A serde that is made of two functions."""

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
