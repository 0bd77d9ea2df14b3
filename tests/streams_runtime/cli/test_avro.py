"""`produce` and `consume` with the schemas of a registry: JSON on the line, Avro in the topic."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from streams_runtime import STRING, AvroSerde, RecordProducer, read_topic
from streams_runtime.logs.base import Log
from tests.streams_runtime.cli.conftest import Run
from tests.streams_runtime.serdes.fake_schema_registry import FakeSchemaRegistry, fake_schema_registry

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "total", "type": "long"}, {"name": "seal", "type": "bytes"}],
}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSchemaRegistry]:
    with fake_schema_registry() as running:
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", running.url)
        yield running


def test_should_read_and_write_avro_with_the_schemas_of_the_registry(
    log: Log, run: Run, registry: FakeSchemaRegistry
) -> None:
    serde: AvroSerde[object] = AvroSerde(ORDER, {"schema.registry.url": registry.url})
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


def test_should_write_json_with_the_latest_schema_of_the_topic(
    log: Log, run: Run, registry: FakeSchemaRegistry
) -> None:
    schema = {**ORDER, "fields": ORDER["fields"][:1]}
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
