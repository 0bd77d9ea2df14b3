"""Avro in Confluent's wire format, beside fastavro's bytes and Confluent's own serializer and deserializer."""

import io
import json
import pickle
import uuid
from dataclasses import asdict, dataclass
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from assignor.errors import InputError
from streams_runtime import AvroSerde
from streams_runtime.common.errors import SchemaRegistryUnavailable, SerializationError
from tests.streams_runtime.serdes.fake_schema_registry import FakeSchemaRegistry, fake_schema_registry

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "string"}, {"name": "cents", "type": "long"}],
}
WITH_NOTE = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "none"}]}
VALUE = {"id": "a", "cents": 1_250}
QUICK = {"max.retries": 0}


def _configs(registry: FakeSchemaRegistry, **more: object) -> dict[str, object]:
    return {
        "schema.registry.url": registry.url,
        **QUICK,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def _independent(schema: object, value: object, schema_id: int) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, {}), value)  # type: ignore[arg-type]
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def test_should_write_the_header_and_what_an_independent_encoder_writes(registry: FakeSchemaRegistry) -> None:
    registry.register("others-value", {"schema": '"string"'})
    serde: AvroSerde[Any] = AvroSerde(ORDER, _configs(registry)).for_topic("orders", is_key=False)

    data = serde.serialize(VALUE)

    assert data == _independent(ORDER, VALUE, 2)
    assert serde.deserialize(data) == VALUE
    assert registry.subjects["orders-value"] == [2]


def test_should_share_a_mock_registry_of_one_name_in_this_process() -> None:
    def serde(name: str, **more: object) -> AvroSerde[Any]:
        return AvroSerde(ORDER, {"schema.registry.url": f"mock://{name}", **more}).for_topic("orders", is_key=False)

    shop = f"shop-{uuid.uuid4()}"  # so that this test finds the registry empty when it runs again
    data = serde(shop).serialize(VALUE)

    assert data == _independent(ORDER, VALUE, 1)
    reader = serde(shop, **{"auto.register.schemas": False})
    assert reader.deserialize(data) == VALUE
    assert reader.serialize(VALUE) == data
    with pytest.raises(SerializationError, match=r"schema registry mock://other-.*: schema 1 is not known"):
        serde(f"other-{uuid.uuid4()}").deserialize(data)


def test_should_exchange_records_with_confluents_own_serializers(registry: FakeSchemaRegistry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    strategy = {"subject.name.strategy": topic_subject_name_strategy}
    theirs = AvroSerializer(client, json.dumps(ORDER), conf=strategy)
    their_reader = AvroDeserializer(client, conf=strategy)
    place = SerializationContext("orders", MessageField.KEY)
    ours: AvroSerde[Any] = AvroSerde(json.dumps(ORDER), _configs(registry)).for_topic("orders", is_key=True)

    data = ours.serialize(VALUE)

    assert data == theirs(VALUE, place)
    assert their_reader(data, place) == VALUE
    assert list(registry.subjects) == ["orders-key"]


@pytest.mark.parametrize("schema, value", [("string", "ü"), ("long", -5), (["null", "long"], 7), ("bytes", b"\0\xff")])
def test_should_take_schemas_that_are_no_records(registry: FakeSchemaRegistry, schema: Any, value: object) -> None:
    serde: AvroSerde[Any] = AvroSerde(json.dumps(schema), _configs(registry)).for_topic("t", is_key=False)

    assert serde.serialize(value) == _independent(schema, value, 1)
    assert serde.deserialize(serde.serialize(value)) == value


def test_should_ask_the_registry_once_and_not_before_the_first_record(registry: FakeSchemaRegistry) -> None:
    serde: AvroSerde[Any] = AvroSerde(ORDER, _configs(registry)).for_topic("orders", is_key=False)
    assert registry.asked == []

    data = [serde.serialize({"id": str(number), "cents": number}) for number in range(50)]
    assert [serde.deserialize(each)["cents"] for each in data] == list(range(50))

    assert registry.asked == ["POST /subjects/orders-value/versions?normalize=False", "GET /schemas/ids/1"]


def test_should_read_what_was_written_by_another_version_of_the_schema(registry: FakeSchemaRegistry) -> None:
    old: AvroSerde[Any] = AvroSerde(ORDER, _configs(registry)).for_topic("orders", is_key=False)
    new: AvroSerde[Any] = AvroSerde(WITH_NOTE, _configs(registry)).for_topic("orders", is_key=False)

    assert new.deserialize(old.serialize(VALUE)) == {**VALUE, "note": "none"}
    assert old.deserialize(new.serialize({**VALUE, "note": "new"})) == VALUE
    without_schema: AvroSerde[Any] = AvroSerde(None, _configs(registry))
    assert without_schema.deserialize(new.serialize({**VALUE, "note": "new"})) == {**VALUE, "note": "new"}


def test_should_resolve_schemas_that_refer_to_others(registry: FakeSchemaRegistry) -> None:
    line = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "article", "type": "string"}]}
    basket = {"type": "record", "name": "Basket", "fields": [{"name": "line", "type": "shop.Line"}]}
    registry.register("shop.Line", {"schema": json.dumps(line)})
    references = [{"name": "shop.Line", "subject": "shop.Line", "version": 1}]
    schema_id = registry.register("baskets-value", {"schema": json.dumps(basket), "references": references})
    inlined = {**basket, "fields": [{"name": "line", "type": line}]}
    value = {"line": {"article": "pen"}}

    serde: AvroSerde[Any] = AvroSerde(None, _configs(registry, use_latest_version=True))

    assert serde.deserialize(_independent(inlined, value, schema_id)) == value
    assert serde.for_topic("baskets", is_key=False).serialize(value) == _independent(inlined, value, schema_id)


