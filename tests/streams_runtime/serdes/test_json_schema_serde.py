"""JSON in Confluent's wire format, beside Confluent's own serializer and deserializer."""

import json
import pickle
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from assignor.errors import InputError
from streams_runtime import JsonSchemaSerde
from streams_runtime.common.errors import SerializationError
from tests.streams_runtime.serdes.fake_schema_registry import FakeSchemaRegistry

ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "string"}, "cents": {"type": "integer"}},
    "required": ["id"],
}
VALUE = {"id": "ü", "cents": 5}


def _serde(registry: FakeSchemaRegistry, **more: object) -> JsonSchemaSerde[Any]:
    named = {key.replace("_", "."): value for key, value in more.items()}
    configs = {"schema.registry.url": registry.url, "max.retries": 0, **named}
    return JsonSchemaSerde(ORDER, configs).for_topic("orders", is_key=False)


def test_should_write_the_header_and_json(registry: FakeSchemaRegistry) -> None:
    serde = _serde(registry)

    data = serde.serialize(VALUE)

    assert data == b'\0\0\0\0\x01{"cents":5,"id":"\xc3\xbc"}'
    assert serde.deserialize(data) == VALUE
    assert registry.schemas == [{"schemaType": "JSON", "schema": json.dumps(ORDER)}]
    assert pickle.loads(pickle.dumps(serde)).serialize(VALUE) == data


def test_should_exchange_records_with_confluents_own_serializers(registry: FakeSchemaRegistry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    conf = {"subject.name.strategy": topic_subject_name_strategy}
    theirs = JSONSerializer(json.dumps(ORDER), client, conf=conf)
    their_reader = JSONDeserializer(json.dumps(ORDER), schema_registry_client=client, conf=conf)
    place = SerializationContext("orders", MessageField.VALUE)

    assert _serde(registry).deserialize(theirs(VALUE, place)) == VALUE
    assert their_reader(_serde(registry).serialize(VALUE), place) == VALUE
    assert registry.subjects == {"orders-value": [1]}


def test_should_check_values_on_request_only(registry: FakeSchemaRegistry) -> None:
    wrong = {"cents": "five"}
    unchecked = _serde(registry).serialize(wrong)

    strict = _serde(registry, json_fail_invalid_schema=True)
    with pytest.raises(SerializationError, match="does not fit its JSON Schema: "):
        strict.serialize(wrong)
    with pytest.raises(SerializationError, match="does not fit its JSON Schema: "):
        strict.deserialize(unchecked)
    assert strict.deserialize(strict.serialize(VALUE)) == VALUE


def test_should_check_values_against_its_own_schema_or_the_writers(registry: FakeSchemaRegistry) -> None:
    registry.register("texts", {"schemaType": "JSON", "schema": '{"type": "string"}'})
    elsewhere = [{"name": "text", "subject": "texts", "version": 1}]
    registry.register("others", {"schemaType": "JSON", "schema": '{"$ref": "text"}', "references": elsewhere})
    configs = {"schema.registry.url": registry.url, "max.retries": 0, "json.fail.invalid.schema": True}
    without: JsonSchemaSerde[Any] = JsonSchemaSerde(None, configs)
    number = b"\0\0\0\0\x01" + b"5"

    with pytest.raises(SerializationError, match="does not fit its JSON Schema: 5 is not of type 'string'"):
        without.deserialize(number)
    assert without.deserialize(b"\0\0\0\0\x02" + b"5") == 5, "its schema refers to another"
    assert JsonSchemaSerde({"type": "integer"}, configs).deserialize(number) == 5


def test_should_take_any_value_of_a_schema_that_says_nothing(registry: FakeSchemaRegistry) -> None:
    registry.register("orders-value", {"schemaType": "JSON", "schema": ""})
    configs = {"schema.registry.url": registry.url, "max.retries": 0, "json.fail.invalid.schema": True}
    strict: JsonSchemaSerde[Any] = JsonSchemaSerde(None, configs)

    assert strict.deserialize(b"\0\0\0\0\x01{}") == {}


def test_should_refuse_what_is_no_json_of_a_registry(registry: FakeSchemaRegistry) -> None:
    serde = _serde(registry)
    serde.serialize(VALUE)
    registry.register("others", {"schema": '"string"'})

    with pytest.raises(SerializationError, match="after the header of schema 1 comes no JSON"):
        serde.deserialize(b"\0\0\0\0\x01{")
    with pytest.raises(SerializationError, match="schema 2 is one of AVRO, not a JSON Schema"):
        serde.deserialize(b"\0\0\0\0\x02{}")


@pytest.mark.parametrize("schema", ["{", {"type": "no type"}])
def test_should_refuse_what_is_no_schema(schema: Any) -> None:
    with pytest.raises(InputError, match="JsonSchemaSerde: this is no JSON Schema: "):
        JsonSchemaSerde(schema, {"schema.registry.url": "http://r"})
