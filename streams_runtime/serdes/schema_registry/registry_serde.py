"""The base class of the serdes that use a schema registry: topic, subject, Confluent's wire format, and cached schemas.

Wire format: a zero byte, four bytes of the schema's id, big-endian, then the data. In Protobuf, the path of the
message's type stands before the data. A path has the number of its steps, then for each step the index of a message in
its file or in its enclosing message. All numbers of the path are zig-zag varints. The path of a file's first message is
a single zero byte. Most messages are of their file's first type, so their path is this single byte.

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
    """Reads the schema id. Raises SerializationError for bytes that are not in Confluent's wire format."""
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
    """Returns the steps of the path, and the index in `data` at which the message begins. Raises SerializationError."""
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
bytes with this header, but only those of one schema id.
"""


class RegistrySerde(Generic[T]):
    """The base class of the serdes that use a schema registry. Only the serde that `for_topic` returns can write. Every
    serde of this class can read, with or without a topic.

    A subclass implements writing (`_encoder`), and reading of the records of one schema (`_decoder`).
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
        """Returns a copy of the serde that uses the subjects of this topic."""
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
        """Returns the schema with which to write, and its id. If use.latest.version is set, returns the subject's
        latest schema. If use.latest.version is not set, returns `given` and the id from `Registry.id_for`.
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
