"""Protobuf in Confluent's wire format, beside bytes written by hand and Confluent's own serializer and deserializer."""

import base64
import uuid
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import DescriptorProto

from assignor.errors import InputError
from streams_runtime import ProtobufSerde
from streams_runtime.common.errors import SerializationError
from tests.streams_runtime.serdes.fake_schema_registry import FakeSchemaRegistry
from tests.streams_runtime.serdes.messages import MONEY_FILE, ORDER_FILE, Line, Money, Order, Unused


def _serde(registry: FakeSchemaRegistry, message: Any, **more: object) -> ProtobufSerde[Any]:
    configs = {"schema.registry.url": registry.url, "max.retries": 0}
    named = {key.replace("_", "."): value for key, value in more.items()}
    return ProtobufSerde(message, {**configs, **named}).for_topic("orders", is_key=False)


ORDERED: Any = Order(id="a", total=Money(cents=1_250), lines=[Line(article="pen", counts={"b": 2, "a": 1})])


@pytest.mark.parametrize(
    "message, steps",
    [
        (Money(cents=5), b"\0"),  # the first of its file: the short form
        (Unused(), b"\0"),
        (ORDERED, b"\x02\x02"),  # one step: position 1, zig-zag
        (Line(article="pen"), b"\x04\x02\x02"),  # two steps: 1, then 1 inside
        (DescriptorProto.ExtensionRange(start=3), b"\x04\x04\x00"),  # position 2, then 0 inside
    ],
    ids=["first of its file", "empty", "second", "nested", "nested in a file of others"],
)
def test_should_write_the_path_to_the_message_first(registry: FakeSchemaRegistry, message: Any, steps: bytes) -> None:
    serde = _serde(registry, type(message))

    data = serde.serialize(message)

    schema_id = registry.subjects["orders-value"][0]
    assert data == b"\0" + schema_id.to_bytes(4, "big") + steps + message.SerializeToString(deterministic=True)
    assert serde.deserialize(data) == message


@pytest.mark.parametrize("message", [ORDERED, ORDERED.lines[0], Money(cents=7)], ids=["order", "line", "money"])
def test_should_exchange_records_with_confluents_own_serializers(registry: FakeSchemaRegistry, message: Any) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    conf = {"use.deprecated.format": False, "subject.name.strategy": topic_subject_name_strategy}
    theirs = ProtobufSerializer(type(message), client, conf)
    their_reader = ProtobufDeserializer(type(message), conf, client)
    place = SerializationContext("orders", MessageField.VALUE)
    ours = _serde(registry, type(message))

    assert ours.deserialize(theirs(message, place)) == message
    assert their_reader(ours.serialize(message), place) == message
    assert len(registry.subjects["orders-value"]) == 1  # both register the same schema


@pytest.mark.parametrize("message", [ORDERED, Money(cents=5)], ids=["with an imported file", "alone"])
def test_should_work_with_a_mock_registry(message: Any) -> None:
    configs = {"schema.registry.url": f"mock://{uuid.uuid4()}"}
    serde = ProtobufSerde(type(message), configs).for_topic("orders", is_key=False)
    assert serde.deserialize(serde.serialize(message)) == message
    strict = ProtobufSerde(type(message), {**configs, "auto.register.schemas": False}).for_topic("orders", is_key=False)
    assert strict.serialize(message) == serde.serialize(message)


def test_should_register_imported_files_under_their_own_names(registry: FakeSchemaRegistry) -> None:
    _serde(registry, Order).serialize(ORDERED)

    assert list(registry.subjects) == ["shop/money.proto", "orders-value"]
    assert registry.schemas[1]["references"] == [
        {"name": "shop/money.proto", "subject": "shop/money.proto", "version": 1}
    ]
    written = base64.b64decode(registry.schemas[1]["schema"])
    assert type(ORDER_FILE).FromString(written) == ORDER_FILE
    assert type(MONEY_FILE).FromString(base64.b64decode(registry.schemas[0]["schema"])) == MONEY_FILE


def test_should_write_equal_messages_with_equal_bytes(registry: FakeSchemaRegistry) -> None:
    serde = _serde(registry, Line)

    forth = Line(article="pen", counts={str(number): number for number in range(20)})
    back = Line(article="pen", counts={str(number): number for number in reversed(range(20))})

    assert serde.serialize(forth) == serde.serialize(back)


def test_should_refuse_a_message_of_another_type(registry: FakeSchemaRegistry) -> None:
    data = _serde(registry, Order).serialize(ORDERED)

    with pytest.raises(SerializationError, match=r"the record is a shop.Order of schema 2, not a shop.Order.Line"):
        _serde(registry, Line).deserialize(data)
    with pytest.raises(SerializationError, match=r"shop.Order was expected, not a Money"):
        _serde(registry, Order).serialize(Money(cents=1))


def test_should_read_where_the_registry_answers_with_text_only(registry: FakeSchemaRegistry) -> None:
    serde = _serde(registry, Money)
    data = serde.serialize(Money(cents=5))
    registry.schemas[0]["schema"] = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'

    assert serde.deserialize(data).cents == 5


@pytest.mark.parametrize(
    "data, message",
    [
        (b"\0\0\0\0\x01", "message indexes of Protobuf are cut off"),
        (b"\0\0\0\0\x01\xff\xff\xff\xff\x0f", "message indexes are not possible"),
        (b"\0\0\0\0\x01\x02\x12\x08\x01", r"has no message at \[9\]"),
        (b"\0\0\0\0\x01\0\xff", "these bytes are no shop.Money of schema 1"),
        (b"\0\0\0\0\x02\0\xff", "schema 2 is one of AVRO, not of Protobuf"),
        (b"\x08\x01\0\0\0\0", "the first byte is 0x08"),
    ],
)
def test_should_refuse_bytes_of_another_format(registry: FakeSchemaRegistry, data: bytes, message: str) -> None:
    serde = _serde(registry, Money)
    serde.serialize(Money(cents=5))
    registry.register("others-value", {"schema": '"string"'})

    with pytest.raises(SerializationError, match=message):
        serde.deserialize(data)


def test_should_use_the_latest_schema_of_the_subject(registry: FakeSchemaRegistry) -> None:
    _serde(registry, Money).serialize(Money(cents=1))
    latest = registry.register("orders-value", {"schemaType": "PROTOBUF", "schema": "anything"})

    data = _serde(registry, Money, use_latest_version=True).serialize(Money(cents=1))

    assert data[:5] == b"\0" + latest.to_bytes(4, "big")


def test_should_take_message_classes_only() -> None:
    with pytest.raises(InputError, match="takes a message class that protoc made, not <class 'dict'>"):
        ProtobufSerde(dict, {"schema.registry.url": "http://r"})  # type: ignore[type-var]
