"""`produce` and `consume` with the formats of a schema registry: JSON on the line, the format in the topic."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from streams_runtime import STRING, AvroSerde, JsonSchemaSerde, ProtobufSerde, RecordProducer, read_topic
from streams_runtime.logs.base import Log
from tests.streams_runtime.cli.conftest import Run
from tests.streams_runtime.serdes.fake_schema_registry import FakeSchemaRegistry, fake_schema_registry
from tests.streams_runtime.serdes.messages import Line, Money, Order

PAID = {"title": "Paid", "type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
READ = ("consume", "counts", "--from-beginning", "--until-end", "--value-deserializer")
WRITE = ("produce", "counts", "--key-separator", "=", "--value-serializer")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSchemaRegistry]:
    with fake_schema_registry() as running:
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", running.url)
        yield running


def test_should_read_and_write_json_schema_and_check_it(log: Log, run: Run, registry: FakeSchemaRegistry) -> None:
    serde: JsonSchemaSerde[Any] = JsonSchemaSerde(PAID, {"schema.registry.url": registry.url})
    with RecordProducer(log, STRING, serde) as producer:
        producer.send("counts", "ann", {"cents": 5})
        producer.send("counts", "bob", {"cents": "old and wrong"})

    written = run(*WRITE, "KafkaJsonSchemaSerializer", stdin='carl={"cents":7}\n')
    refused = run(*WRITE, "json-schema", stdin='dan={"cents":"7"}\n')
    shown = run(*READ, "json-schema")

    assert written.returncode == 0, written.stderr
    assert refused.returncode == 2
    assert "stdin, line 1 its value: the value does not fit its JSON Schema: '7' is not of type 'integer'" in (
        refused.stderr
    )
    assert shown.stdout.splitlines() == ['{"cents":5}', '{"cents":"old and wrong"}', '{"cents":7}']
    assert registry.subjects == {"counts-value": [1]}


def test_should_read_and_write_protobuf_without_its_class(log: Log, run: Run, registry: FakeSchemaRegistry) -> None:
    made: Any = Order(id="a", total=Money(cents=5), lines=[Line(article="pen", counts={"b": 2})])
    serdes = [ProtobufSerde[Any](message, {"schema.registry.url": registry.url}) for message in (Order, Line, Money)]
    for serde, value in zip(serdes, (made, made.lines[0], Money(cents=7)), strict=True):
        with RecordProducer(log, STRING, serde) as producer:
            producer.send("counts", "ann", value)

    written = run(*WRITE, "protobuf", stdin='bob={"cents":"8"}\n')
    refused = run(*WRITE, "protobuf", stdin='bob={"cent":8}\n')
    shown = run(*READ, "KafkaProtobufDeserializer")

    assert written.returncode == 0, written.stderr
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "shop.Money cannot be made of this value: " in refused.stderr
    assert [json.loads(line) for line in shown.stdout.splitlines()] == [
        {"id": "a", "total": {"cents": "5"}, "lines": [{"article": "pen", "counts": {"b": "2"}}]},
        {"article": "pen", "counts": {"b": "2"}},
        {"cents": "7"},
        {"cents": "8"},
    ]


def test_should_show_protobufs_own_types_as_its_json_does(log: Log, run: Run, registry: FakeSchemaRegistry) -> None:
    serde: ProtobufSerde[Any] = ProtobufSerde(Timestamp, {"schema.registry.url": registry.url})
    with RecordProducer(log, STRING, serde) as producer:
        producer.send("counts", "ann", Timestamp(seconds=60))

    assert run(*READ, "protobuf").stdout == '"1970-01-01T00:01:00Z"\n'


def test_should_say_that_a_schema_is_there_as_text_only(log: Log, run: Run, registry: FakeSchemaRegistry) -> None:
    serde: ProtobufSerde[Any] = ProtobufSerde(Money, {"schema.registry.url": registry.url})
    with RecordProducer(log, STRING, serde) as producer:
        producer.send("counts", "ann", Money(cents=7))
    registry.schemas[0]["schema"] = 'syntax = "proto3"; message Money { int64 cents = 1; }'

    shown = run(*READ, "protobuf")
    other = run(*READ, "json-schema")

    assert (shown.returncode, shown.stderr.count("\n")) == (2, 1)
    assert "the registry has schema 1 as the text of a .proto file only" in shown.stderr
    assert "schema 1 is one of PROTOBUF, not a JSON Schema" in other.stderr


AVRO_ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "total", "type": "long"}, {"name": "seal", "type": "bytes"}],
}


def test_should_read_and_write_avro_with_registered_schemas(log: Log, run: Run, registry: FakeSchemaRegistry) -> None:
    serde: AvroSerde[object] = AvroSerde(AVRO_ORDER, {"schema.registry.url": registry.url})
    with RecordProducer(log, STRING, serde) as producer:
        producer.send("counts", "ann", {"total": 12, "seal": b"\xff"}, timestamp_ms=1)

    shown = run(
        "consume", "counts", "--offset", "earliest", "--until-end", "--value-deserializer", "avro", "-o", "json"
    )
    written = run(
        "produce", "counts", "--json", "--value-serializer", "avro", stdin='{"key":"a","value":{"total":"x"}}'
    )

    assert json.loads(shown.stdout)["value"] == {"total": 12, "seal": "/w=="}
    assert written.returncode == 2
    assert "stdin, line 1 its value: Avro schema Order cannot write this value" in written.stderr

    answer = run(
        "produce", "counts", "--json", "--value-serializer", "avro", stdin='{"key":"a","value":{"total":7,"seal":""}}'
    )
    assert answer.returncode == 2, "bytes are not written from JSON text"


def test_should_write_json_with_the_latest_schema_of_a_topic(log: Log, run: Run, registry: FakeSchemaRegistry) -> None:
    schema = {**AVRO_ORDER, "fields": AVRO_ORDER["fields"][:1]}
    serde: AvroSerde[object] = AvroSerde(schema, {"schema.registry.url": registry.url})
    with RecordProducer(log, STRING, serde) as producer:
        producer.send("counts", "ann", {"total": 12})
    ran = run("produce", "counts", "--key-separator", ":", "--value-serializer", "avro", stdin='bob:{"total":7}\n')

    assert ran.returncode == 0, ran.stderr
    assert [(each.key, each.value) for each in read_topic(log, "counts", STRING, serde)] == [
        ("ann", {"total": 12}),
        ("bob", {"total": 7}),
    ]


def test_should_say_what_avro_needs(log: Log, run: Run) -> None:
    without = run("consume", "counts", "--value-deserializer", "io.confluent.kafka.serializers.KafkaAvroDeserializer")
    run("produce", "counts", "--key-separator", ":", stdin="a:plain text\n")
    other = run(
        *("consume", "counts", "--from-beginning", "--until-end", "--value-deserializer", "avro"),
        *("--schema-registry", "http://127.0.0.1:1"),
    )

    assert (without.returncode, without.stderr) == (
        2, "error: --value-deserializer: avro needs the URL of the schema registry: --schema-registry\n",
    )  # fmt: skip
    assert (other.returncode, other.stderr.count("\n")) == (2, 1)
    assert "counts-0 at offset 0: AvroSerde cannot read the value, 10 bytes" in other.stderr
