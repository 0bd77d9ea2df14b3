"""Stores with a record cache answer, write, log and forward exactly as Kafka's do, commit by commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from assignor.topology.builder import LOGGED
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.topology import Topology
from streams_runtime.records import Record, RecordContext
from streams_runtime.serdes import BYTES, STRING
from streams_runtime.state_stores import ValueAndTimestamp, key_value_store, timestamped_key_value_store
from streams_runtime.testing.topology_test_driver import TopologyTestDriver
from tests.streams_runtime.golden.recorded import Recorded, recorded

CASES = recorded("record_caches")


@pytest.mark.parametrize("one", CASES, ids=Recorded.label)
def test_should_flush_and_evict_exactly_what_kafka_does(one: Recorded) -> None:
    """Outputs and changelogs after each record, which may change many keys and is then committed."""
    stores = one.case["stores"]
    topics = ["out", *(f"app-{store['name']}-changelog" for store in stores if store["logging"])]
    configs = {"application.id": "app", "statestore.cache.max.bytes": one.case["bytes"]}
    with TopologyTestDriver(topology(stores), configs, initial_wall_clock_ms=0) as driver:
        outputs = {topic: driver.create_output_topic(topic, BYTES, BYTES) for topic in topics}
        for piped, expected in zip(one.case["inputs"], one.kafka, strict=True):
            headers = tuple((name, value.encode()) for name, value in piped["headers"])
            driver.pipe_raw("in", b"k", json.dumps(piped["steps"]).encode(), piped["at"], headers)
            written = {topic: [as_row(record) for record in output.read_all()] for topic, output in outputs.items()}
            assert written == expected


def test_should_have_cases_with_and_without_evictions() -> None:
    assert {one.case["flavour"] for one in CASES} == {"evicting", "roomy"}
    assert sum(len(records) for one in CASES for said in one.kafka for records in said.values()) > 5_000


def topology(stores: list[dict[str, Any]]) -> Topology:
    made = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    made.add_processor("scripted", partial(Scripted, stores), "source")
    for store in stores:
        kind = timestamped_key_value_store if store["ts"] else key_value_store
        changelog = LOGGED if store["logging"] else None
        made.add_state_store(
            kind(
                store["name"],
                STRING,
                STRING,
                persistent=store["persistent"],
                changelog=changelog,
                caching=store["caching"],
            ),
            "scripted",
        )
    return made.add_sink("sink", "out", "scripted", key_serde=STRING, value_serde=STRING)


class Scripted(Processor[str, str]):
    """Does with its stores what a record says, and forwards what they answer and what their caches flush."""

    def __init__(self, stores: list[dict[str, Any]]) -> None:
        self._stores = stores

    def init(self, context: ProcessorContext) -> None:
        self.context: Any = context
        for store in self._stores:
            if store["listens"]:
                listener = partial(self.flushed, store["name"])
                context.state_store(store["name"]).set_flush_listener(listener, sends_old_values=store["old"])

    def flushed(self, store: str, key: str, new: Any, old: Any, made_by: RecordContext) -> None:
        value = f"{store}:{shown(new)}|{shown(old)}"
        self.context.forward_flushed(Record(key, value, made_by.timestamp_ms, made_by.headers))

    def process(self, record: Record[str, str]) -> None:
        timestamped = {store["name"] for store in self._stores if store["ts"]}
        for name, call, key, value, later_ms in json.loads(record.value):
            stored = value
            if value is not None and name in timestamped:
                stored = ValueAndTimestamp(value, record.timestamp_ms + later_ms)
            answer = answered(self.context.state_store(name), call, key, value, stored)
            if answer is not None:
                self.context.forward(record._replace(key=call, value=answer))


def answered(store: Any, call: str, key: str, value: Any, stored: Any) -> str | None:
    match call:
        case "put":
            store.put(key, stored)
            return None
        case "absent":
            return shown(store.put_if_absent(key, stored))
        case "delete":
            return shown(store.delete(key))
        case "get":
            return shown(store.get(key))
        case "range":
            return entries(store.range(key, value))
        case "reverse":
            return entries(store.reverse_range(key, value))
        case "all":
            return entries(store.all())
        case _:
            return entries(store.prefix_scan(key.encode()))


def entries(found: Iterator[tuple[str, Any]]) -> str:
    return "".join(f"{key}={shown(value)}," for key, value in found)


def shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value.value}@{value.timestamp_ms}" if isinstance(value, ValueAndTimestamp) else str(value)


def as_row(record: Record[Any, Any]) -> list[Any]:
    key, value, timestamp_ms, headers = record
    named = [[name, None if header is None else header.hex()] for name, header in headers]
    return [None if key is None else key.hex(), None if value is None else value.hex(), timestamp_ms, named]
