"""The serdes for Avro, and for JSON with a JSON Schema, in Confluent's wire format. The Avro serde uses the library
fastavro.
Source: `KafkaAvroSerializer`, `KafkaAvroDeserializer`, `KafkaJsonSchemaSerializer`, `KafkaJsonSchemaDeserializer`.

Keys of JSON objects are sorted, so that equal values have equal bytes. As in Kafka, JSON values are checked against
their schema only if `json.fail.invalid.schema` is true. Checking a value against its JSON schema takes many times as
long as the serialization.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, ClassVar

from confluent_kafka.schema_registry import Schema
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import SchemaParseException
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.exceptions import ValidationError as Invalid
from jsonschema.validators import validator_for

from assignor.errors import InputError
from streams_runtime.common.errors import SerializationError
from streams_runtime.serdes import JSON, T
from streams_runtime.serdes.schema_registry.registry import Registry
from streams_runtime.serdes.schema_registry.registry_serde import HEADER_BYTES, Decode, Encode, RegistrySerde, header
from streams_runtime.serdes.schema_registry.registry_settings import RegistrySettings

FAIL_INVALID = "json.fail.invalid.schema"
_AVRO, _JSON = "AVRO", "JSON"


GivenSchema = str | Mapping[str, Any] | Sequence[Any]
"""The type of a schema that the user gives: JSON text or parsed JSON."""


class _DocumentSerde(RegistrySerde[T]):
    """The base class of serdes that have a JSON document as schema. The function `to_dict` converts a user's object to
    plain values, and the function `from_dict` converts them back.
    """

    _own_configs: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        schema: GivenSchema | None,
        configs: Mapping[str, object],
        *,
        to_dict: Callable[[T], Any] | None = None,
        from_dict: Callable[[Any], T] | None = None,
    ) -> None:
        others = {key: value for key, value in configs.items() if key not in self._own_configs}
        super().__init__(RegistrySettings.from_configs(others, type(self).__name__))
        self._schema = None if schema is None else self._checked(schema)
        self._own = {key: configs[key] for key in self._own_configs & configs.keys()}
        self._to_dict = to_dict
        self._from_dict = from_dict

    def _checked(self, schema: GivenSchema) -> Schema:
        """Checks the given schema, and converts it to a `Schema`. Raises InputError."""
        raise NotImplementedError


class AvroSerde(_DocumentSerde[T]):
    """The serde for Avro. Its values are the values of fastavro: a dict for a record, and plain values for other types.

    `schema`: the schema as JSON text or parsed JSON. When a value is read, Avro's schema resolution converts it to this
    schema. If `schema` is None, each value is read with the schema of its writer. In this case, a serde can write only
    with `use.latest.version`. The function `to_dict` converts a user's object to a value for fastavro, and the function
    `from_dict` converts it back. Raises InputError if the schema or a config cannot be used.
    """

    def _checked(self, schema: GivenSchema) -> Schema:
        try:
            document: Any = json.loads(schema) if isinstance(schema, str) else schema
            parse_schema(document, {})
        except (SchemaParseException, ValueError, KeyError, TypeError) as error:
            raise InputError(f"this is no Avro schema: {error!r}", "AvroSerde") from error
        return Schema(schema if isinstance(schema, str) else json.dumps(schema), _AVRO)

    def _encoder(self, registry: Registry) -> Encode[T]:
        name = None if self._schema is None else _name(_parsed(registry, self._schema))
        schema_id, schema = self._schema_to_write(registry, name, self._schema)
        parsed = _parsed(registry, schema)
        head, to_dict = header(schema_id), self._to_dict

        def encode(value: T) -> bytes:
            stream = BytesIO()
            stream.write(head)
            try:
                schemaless_writer(stream, parsed, value if to_dict is None else to_dict(value))
            except Exception as error:  # for an invalid value, fastavro raises errors of many classes
                raise SerializationError(f"Avro schema {_name(parsed)} cannot write this value: {error!r}") from error
            return stream.getvalue()

        return encode

    def _decoder(self, registry: Registry, schema_id: int) -> Decode[T]:
        schema = registry.schema(schema_id)
        written = _parsed(registry, schema)
        wanted = None  # fastavro is faster without a reader's schema, because it skips schema resolution
        if self._schema is not None and _document(self._schema) != _document(schema):
            wanted = _parsed(registry, self._schema)
        from_dict = self._from_dict

        def decode(data: bytes) -> T:
            stream = BytesIO(data)
            stream.seek(HEADER_BYTES)
            try:
                value: Any = schemaless_reader(stream, written, wanted)
            except Exception as error:  # for invalid bytes, fastavro raises errors of many classes
                raise SerializationError(
                    f"these bytes cannot be read by Avro schema {schema_id} ({_name(written)}): {error!r}"
                ) from error
            return value if from_dict is None else from_dict(value)

        return decode


class JsonSchemaSerde(_DocumentSerde[T]):
    """The serde for JSON with a JSON Schema. Its values are JSON values, as Python's `json` module returns them. The
    function `to_dict` converts a user's object to a JSON value, and the function `from_dict` converts the JSON value
    back.

    `schema`: a JSON Schema as text or as parsed JSON. If `schema` is None, the serde reads values of any schema, and
    needs `use.latest.version` to write. If the config `json.fail.invalid.schema` is true (default: false), every value
    is checked against `schema`. If `schema` is None, the value is checked against the schema with which it is written.
    If that schema refers to other schemas, the value is not checked. Raises InputError if the schema or a config cannot
    be used.
    """

    _own_configs = frozenset((FAIL_INVALID,))

    def _checked(self, schema: GivenSchema) -> Schema:
        try:
            document = json.loads(schema) if isinstance(schema, str) else schema
            validator_for(document, Draft202012Validator).check_schema(document)
        except (SchemaError, ValueError) as error:
            raise InputError(f"this is no JSON Schema: {error}".splitlines()[0], "JsonSchemaSerde") from error
        return Schema(schema if isinstance(schema, str) else json.dumps(schema), _JSON)

    def _encoder(self, registry: Registry) -> Encode[T]:
        document = None if self._schema is None else _document(self._schema)
        name = document.get("title") if isinstance(document, dict) else None
        schema_id, schema = self._schema_to_write(registry, name, self._schema)
        _check_type(schema_id, schema)
        head, to_dict, check = header(schema_id), self._to_dict, self._check(schema)

        def encode(value: T) -> bytes:
            document = value if to_dict is None else to_dict(value)
            if check is not None:
                check(document)
            return head + JSON.serialize(document)

        return encode

    def _decoder(self, registry: Registry, schema_id: int) -> Decode[T]:
        schema = registry.schema(schema_id)
        _check_type(schema_id, schema)
        from_dict, check = self._from_dict, self._check(schema)

        def decode(data: bytes) -> T:
            try:
                value: Any = JSON.deserialize(data[HEADER_BYTES:])
            except ValueError as error:
                raise SerializationError(f"after the header of schema {schema_id} comes no JSON: {error}") from error
            if check is not None:
                check(value)
            return value if from_dict is None else from_dict(value)

        return decode

    def _check(self, written: Schema) -> Callable[[Any], None] | None:
        checks = str(self._own.get(FAIL_INVALID, False)).lower() == "true"
        if not checks or (self._schema is None and written.references):
            return None
        document = json.loads((self._schema or written).schema_str or "true")
        validator = validator_for(document, Draft202012Validator)(document)

        def check(value: Any) -> None:
            try:
                validator.validate(value)
            except Invalid as error:
                raise SerializationError(f"the value does not fit its JSON Schema: {error.message}") from error

        return check


def _document(schema: Schema) -> Any:
    return json.loads(schema.schema_str or "null")


def _check_type(schema_id: int, schema: Schema) -> None:
    if schema.schema_type != _JSON:
        raise SerializationError(f"schema {schema_id} is one of {schema.schema_type or 'AVRO'}, not a JSON Schema")


def _parsed(registry: Registry, schema: Schema, named: dict[str, Any] | None = None) -> Any:
    """Parses an Avro schema. `named`: the known named types; this function adds the types of referenced schemas."""
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
    """Returns the name of a type: for a named type, its full name. Returns None for a union."""
    if isinstance(parsed, dict):
        found = parsed.get("name", parsed.get("type"))
        return found if isinstance(found, str) else None
    return parsed if isinstance(parsed, str) else None
