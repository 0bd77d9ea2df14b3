"""Protobuf in Confluent's wire format. Source: `KafkaProtobufSerializer`, `KafkaProtobufDeserializer`.

Equal messages have equal bytes, whatever the order of their maps. A message is read as the class that was given; that
the writer's type has the same full name is checked once for each schema and type.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from confluent_kafka.schema_registry import Schema, SchemaReference
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError, EncodeError, Message

from assignor.errors import InputError
from streams_runtime.common.errors import SerializationError
from streams_runtime.serdes.schema_registry.registry import Registry
from streams_runtime.serdes.schema_registry.registry_serde import (
    HEADER_BYTES,
    Decode,
    Encode,
    RegistrySerde,
    header,
    message_indexes,
    read_message_indexes,
)
from streams_runtime.serdes.schema_registry.settings import RegistrySettings

M = TypeVar("M", bound=Message)

PROTOBUF = "PROTOBUF"
AS_DESCRIPTOR = "serialized"
"""The form of a schema to ask for: its descriptor, as base64."""

_EVERY_REGISTRY_HAS = ("google/protobuf/", "google/type/", "confluent/")


class ProtobufSerde(RegistrySerde[M]):
    """Messages of one class that protoc made. The class has to be importable on executors.

    Files that its file imports are registered under their own names. Raises InputError for anything else than a message
    class, and for a config that cannot be used.
    """

    def __init__(self, message: type[M], configs: Mapping[str, object]) -> None:
        super().__init__(RegistrySettings.from_configs(configs, "ProtobufSerde"))
        if not (isinstance(message, type) and issubclass(message, Message)):
            raise InputError(f"takes a message class that protoc made, not {message!r}", "ProtobufSerde")
        self._message = message

    def _encoder(self, registry: Registry) -> Encode[M]:
        message = self._message
        descriptor = cast("Descriptor", message.DESCRIPTOR)
        subject = self._subject(descriptor.full_name)
        if self._settings.use_latest:
            schema_id, _ = registry.latest(subject)
        else:
            schema_id = registry.id_for(subject, _schema(registry, descriptor.file))
        head = header(schema_id) + message_indexes(_steps(descriptor))

        def encode(value: M) -> bytes:
            if not isinstance(value, message):
                raise SerializationError(f"{descriptor.full_name} was expected, not a {type(value).__name__}")
            try:
                return head + value.SerializeToString(deterministic=True)
            except EncodeError as error:  # a required field of proto2 is missing
                raise SerializationError(f"{descriptor.full_name} cannot be written: {error}") from error

        return encode

    def _decoder(self, registry: Registry, schema_id: int) -> Decode[M]:
        schema = registry.schema(schema_id, AS_DESCRIPTOR)
        if schema.schema_type != PROTOBUF:
            raise SerializationError(f"schema {schema_id} is one of {schema.schema_type or 'AVRO'}, not of Protobuf")
        file = descriptor_of(schema)
        wanted = self._message.DESCRIPTOR.full_name
        from_string = self._message.FromString
        checked: set[tuple[int, ...]] = set()

        def decode(data: bytes) -> M:
            steps, at = read_message_indexes(data, HEADER_BYTES)
            if steps not in checked:
                written = wanted if file is None else _full_name(file, steps)
                if written != wanted:
                    raise SerializationError(f"the record is a {written} of schema {schema_id}, not a {wanted}")
                checked.add(steps)
            try:
                return from_string(data[at:])
            except DecodeError as error:
                raise SerializationError(f"these bytes are no {wanted} of schema {schema_id}: {error}") from error

        return decode


def _schema(registry: Registry, file: FileDescriptor) -> Schema:
    """The file as the registry takes it, after the files that it imports."""
    references: list[SchemaReference] = [
        registry.reference(imported.name, _schema(registry, imported))
        for imported in file.dependencies
        if not imported.name.startswith(_EVERY_REGISTRY_HAS)
    ]
    return Schema(base64.b64encode(file.serialized_pb).decode("ascii"), PROTOBUF, references)


def descriptor_of(schema: Schema) -> FileDescriptorProto | None:
    """None: the registry knows no other form than the text of a .proto file, in which nothing is looked up here."""
    try:
        return FileDescriptorProto.FromString(base64.b64decode(schema.schema_str or "", validate=True))
    except (binascii.Error, DecodeError):
        return None


def _steps(descriptor: Descriptor) -> tuple[int, ...]:
    """The message's position among the messages of its file, and before it those of the messages around it."""
    names: list[str] = []
    around: Descriptor | None = descriptor
    while around is not None:
        names.insert(0, around.name)
        around = around.containing_type
    file = FileDescriptorProto()
    descriptor.file.CopyToProto(file)
    steps: list[int] = []
    messages: Sequence[DescriptorProto] = file.message_type
    for name in names:
        step = next(position for position, message in enumerate(messages) if message.name == name)
        steps.append(step)
        messages = messages[step].nested_type
    return tuple(steps)


def _full_name(file: FileDescriptorProto, steps: Sequence[int]) -> str:
    names = [file.package] if file.package else []
    messages: Sequence[DescriptorProto] = file.message_type
    for step in steps:
        if not 0 <= step < len(messages):
            raise SerializationError(f"{file.name} has no message at {list(steps)}")
        names.append(messages[step].name)
        messages = messages[step].nested_type
    return ".".join(names)
