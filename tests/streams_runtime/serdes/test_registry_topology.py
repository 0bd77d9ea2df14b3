"""A schema registry under a whole topology: subjects of internal topics, errors with their place, no record lost."""

import json
from typing import Any

import pytest

from streams_runtime import (
    LONG,
    STRING,
    AvroSerde,
    ProcessingFailed,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    log_and_continue,
)
from tests.streams_runtime.serdes.fake_schema_registry import FakeSchemaRegistry

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "customer", "type": "string"}, {"name": "cents", "type": "long"}],
}
CUSTOMER = json.dumps("string")
TOTAL = json.dumps("long")


def _serde(registry: FakeSchemaRegistry, schema: Any) -> AvroSerde[Any]:
    return AvroSerde(schema, {"schema.registry.url": registry.url, "max.retries": 0})


def _customer(_key: object, order: dict[str, Any]) -> str:
    return str(order["customer"])


def _added(order: dict[str, Any], total: dict[str, Any]) -> dict[str, Any]:
    return {**order, "cents": order["cents"] + total["cents"]}


def _topology(registry: FakeSchemaRegistry) -> Topology:
    """Totals of customers, in a store and in windows; also what is windowed and what goes through `Change`."""
    order, customer = _serde(registry, ORDER), _serde(registry, CUSTOMER)
    builder = StreamsBuilder()
    by_customer = builder.stream("orders", STRING, order).group_by(
        _customer, key_serde=customer, value_serde=order, name="by-customer"
    )
    by_customer.reduce(_added, store="totals").to_stream().to("totals")
    by_customer.windowed_by(TimeWindows(1_000)).count(store="counts").to_stream().to("counts", value_serde=LONG)
    prices = builder.table("prices", customer, order, store="prices")
    prices.group_by(lambda key, value: (key, value), key_serde=customer, value_serde=order, name="by-price").count(
        store="priced"
    )
    return builder.build()


def test_should_register_the_subjects_of_kafka_streams(registry: FakeSchemaRegistry) -> None:
    order, customer = _serde(registry, ORDER), _serde(registry, CUSTOMER)
    with TopologyTestDriver(_topology(registry), {"application.id": "app"}) as driver:
        orders = driver.create_input_topic("orders", STRING, order)
        orders.pipe_input("1", {"customer": "ann", "cents": 5}, 0)
        orders.pipe_input("2", {"customer": "ann", "cents": 7}, 1)
        driver.create_input_topic("prices", customer, order).pipe_input("pen", {"customer": "x", "cents": 1}, 2)

        totals = driver.create_output_topic("totals", customer, order).read_key_values()
        assert totals[-1] == ("ann", {"customer": "ann", "cents": 12})
        assert driver.get_key_value_store("totals").get("ann") == ({"customer": "ann", "cents": 12}, 1)

    assert set(registry.subjects) == {
        "orders-value",
        "prices-key",
        "prices-value",
        "totals-key",
        "totals-value",
        "counts-key",
        "app-by-customer-repartition-key",
        "app-by-customer-repartition-value",
        "app-by-price-repartition-key",
        "app-by-price-repartition-value",
        "app-totals-changelog-key",
        "app-totals-changelog-value",
        "app-counts-changelog-key",
        "app-prices-changelog-key",
        "app-prices-changelog-value",
        "app-priced-changelog-key",
    }


def test_should_name_the_place_of_a_record_without_the_wire_format(registry: FakeSchemaRegistry) -> None:
    with (
        TopologyTestDriver(_topology(registry), {"application.id": "app"}) as driver,
        pytest.raises(ProcessingFailed) as failed,
    ):
        driver.pipe_raw("orders", b"1", b'{"customer":"ann"}', 0)

    assert "topic=orders, partition=0, offset=0: streams_runtime.common.errors.SerializationError" in str(failed.value)
    assert "the first byte is 0x7b, and 0x00 in Confluent's wire format" in str(failed.value)


def test_should_skip_a_bad_record_but_none_when_the_registry_is_away(registry: FakeSchemaRegistry) -> None:
    order = _serde(registry, ORDER).for_topic("orders", is_key=False)
    good = order.serialize({"customer": "ann", "cents": 5})
    with TopologyTestDriver(
        _topology(registry),
        {"application.id": "app"},
        deserialization_exception_handler=log_and_continue,
        processing_exception_handler=log_and_continue,
    ) as driver:
        driver.pipe_raw("orders", b"1", b"no schema", 0)  # skipped
        registry.failing = 503
        with pytest.raises(ProcessingFailed, match=rf"topic=orders, partition=0, offset=1: .*{registry.url}"):
            driver.pipe_raw("orders", b"2", good, 1)


def test_should_say_what_a_sink_could_not_write(registry: FakeSchemaRegistry) -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).to("out", value_serde=_serde(registry, ORDER))
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingFailed, match=r"value serde AvroSerde a str \(SerializationError: Avro schema Order"),
    ):
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "no order")


def test_should_not_skip_what_could_not_be_written_because_the_registry_is_down(registry: FakeSchemaRegistry) -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).map_values(lambda text: {"customer": text, "cents": 1}).to(
        "out", value_serde=_serde(registry, ORDER)
    )
    registry.failing = 500
    with (
        TopologyTestDriver(builder.build(), processing_exception_handler=log_and_continue) as driver,
        pytest.raises(ProcessingFailed, match=r"schema registry .* cannot answer"),
    ):
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "ann")
