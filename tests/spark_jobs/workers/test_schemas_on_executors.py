"""Serdes of a schema registry in instances on Spark executors: pickled, they learn all they need there."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from pyspark.sql import SparkSession

from spark_jobs.workers.running import run
from streams_runtime import (
    STRING,
    Application,
    AvroSerde,
    JsonSchemaSerde,
    NewTopic,
    ProtobufSerde,
    RecordProducer,
    StreamsBuilder,
    open_log,
    read_topic,
)
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from tests.spark_jobs.small_application import address
from tests.spark_jobs.talk import TIMEOUT_S
from tests.streams_runtime.serdes.fake_schema_registry import fake_schema_registry
from tests.streams_runtime.word_counting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]

PARTITIONS = 4
CUSTOMERS = [f"customer {number}" for number in range(10)]
ORDERS = 500
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "customer", "type": "string"}, {"name": "cents", "type": "long"}],
}
TOTAL = {"title": "Total", "type": "object", "properties": {"cents": {"type": "integer"}}}


def _customer(_key: object, order: dict[str, Any]) -> str:
    return str(order["customer"])


def _added(total: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    return {**order, "cents": total["cents"] + order["cents"]}


def test_should_read_and_write_avro_json_schema_and_protobuf_on_executors(
    spark: SparkSession, coordinator: CoordinatorProcess, log_directory: Path, tmp_path: Path
) -> None:
    with fake_schema_registry() as registry, closing(open_log(address(log_directory))) as log:
        configs = {"schema.registry.url": registry.url}
        customer: AvroSerde[Any] = AvroSerde(json.dumps("string"), configs)
        order: AvroSerde[Any] = AvroSerde(ORDER, configs)
        total: JsonSchemaSerde[Any] = JsonSchemaSerde(TOTAL, configs)
        message: ProtobufSerde[Any] = ProtobufSerde(Timestamp, configs)
        topics = ("avro-orders", "json-totals", "protobuf-totals")
        log.create_topics(NewTopic(topic, PARTITIONS) for topic in topics)
        with RecordProducer(log, STRING, order) as producer:
            for number in range(ORDERS):
                value = {"customer": CUSTOMERS[number % len(CUSTOMERS)], "cents": number}
                producer.send("avro-orders", str(number), value)
        builder = StreamsBuilder()
        by_customer = builder.stream("avro-orders", STRING, order).group_by(
            _customer, key_serde=customer, value_serde=order, name="by-customer"
        )
        totals = by_customer.reduce(_added, store="totals").to_stream()
        totals.map_values(lambda value: {"cents": value["cents"]}).to(
            "json-totals", key_serde=customer, value_serde=total
        )
        totals.map_values(lambda value: Timestamp(seconds=value["cents"])).to(
            "protobuf-totals", key_serde=customer, value_serde=message
        )
        application = Application(
            builder.build(),
            {
                "application.id": "schemas",
                "bootstrap.servers": address(log_directory),
                "processing.guarantee": "exactly_once_v2",
                "commit.interval.ms": 100,
                "session.timeout.ms": 10_000,
            },
        )

        workers = run(
            spark, application, instances=2, coordinator_url=coordinator.url, state_dir=str(tmp_path / "state")
        )
        expected = {name: sum(range(number, ORDERS, len(CUSTOMERS))) for number, name in enumerate(CUSTOMERS)}

        def pairs(topic: str, serde: Any) -> list[tuple[Any, Any]]:
            return [(each.key, each.value) for each in read_topic(log, topic, customer, serde)]

        def written() -> tuple[dict[object, int], dict[object, int]]:
            json_totals = {key: value["cents"] for key, value in pairs("json-totals", total)}
            messages = {key: value.seconds for key, value in pairs("protobuf-totals", message)}
            return json_totals, messages

        wait_for(lambda: written() == (expected, expected), written, TIMEOUT_S)
        ends = workers.stop()

    assert [(end.is_good, end.notices) for end in ends] == [(True, ())] * 2
    assert {
        "schemas-by-customer-repartition-key",
        "schemas-by-customer-repartition-value",
        "schemas-totals-changelog-value",
        "json-totals-value",
        "protobuf-totals-value",
    } <= registry.subjects.keys()
