"""Avro in Confluent's wire format, encoded and decoded by fastavro. Source: `KafkaAvroSerializer`,
`KafkaAvroDeserializer`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, TypeVar

from confluent_kafka.schema_registry import Schema
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import SchemaParseException

from assignor.errors import InputError
from streams_runtime.common.errors import SerializationError
from streams_runtime.serdes.schema_registry.registry import Registry
from streams_runtime.serdes.schema_registry.registry_serde import HEADER_BYTES, Decode, Encode, RegistrySerde, header
from streams_runtime.serdes.schema_registry.registry_settings import RegistrySettings

T = TypeVar("T")

_AVRO = "AVRO"


class AvroSerde(RegistrySerde[T]):
    """Values as fastavro takes them: a dict for a record, plain values for other types.

    `schema`: as JSON text or as parsed JSON; what is read is resolved to it. None: values are read as they were
    written, and written only with `use.latest.version`. `to_dict`, `from_dict`: from an object of one's own to what
    fastavro takes, and back. Raises InputError for a schema or a config that cannot be used.
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | Sequence[Any] | None,
        configs: Mapping[str, object],
        *,
        to_dict: Callable[[T], Any] | None = None,
        from_dict: Callable[[Any], T] | None = None,
    ) -> None:
        super().__init__(RegistrySettings.from_configs(configs, "AvroSerde"))
        self._schema = None if schema is None else _checked(schema)
        self._to_dict = to_dict
        self._from_dict = from_dict

    def _encoder(self, registry: Registry) -> Encode[T]:
        given = None if self._schema is None else Schema(self._schema, _AVRO)
        name = None if given is None else _name(_parsed(registry, given))
        schema_id, schema = self._schema_to_write(registry, name, given)
        parsed = _parsed(registry, schema)
        head, to_dict = header(schema_id), self._to_dict

        def encode(value: T) -> bytes:
            stream = BytesIO()
            stream.write(head)
            try:
                schemaless_writer(stream, parsed, value if to_dict is None else to_dict(value))
            except Exception as error:  # fastavro raises whatever the value makes it stumble over
                raise SerializationError(f"Avro schema {_name(parsed)} cannot write this value: {error!r}") from error
            return stream.getvalue()

        return encode

    def _decoder(self, registry: Registry, schema_id: int) -> Decode[T]:
        schema = registry.schema(schema_id)
        written = _parsed(registry, schema)
        wanted = None  # reading without resolving is faster
        if self._schema is not None and json.loads(self._schema) != json.loads(schema.schema_str or "null"):
            wanted = _parsed(registry, Schema(self._schema, _AVRO))
        from_dict = self._from_dict

        def decode(data: bytes) -> T:
            stream = BytesIO(data)
            stream.seek(HEADER_BYTES)
            try:
                value: Any = schemaless_reader(stream, written, wanted)
            except Exception as error:  # fastavro raises whatever the bytes make it stumble over
                raise SerializationError(
                    f"these bytes cannot be read by Avro schema {schema_id} ({_name(written)}): {error!r}"
                ) from error
            return value if from_dict is None else from_dict(value)

        return decode


def _checked(schema: str | Mapping[str, Any] | Sequence[Any]) -> str:
    try:
        document: Any = json.loads(schema) if isinstance(schema, str) else schema
        parse_schema(document, {})
    except (SchemaParseException, ValueError, KeyError, TypeError) as error:
        raise InputError(f"this is no Avro schema: {error!r}", "AvroSerde") from error
    return schema if isinstance(schema, str) else json.dumps(schema)


def _parsed(registry: Registry, schema: Schema, named: dict[str, Any] | None = None) -> Any:
    """`named`: types that are known already; those that the schema refers to are added."""
    if schema.schema_type not in (None, _AVRO):
        raise SerializationError(f"the schema is one of {schema.schema_type}, not of Avro")
    known: dict[str, Any] = {} if named is None else named
    for reference in schema.references or ():
        if reference.name not in known:
            _parsed(registry, registry.referenced(reference), known)
    try:
        return parse_schema(json.loads(schema.schema_str or ""), known)
    except (SchemaParseException, ValueError) as error:
        raise SerializationError(f"the registry's schema is no Avro schema: {error!r}") from error


def _name(parsed: Any) -> str | None:
    """The full name of a named type, the name of any other; a union has none."""
    if isinstance(parsed, dict):
        found = parsed.get("name", parsed.get("type"))
        return found if isinstance(found, str) else None
    return parsed if isinstance(parsed, str) else None
