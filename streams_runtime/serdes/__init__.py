"""The protocol of serdes, serdes with the same formats as Kafka's own serdes, and a serde for JSON. Serdes for a schema
registry are in the package `schema_registry`. Source: `Serde`, `Serializer`, `Deserializer`, `Serdes`.

In Kafka, each call of a serde has the topic as an argument. In this runtime, only a `TopicSerde` gets the topic, and
only once: before the first record. A serde with inner serdes has to be a `NestedSerde`, so that its inner serdes also
get the topic.
"""

import json
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast, runtime_checkable

from streams_runtime.common.records import bytes_of

T = TypeVar("T")

_OWN_PACKAGE = "streams_runtime."
_INT32 = struct.Struct(">i")


@runtime_checkable
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


class WithInnerSerdes:
    """The base of dataclasses that are a `NestedSerde`: each field with a serde is an inner serde."""

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> Self:
        this: Any = self
        given = {each.name: getattr(this, each.name) for each in fields(this)}
        changed: Self = replace(
            this, **{name: change(value) for name, value in given.items() if isinstance(value, Serde)}
        )
        return changed


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
        # the method `serialize` of numbers and of windowed keys takes twice the time
        return serde.make_serializer() if hasattr(serde, "make_serializer") else serialize

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
    if isinstance(given, type) and all(hasattr(given, method) for method in methods):
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
class BooleanSerde:
    """The serde of True and False. The byte is 1 or 0."""

    def serialize(self, value: bool, /) -> bytes:
        if value is True:
            return b"\x01"
        if value is False:
            return b"\x00"
        raise TypeError(f"a bool is needed, not a {type(value).__name__}")

    def deserialize(self, data: bytes, /) -> bool:
        if data not in (b"\x00", b"\x01"):
            raise ValueError(f"a boolean has the byte 0 or 1, not {data!r}")
        return data == b"\x01"


class _NumberSerde(Generic[T]):
    """The base of the serdes of numbers. The bytes are big-endian. `format`: the only number in the bytes."""

    __slots__ = ()
    format: ClassVar[struct.Struct]

    def serialize(self, value: T, /) -> bytes:
        return self.format.pack(value)

    def make_serializer(self) -> Callable[[T], bytes]:
        """See `serializer_of`."""
        return self.format.pack

    def deserialize(self, data: bytes, /) -> T:
        return self.format.unpack(data)[0]  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class ShortSerde(_NumberSerde[int]):
    """The serde of signed integers of two bytes, as in Kafka's `ShortSerializer`."""

    format = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class IntegerSerde(_NumberSerde[int]):
    """The serde of signed integers of four bytes, as in Kafka's `IntegerSerializer`."""

    format = _INT32


@dataclass(frozen=True, slots=True)
class LongSerde(_NumberSerde[int]):
    """The serde of signed integers of eight bytes, as in Kafka's `LongSerializer`."""

    format = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class FloatSerde(_NumberSerde[float]):
    """The serde of floats of four bytes, as in Kafka's `FloatSerializer`."""

    format = struct.Struct(">f")


@dataclass(frozen=True, slots=True)
class DoubleSerde(_NumberSerde[float]):
    """The serde of floats of eight bytes, as in Kafka's `DoubleSerializer`."""

    format = struct.Struct(">d")


@dataclass(frozen=True, slots=True)
class UUIDSerde:
    """The serde of UUIDs. The bytes are the text of the UUID, as in Kafka's `UUIDSerializer`."""

    def serialize(self, value: uuid.UUID, /) -> bytes:
        if not isinstance(value, uuid.UUID):
            raise TypeError(f"a uuid.UUID is needed, not a {type(value).__name__}")
        return str(value).encode()

    def deserialize(self, data: bytes, /) -> uuid.UUID:
        return uuid.UUID(data.decode())


@dataclass(frozen=True, slots=True)
class VoidSerde:
    """The serde of keys or values that are always None. The runtime writes None without calling a serde, so each call
    of this serde raises an error.
    """

    def serialize(self, value: None, /) -> bytes:
        raise TypeError(f"None is needed, not a {type(value).__name__}")

    def deserialize(self, data: bytes, /) -> None:
        raise ValueError(f"null is needed, not {len(data)} bytes")


_NUMBER_SERDES = (ShortSerde, IntegerSerde, FloatSerde, LongSerde, DoubleSerde)
_ENTRY_BYTES: dict[type, int] = {UUIDSerde: 36} | {each: each.format.size for each in _NUMBER_SERDES}
"""The serdes of entries for which Kafka's list has no length before each entry, and the number of bytes of an entry."""
_NULL_ENTRY = -1


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class ListSerde(WithInnerSerdes, Generic[T]):
    """The serde of lists. `inner`: the serde of an entry. An entry may be None.

    The first byte is 0 if all entries have the same length. Then come the number and the indices of the entries that
    are None, the number of all entries, and the other entries. If the first byte is 1, each entry has its length before
    it, and the length of None is -1. Source: `ListSerializer`, `ListDeserializer`.
    """

    inner: Serde[T]

    def serialize(self, value: list[T | None], /) -> bytes:
        entries = [None if entry is None else self.inner.serialize(entry) for entry in value]
        count = _INT32.pack(len(entries))
        if type(self.inner) in _ENTRY_BYTES:
            nulls = [index for index, entry in enumerate(entries) if entry is None]
            head = struct.pack(f">b{len(nulls) + 1}i", 0, len(nulls), *nulls)
            return head + count + b"".join(entry for entry in entries if entry is not None)
        with_lengths = (
            _INT32.pack(_NULL_ENTRY) if entry is None else _INT32.pack(len(entry)) + entry for entry in entries
        )
        return b"\x01" + count + b"".join(with_lengths)

    def deserialize(self, data: bytes, /) -> list[T | None]:
        size = _ENTRY_BYTES.get(type(self.inner))
        if data[:1] != (b"\x01" if size is None else b"\x00"):
            raise ValueError(f"a list of {type(self.inner).__name__} does not begin with {data[:1]!r}")
        at, nulls = 1, frozenset[int]()
        if size is not None:
            (null_count,) = _INT32.unpack_from(data, at)
            nulls = frozenset(struct.unpack_from(f">{null_count}i", data, at + 4))
            at += 4 + 4 * null_count
        (count,) = _INT32.unpack_from(data, at)
        at += 4
        entries: list[T | None] = []
        for index in range(count):
            length = size
            if length is None:
                (length,) = _INT32.unpack_from(data, at)
                at += 4
            if index in nulls or length == _NULL_ENTRY:
                entries.append(None)
                continue
            if length < 0 or at + length > len(data):
                raise ValueError(f"entry {index} of a list has {length} bytes, and {len(data) - at} are left")
            entries.append(self.inner.deserialize(data[at : at + length]))
            at += length
        return entries


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
BOOLEAN = BooleanSerde()
SHORT = ShortSerde()
INTEGER = IntegerSerde()
LONG = LongSerde()
FLOAT = FloatSerde()
DOUBLE = DoubleSerde()
UUID = UUIDSerde()
VOID = VoidSerde()
JSON = JsonSerde()
