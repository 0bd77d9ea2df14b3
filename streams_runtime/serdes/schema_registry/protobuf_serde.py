"""Two serdes for Protobuf in Confluent's wire format: one for messages of a given class, and one for messages of any
type as JSON.

Equal messages have equal bytes, even if the order of their map entries differs. `ProtobufSerde` reads messages as
instances of a given class. `ProtobufSerde` checks that the message type in the writer's schema has the same full name
as the class. `DescribedProtobufSerde` is for programs without a message class, and uses the descriptors in the
registry.
Source: `KafkaProtobufSerializer`, `KafkaProtobufDeserializer` with its dynamic messages, `ProtobufMessageFormatter`,
`ProtobufMessageReader`.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar, cast

from confluent_kafka.schema_registry import Schema, SchemaReference
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
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
from streams_runtime.serdes.schema_registry.registry_settings import RegistrySettings

M = TypeVar("M", bound=Message)

_PROTOBUF = "PROTOBUF"
_AS_DESCRIPTOR = "serialized"
"""The registry has to return a schema in this form: the descriptor of the .proto file in base64."""

_EVERY_REGISTRY_HAS = ("google/protobuf/", "google/type/", "confluent/")


class ProtobufSerde(RegistrySerde[M]):
    """The serde for messages of one class, which protoc has generated. Executors must be able to import the class.

    If the .proto file of the class imports other files, these are registered under their own names. Raises InputError
    if the given class is not a message class, or if a config cannot be used.
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
        schema = registry.schema(schema_id, _AS_DESCRIPTOR)
        file = _descriptor_of(schema, f"schema {schema_id}")
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


class DescribedProtobufSerde(RegistrySerde[Any]):
    """The serde for messages of any type. Its values have Protobuf's JSON form, with the field names of the .proto
    file.

    A value is written as the first message type in the latest schema of the subject, so writing needs
    `use.latest.version`. Raises InputError if a config cannot be used.
    """

    def __init__(self, configs: Mapping[str, object]) -> None:
        super().__init__(RegistrySettings.from_configs(configs, "DescribedProtobufSerde"))

    def _encoder(self, registry: Registry) -> Encode[Any]:
        if not self._settings.use_latest:
            raise SerializationError(f"{self!r} has no schema to write with; set use.latest.version")
        schema_id, schema = registry.latest(self._subject(None), _AS_DESCRIPTOR)
        file = _file(registry, schema, f"schema {schema_id}")
        if not file.message_types_by_name:
            raise SerializationError(f"schema {schema_id} has no message")
        made = message_factory.GetMessageClass(next(iter(file.message_types_by_name.values())))
        head = header(schema_id) + message_indexes((0,))

        def encode(value: Any) -> bytes:
            try:
                message = json_format.ParseDict(value, made(), descriptor_pool=file.pool)
            # a value that is not a JSON object raises AttributeError or TypeError
            except (json_format.ParseError, AttributeError, TypeError) as error:
                name, reason = made.DESCRIPTOR.full_name, " ".join(str(error).split())  # the text may have line breaks
                raise SerializationError(f"{name} cannot be made of this value: {reason}") from error
            return head + message.SerializeToString(deterministic=True)

        return encode

    def _decoder(self, registry: Registry, schema_id: int) -> Decode[Any]:
        file = _file(registry, registry.schema(schema_id, _AS_DESCRIPTOR), f"schema {schema_id}")
        written = FileDescriptorProto()
        file.CopyToProto(written)

        def decode(data: bytes) -> Any:
            steps, at = read_message_indexes(data, HEADER_BYTES)
            descriptor = file.pool.FindMessageTypeByName(_full_name(written, steps))
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


def _schema(registry: Registry, file: FileDescriptor) -> Schema:
    """Registers the files that this file imports. Returns the schema of this file, which the caller has to register."""
    references: list[SchemaReference] = [
        registry.reference(imported.name, _schema(registry, imported))
        for imported in file.dependencies
        if not imported.name.startswith(_EVERY_REGISTRY_HAS)
    ]
    return Schema(base64.b64encode(file.serialized_pb).decode("ascii"), _PROTOBUF, references)


def _descriptor_of(schema: Schema, what: str) -> FileDescriptorProto | None:
    """Returns the descriptor of the schema's .proto file. Returns None if the registry has only the text of the file,
    because this function does not parse it. Raises SerializationError if the schema is not Protobuf. `what`: the name
    of the schema in the error message.
    """
    if schema.schema_type != _PROTOBUF:
        raise SerializationError(f"{what} is one of {schema.schema_type or 'AVRO'}, not of Protobuf")
    try:
        return FileDescriptorProto.FromString(base64.b64decode(schema.schema_str or "", validate=True))
    except (binascii.Error, DecodeError):
        return None


def _steps(descriptor: Descriptor) -> tuple[int, ...]:
    """Returns the path of a message type: the indexes of its enclosing messages, the outermost first, and then its own
    index.
    """
    steps: list[int] = []
    while (parent := descriptor.containing_type) is not None:
        steps.insert(0, list(parent.nested_types).index(descriptor))
        descriptor = parent
    return (list(descriptor.file.message_types_by_name.values()).index(descriptor), *steps)


def _full_name(file: FileDescriptorProto, steps: Sequence[int]) -> str:
    names = [file.package] if file.package else []
    messages: Sequence[DescriptorProto] = file.message_type
    for step in steps:
        if not 0 <= step < len(messages):
            raise SerializationError(f"{file.name} has no message at {list(steps)}")
        names.append(messages[step].name)
        messages = messages[step].nested_type
    return ".".join(names)


def _file(registry: Registry, schema: Schema, what: str) -> FileDescriptor:
    pool = DescriptorPool()
    try:
        return pool.FindFileByName(_added(pool, set(), registry, schema, what, name=None))
    except (TypeError, KeyError) as error:  # if files contradict each other, the pool raises one of these errors
        raise SerializationError(f"{what} cannot be used: {error}") from error


def _added(
    pool: DescriptorPool, known: set[str], registry: Registry, schema: Schema, what: str, name: str | None
) -> str:
    """Adds the files that a file imports to the pool, and then the file itself. Returns the file's name. `name`: the
    name with which other files import the file.
    """
    file = _descriptor_of(schema, what)
    if file is None:
        raise SerializationError(
            f"the registry has {what} as the text of a .proto file only; use a ProtobufSerde with the class of protoc"
        )
    file.name = name or file.name or "schema.proto"
    for reference in schema.references or ():
        if str(reference.name) not in known:
            imported = registry.referenced(reference, _AS_DESCRIPTOR)
            _added(pool, known, registry, imported, f"schema {reference.name}", str(reference.name))
    for imported_name in file.dependency:
        if imported_name not in known:
            _add_well_known(pool, known, imported_name)
    pool.Add(file)
    known.add(file.name)
    return file.name


def _add_well_known(pool: DescriptorPool, known: set[str], name: str) -> None:
    """Adds one of Protobuf's own files to the pool. The registry has no schema for Protobuf's own files, but Protobuf's
    Python library has a module for each of them.
    """
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