def test_should_write_with_the_latest_version_of_the_subject(registry: FakeSchemaRegistry) -> None:
    registry.register("orders-value", {"schema": json.dumps(ORDER)})
    latest = registry.register("orders-value", {"schema": json.dumps(WITH_NOTE)})
    serde: AvroSerde[Any] = AvroSerde(None, _configs(registry, use_latest_version="true"))

    assert serde.for_topic("orders", is_key=False).serialize(VALUE) == _independent(WITH_NOTE, VALUE, latest)


@pytest.mark.parametrize(
    "strategy, subject",
    [
        ("TopicNameStrategy", "orders-value"),
        ("RecordNameStrategy", "shop.Order"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "orders-shop.Order"),
        (lambda topic, is_key, record: f"{topic}/{is_key}/{record}", "orders/False/shop.Order"),
    ],
)
def test_should_name_subjects_by_the_strategy(registry: FakeSchemaRegistry, strategy: object, subject: str) -> None:
    serde: AvroSerde[Any] = AvroSerde(ORDER, _configs(registry, value_subject_name_strategy=strategy))

    serde.for_topic("orders", is_key=False).serialize(VALUE)

    assert list(registry.subjects) == [subject]


@dataclass(frozen=True)
class Order:
    id: str
    cents: int


def _order(document: dict[str, Any]) -> Order:
    return Order(**document)


def test_should_travel_without_what_it_has_learnt(registry: FakeSchemaRegistry) -> None:
    serde = AvroSerde(ORDER, _configs(registry), to_dict=asdict, from_dict=_order).for_topic("orders", is_key=False)
    fresh = pickle.dumps(serde)
    data = serde.serialize(Order("a", 5))
    serde.deserialize(data)

    assert pickle.dumps(serde) == fresh  # no client, no schema of fastavro's
    travelled = pickle.loads(fresh)
    assert (travelled.serialize(Order("a", 5)), travelled.deserialize(data)) == (data, Order("a", 5))


def test_should_send_the_credentials_and_never_show_them() -> None:
    with fake_schema_registry(credentials="ann:secret") as registry:
        configs = _configs(registry, basic_auth_user_info="ann:secret", basic_auth_credentials_source="USER_INFO")
        serde: AvroSerde[Any] = AvroSerde(ORDER, configs).for_topic("orders", is_key=False)
        assert serde.deserialize(serde.serialize(VALUE)) == VALUE
        assert "secret" not in repr(serde)
        assert "secret" not in repr(serde._settings)

        stranger: AvroSerde[Any] = AvroSerde(ORDER, _configs(registry, basic_auth_user_info="eve:guess"))
        with pytest.raises(SchemaRegistryUnavailable) as refused:
            stranger.for_topic("orders", is_key=False).serialize(VALUE)

    assert registry.url in str(refused.value)
    assert "check basic.auth.user.info" in str(refused.value)
    assert "guess" not in str(refused.value)


def test_should_name_the_url_of_a_registry_that_does_not_answer() -> None:
    with fake_schema_registry() as registry:
        url = registry.url
    serde: AvroSerde[Any] = AvroSerde(ORDER, {"schema.registry.url": url, **QUICK})

    for call in (lambda: serde.for_topic("t", is_key=False).serialize(VALUE), lambda: serde.deserialize(bytes(9))):
        with pytest.raises(SchemaRegistryUnavailable, match=f"schema registry {url} does not answer.*ConnectError"):
            call()


def test_should_tell_a_registry_that_fails_from_a_schema_that_is_wrong(registry: FakeSchemaRegistry) -> None:
    serde: AvroSerde[Any] = AvroSerde(ORDER, _configs(registry))
    with pytest.raises(SerializationError, match="schema 9 is not known: Schema not found"):
        serde.deserialize(b"\0\0\0\0\x09")

    registry.failing = 500
    with pytest.raises(SchemaRegistryUnavailable, match=f"schema registry {registry.url} cannot answer"):
        serde.deserialize(b"\0\0\0\0\x08")


