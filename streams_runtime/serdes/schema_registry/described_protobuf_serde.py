"""Protobuf of any type as JSON, for programs that have no class of it: the registry describes the messages.

Source: `KafkaProtobufDeserializer` with its dynamic messages, `ProtobufMessageFormatter`, `ProtobufMessageReader`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from confluent_kafka.schema_registry import Schema
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from streams_runtime.common.errors import SerializationError
from streams_runtime.serdes.schema_registry.protobuf_serde import AS_DESCRIPTOR, PROTOBUF, descriptor_of
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


class DescribedProtobufSerde(RegistrySerde[Any]):
    """Values as Protobuf's JSON has them, with fields under their own names.

    A value is written as the first message of the subject's latest schema, so `use.latest.version` is needed. Raises
    InputError for a config that cannot be used.
    """

    def __init__(self, configs: Mapping[str, object]) -> None:
        super().__init__(RegistrySettings.from_configs(configs, "DescribedProtobufSerde"))

    def _encoder(self, registry: Registry) -> Encode[Any]:
        if not self._settings.use_latest:
            raise SerializationError(f"{self!r} has no schema to write with; set use.latest.version")
        schema_id, schema = registry.latest(self._subject(None), AS_DESCRIPTOR)
        file = _file(registry, schema, f"schema {schema_id}")
        if not file.message_types_by_name:
            raise SerializationError(f"schema {schema_id} has no message")
        made = message_factory.GetMessageClass(next(iter(file.message_types_by_name.values())))
        head = header(schema_id) + message_indexes((0,))

        def encode(value: Any) -> bytes:
            try:
                message = json_format.ParseDict(value, made(), descriptor_pool=file.pool)
            except (json_format.ParseError, AttributeError, TypeError) as error:  # the last two: it is no object
                name, reason = made.DESCRIPTOR.full_name, " ".join(str(error).split())  # it may be several lines
                raise SerializationError(f"{name} cannot be made of this value: {reason}") from error
            return head + message.SerializeToString(deterministic=True)

        return encode

    def _decoder(self, registry: Registry, schema_id: int) -> Decode[Any]:
        file = _file(registry, registry.schema(schema_id, AS_DESCRIPTOR), f"schema {schema_id}")

        def decode(data: bytes) -> Any:
            steps, at = read_message_indexes(data, HEADER_BYTES)
            descriptor = _message_at(file, steps)
            try:
                message = message_factory.GetMessageClass(descriptor).FromString(data[at:])
            except DecodeError as error:
                raise SerializationError(
                    f"these bytes are no {descriptor.full_name} of schema {schema_id}: {error}"
                ) from error
            return json_format.MessageToDict(
                message,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                descriptor_pool=file.pool,
            )

        return decode


def _message_at(file: FileDescriptor, steps: tuple[int, ...]) -> Descriptor:
    messages = list(file.message_types_by_name.values())
    found: Descriptor | None = None
    for step in steps:
        if not 0 <= step < len(messages):
            raise SerializationError(f"{file.name} has no message at {list(steps)}")
        found = messages[step]
        messages = list(found.nested_types)
    if found is None:
        raise SerializationError(f"{file.name}: the record does not say which message it is")
    return found


def _file(registry: Registry, schema: Schema, what: str) -> FileDescriptor:
    pool = descriptor_pool.DescriptorPool()
    try:
        return pool.FindFileByName(_added(pool, set(), registry, schema, what, name=None))
    except (TypeError, KeyError) as error:  # as the pool refuses what does not fit together
        raise SerializationError(f"{what} cannot be used: {error}") from error


def _added(
    pool: descriptor_pool.DescriptorPool,
    known: set[str],
    registry: Registry,
    schema: Schema,
    what: str,
    name: str | None,
) -> str:
    """Put the file into the pool, after those that it imports; its name. `name`: by which others import it."""
    if schema.schema_type != PROTOBUF:
        raise SerializationError(f"{what} is one of {schema.schema_type or 'AVRO'}, not of Protobuf")
    file = descriptor_of(schema)
    if file is None:
        raise SerializationError(
            f"the registry has {what} as the text of a .proto file only; use a ProtobufSerde with the class of protoc"
        )
    file.name = name or file.name or "schema.proto"
    for reference in schema.references or ():
        if str(reference.name) not in known:
            imported = registry.referenced(reference, AS_DESCRIPTOR)
            _added(pool, known, registry, imported, f"schema {reference.name}", str(reference.name))
    for imported_name in file.dependency:
        if imported_name not in known:
            _add_well_known(pool, known, imported_name)
    pool.Add(file)
    known.add(file.name)
    return file.name


def _add_well_known(pool: descriptor_pool.DescriptorPool, known: set[str], name: str) -> None:
    """A file that every registry has: Protobuf's own are modules of its library."""
    file = FileDescriptorProto()
    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError as error:
        raise SerializationError(f"a schema imports {name}, which the registry does not refer to") from error
    module.DESCRIPTOR.CopyToProto(file)
    for imported in file.dependency:
        if imported not in known:
            _add_well_known(pool, known, imported)
    pool.Add(file)
    known.add(name)
