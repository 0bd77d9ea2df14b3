"""JSON in Confluent's wire format, with a JSON Schema in the registry. Source: `KafkaJsonSchemaSerializer`,
`KafkaJsonSchemaDeserializer`.

Keys of objects are sorted, so that equal values have equal bytes. As in Kafka, values are checked against the schema
only on request, because that costs many times what writing costs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka.schema_registry import Schema
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.exceptions import ValidationError as Invalid
from jsonschema.validators import validator_for

from assignor.errors import InputError
from streams_runtime.common.errors import SerializationError
from streams_runtime.serdes.schema_registry.registry import Registry
from streams_runtime.serdes.schema_registry.registry_serde import HEADER_BYTES, Decode, Encode, RegistrySerde, header
from streams_runtime.serdes.schema_registry.registry_settings import RegistrySettings
from streams_runtime.serdes.standard import JSON

T = TypeVar("T")

FAIL_INVALID = "json.fail.invalid.schema"
_JSON = "JSON"
_WHERE = "JsonSchemaSerde"


class JsonSchemaSerde(RegistrySerde[T]):
    """Values as `json` takes them. `to_dict`, `from_dict`: from an object of one's own to such a value, and back.

    `schema`: a JSON Schema as text or as parsed JSON. None: values are read whatever their schema, and written only
    with `use.latest.version`. The config `json.fail.invalid.schema` (false) has every value checked against it; without
    one, against the schema that it is written with, unless that refers to others. Raises InputError for a schema or a
    config that cannot be used.
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | None,
        configs: Mapping[str, object],
        *,
        to_dict: Callable[[T], Any] | None = None,
        from_dict: Callable[[Any], T] | None = None,
    ) -> None:
        others = {key: value for key, value in configs.items() if key != FAIL_INVALID}
        super().__init__(RegistrySettings.from_configs(others, _WHERE))
        self._schema = None if schema is None else _checked(schema)
        self._checks = str(configs.get(FAIL_INVALID, False)).lower() == "true"
        self._to_dict = to_dict
        self._from_dict = from_dict

    def _encoder(self, registry: Registry) -> Encode[T]:
        document = None if self._schema is None else json.loads(self._schema)
        name = document.get("title") if isinstance(document, dict) else None
        given = None if self._schema is None else Schema(self._schema, _JSON)
        schema_id, schema = self._schema_to_write(registry, name, given)
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
        if not self._checks or (self._schema is None and written.references):
            return None
        document = json.loads(self._schema or written.schema_str or "true")
        validator = validator_for(document, Draft202012Validator)(document)

        def check(value: Any) -> None:
            try:
                validator.validate(value)
            except Invalid as error:
                raise SerializationError(f"the value does not fit its JSON Schema: {error.message}") from error

        return check


def _check_type(schema_id: int, schema: Schema) -> None:
    if schema.schema_type != _JSON:
        raise SerializationError(f"schema {schema_id} is one of {schema.schema_type or 'AVRO'}, not a JSON Schema")


def _checked(schema: str | Mapping[str, Any]) -> str:
    try:
        document = json.loads(schema) if isinstance(schema, str) else schema
        validator_for(document, Draft202012Validator).check_schema(document)
    except (SchemaError, ValueError) as error:
        raise InputError(f"this is no JSON Schema: {error}".splitlines()[0], _WHERE) from error
    return schema if isinstance(schema, str) else json.dumps(schema)