def test_should_say_when_the_url_is_of_something_else(registry: FakeSchemaRegistry) -> None:
    serde: AvroSerde[Any] = AvroSerde(ORDER, {"schema.registry.url": f"{registry.url}/elsewhere", **QUICK})

    with pytest.raises(SchemaRegistryUnavailable, match=r"is no schema registry: .*check schema.registry.url"):
        serde.deserialize(bytes(9))


@pytest.mark.parametrize(
    "data, message",
    [
        (b'{"id":"a"}', "first byte is 0x7b, and 0x00 in Confluent's wire format"),
        (b"\0\0", "2 bytes are too few for Confluent's wire format"),
        (b"\0\0\0\0\x01\xff", r"cannot be read by Avro schema 1 \(shop.Order\)"),
    ],
)
def test_should_refuse_bytes_of_another_format(registry: FakeSchemaRegistry, data: bytes, message: str) -> None:
    registry.register("orders-value", {"schema": json.dumps(ORDER)})
    serde: AvroSerde[Any] = AvroSerde(ORDER, _configs(registry))

    with pytest.raises(SerializationError, match=message):
        serde.deserialize(data)


def test_should_name_the_schema_that_cannot_write_a_value(registry: FakeSchemaRegistry) -> None:
    serde: AvroSerde[Any] = AvroSerde(ORDER, _configs(registry)).for_topic("orders", is_key=False)

    with pytest.raises(SerializationError, match=r"Avro schema shop.Order cannot write this value: .*cents"):
        serde.serialize({"id": "a", "cents": "many"})


def test_should_not_register_when_told_so(registry: FakeSchemaRegistry) -> None:
    configs = _configs(registry, auto_register_schemas=False)
    serde: AvroSerde[Any] = AvroSerde(ORDER, configs).for_topic("orders", is_key=False)
    with pytest.raises(SerializationError, match=r"not registered under subject orders-value, and auto"):
        serde.serialize(VALUE)
    assert registry.schemas == []

    schema_id = registry.register("orders-value", {"schema": json.dumps(ORDER)})
    assert serde.serialize(VALUE) == _independent(ORDER, VALUE, schema_id)


def test_should_not_write_without_a_topic_or_a_schema(registry: FakeSchemaRegistry) -> None:
    with pytest.raises(SerializationError, match=r"needs a topic; write with for_topic\(topic"):
        AvroSerde[Any](ORDER, _configs(registry)).serialize(VALUE)
    with pytest.raises(SerializationError, match=r"has no schema to write with; give one"):
        AvroSerde[Any](None, _configs(registry)).for_topic("t", is_key=True).serialize(VALUE)


@pytest.mark.parametrize(
    "configs, message",
    [
        ({"schema.registry.url": "registry:8081"}, "must be http://host:port or https://host:port"),
        ({"schema.registry.url": "http://ann:secret@r"}, "must not hold a password"),
        ({"schema.registry.url": "ann:secret@r"}, "must not hold a password"),
        ({"schema.registry.ulr": "http://r"}, "unknown config 'schema.registry.ulr'; did you mean 'schema.regis"),
        ({"proxy": "ann:secret@p:3128"}, "proxy must be http://host:port"),
        ({"proxy": "http://ann:secret@p:x"}, "proxy must be http://host:port"),
        ({"proxy": "http://ann:sec\nret@p"}, "proxy must be http://host:port"),
        ({"basic.auth.user.info": "ann"}, "must be user:password"),
        ({"max.retries": "-1"}, "max.retries must be a number"),
        ({"schema.registry.ssl.truststore.location": "x.jks"}, "give a file in PEM form as 'ssl.ca.location'"),
        ({"use.latest.version": True, "auto.register.schemas": True}, "cannot both be true"),
        (
            {"value.subject.name.strategy": "TopicStrategy"},
            "one of TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy, not 'TopicStrategy'",
        ),
    ],
)
def test_should_refuse_configs_that_cannot_work_when_it_is_made(configs: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        AvroSerde(ORDER, {"schema.registry.url": "http://r", **configs})

    assert message in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("schema", ["{", {"type": "recrod"}])
def test_should_refuse_what_is_no_schema_or_names_no_registry(schema: Any) -> None:
    with pytest.raises(InputError, match="this is no Avro schema"):
        AvroSerde(schema, {"schema.registry.url": "http://r"})
    with pytest.raises(InputError, match=r"'schema\.registry\.url' is missing and has no default"):
        AvroSerde(ORDER, {})
