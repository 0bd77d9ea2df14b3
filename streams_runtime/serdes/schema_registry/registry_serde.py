"""The base class of the serdes that use a schema registry. The class handles topics, subjects, Confluent's wire format,
and cached schemas.

The wire format is a zero byte, the schema id as four big-endian bytes, and the data. In Protobuf, a path that names the
message type comes before the data. A path begins with the number of its steps. Each step is the index of a message type
in its file or in its enclosing message type. All numbers of the path are zig-zag varints. The path of the first message
type in a file is a single zero byte.

A serde is pickled without its cached schemas. Source: `AbstractKafkaSchemaSerDe`, `MessageIndexes`.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Generic, Self

from confluent_kafka.schema_registry import Schema

from streams_runtime.common.errors import SerializationError
from streams_runtime.serdes import T
from streams_runtime.serdes.schema_registry.registry import Registry
from streams_runtime.serdes.schema_registry.registry_settings import RegistrySettings
from streams_runtime.serdes.varints import read_varint, varint

_HEADER = struct.Struct(">bI")
HEADER_BYTES = _HEADER.size
_MOST_STEPS = 100
_CUT_OFF = "the message indexes of Protobuf are cut off"


def header(schema_id: int) -> bytes:
    return _HEADER.pack(0, schema_id)


def schema_id_of(data: bytes) -> int:
    """Returns the schema id in the bytes. Raises SerializationError if the bytes do not have Confluent's wire
    format.
    """
    if len(data) < HEADER_BYTES:
        raise SerializationError(
            f"{len(data)} bytes are too few for Confluent's wire format, which begins with a zero byte "
            "and four bytes of a schema's id"
        )
    magic, schema_id = _HEADER.unpack_from(data)
    if magic != 0:
        raise SerializationError(
            f"the first byte is 0x{data[0]:02x}, and 0x00 in Confluent's wire format; "
            "the record was written without a schema registry"
        )
    return int(schema_id)


def message_indexes(steps: Sequence[int]) -> bytes:
    if tuple(steps) == (0,):
        return b"\0"
    return varint(len(steps)) + b"".join(varint(step) for step in steps)


def read_message_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Returns the steps of the path, and the index of the first byte of the message in `data`. Raises
    SerializationError.
    """
    count, at = read_varint(data, at, SerializationError, _CUT_OFF)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_STEPS:
        raise SerializationError(f"{count} message indexes are not possible; the data is no Protobuf of a registry")
    steps = []
    for _ in range(count):
        step, at = read_varint(data, at, SerializationError, _CUT_OFF)
        steps.append(step)
    return tuple(steps), at


Encode = Callable[[T], bytes]
Decode = Callable[[bytes], T]
"""An `Encode` function serializes a value to bytes with the header of the wire format. A `Decode` function deserializes
bytes with this header, and accepts only one schema id.
"""


class RegistrySerde(Generic[T]):
    """The base class of the serdes that use a schema registry. A serde without a topic can read but cannot write.
    `for_topic` returns a serde that can also write.

    A subclass implements two methods: `_encoder` makes the function that writes, and `_decoder` makes a function that
    reads the records of one schema.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._topic: str | None = None
        self._is_key = False
        self._encode: Encode[T] | None = None
        self._decoders: dict[bytes, Decode[T]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_encode": None, "_decoders": {}}

    def __repr__(self) -> str:
        place = "" if self._topic is None else f", {self._topic} {'keys' if self._is_key else 'values'}"
        return f"{type(self).__name__}({self._settings.url}{place})"

    def for_topic(self, topic: str, *, is_key: bool) -> Self:
        """Returns a copy of the serde for the keys or the values of this topic."""
        bound = type(self).__new__(type(self))
        bound.__dict__.update(self.__getstate__(), _topic=topic, _is_key=is_key)
        return bound

    def serialize(self, value: T, /) -> bytes:
        """Raises SerializationError, SchemaRegistryUnavailable."""
        encode = self._encode
        if encode is None:
            encode = self._encode = self._encoder(Registry(self._settings))
        return encode(value)

    def deserialize(self, data: bytes, /) -> T:
        """Raises SerializationError, SchemaRegistryUnavailable."""
        decode = self._decoders.get(data[:5])
        if decode is None:
            schema_id = schema_id_of(data)
            decode = self._decoders[data[:5]] = self._decoder(Registry(self._settings), schema_id)
        return decode(data)

    def _encoder(self, registry: Registry) -> Encode[T]:
        raise NotImplementedError

    def _decoder(self, registry: Registry, schema_id: int) -> Decode[T]:
        raise NotImplementedError

    def _schema_to_write(self, registry: Registry, record: str | None, given: Schema | None) -> tuple[int, Schema]:
        """Returns the id and the schema for writing. If use.latest.version is set, returns the latest schema of the
        subject. If use.latest.version is not set, returns the schema `given`, with the id from `Registry.id_for`.
        """
        if self._settings.use_latest:
            return registry.latest(self._subject(record))
        if given is None:
            raise SerializationError(f"{self!r} has no schema to write with; give one, or set use.latest.version")
        return registry.id_for(self._subject(record), given), given

    def _subject(self, record: str | None) -> str:
        settings = self._settings
        strategy = settings.key_subject if self._is_key else settings.value_subject
        subject = strategy(self._topic, self._is_key, record)
        if subject is None:
            missing = "the record's name" if self._topic is not None else "a topic; write with for_topic(topic, ...)"
            raise SerializationError(f"{self!r}: its subject name strategy needs {missing}")
        return subject
