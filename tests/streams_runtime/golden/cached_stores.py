"""Runs a case of record caches here: a processor does with its stores what a record says, and forwards their answers.

`StoreCaches.java` in tests/oracle does the same in Kafka.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from assignor.topology.builder import LOGGED
from streams_runtime.common.records import Record
from streams_runtime.local_run.topology_test_driver import TopologyTestDriver
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import BYTES, STRING
from streams_runtime.state_stores.builders import (
    key_value_store,
    timestamped_key_value_store,
    timestamped_window_store,
    window_store,
)
from streams_runtime.state_stores.state_store import StoreBuilder, ValueAndTimestamp, Windowed
from streams_runtime.state_stores.thread_cache import ContextTuple
from tests.streams_runtime.state_stores.surroundings import set_flush_listener

Written = dict[str, list[Any]]
"""Rows by topic."""


def written_here(case: dict[str, Any]) -> list[Written]:
    """Outputs and changelogs after each record, which may change many keys and is then committed."""
    stores = case["stores"]
    topics = ["out", *(f"app-{store['name']}-changelog" for store in stores if store["logging"])]
    configs = {"application.id": "app", "statestore.cache.max.bytes": case["bytes"]}
    written: list[Written] = []
    with TopologyTestDriver(topology(stores), configs, initial_wall_clock_ms=0) as driver:
        outputs = {topic: driver.create_output_topic(topic, BYTES, BYTES) for topic in topics}
        for piped in case["inputs"]:
            headers = tuple((name, value.encode()) for name, value in piped["headers"])
            driver.pipe_raw("in", b"k", json.dumps(piped["steps"]).encode(), piped["at"], headers)
            written.append(
                {topic: [as_row(record) for record in output.read_all()] for topic, output in outputs.items()}
            )
    return written


def topology(stores: list[dict[str, Any]]) -> Topology:
    made = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    made.add_processor("scripted", partial(Scripted, stores), "source")
    for store in stores:
        made.add_state_store(builder(store), "scripted")
    return made.add_sink("sink", "out", "scripted", key_serde=STRING, value_serde=STRING)


def builder(store: dict[str, Any]) -> StoreBuilder:
    settings = {
        "persistent": store["persistent"],
        "changelog": LOGGED if store["logging"] else None,
        "caching": store["caching"],
    }
    if "window" not in store:
        kind = timestamped_key_value_store if store["ts"] else key_value_store
        return kind(store["name"], STRING, STRING, **settings)
    times = {"retention_ms": store["window"]["retention"], "window_size_ms": store["window"]["size"]}
    window_kind: Any = timestamped_window_store if store["ts"] else window_store
    made: StoreBuilder = window_kind(store["name"], STRING, STRING, **times, **settings)
    return made


class Scripted(Processor[str, str]):
    """Does with its stores what a record says, and forwards what they answer and what their caches flush."""

    def __init__(self, stores: list[dict[str, Any]]) -> None:
        self._stores = stores

    def init(self, context: ProcessorContext) -> None:
        self.context: Any = context
        for store in self._stores:
            if store["listens"]:
                listener = partial(self.flushed, store["name"])
                set_flush_listener(context.state_store(store["name"]), listener, sends_old_values=store["old"])

    def flushed(self, store: str, key: Any, new: Any, old: Any, made_by: ContextTuple) -> None:
        value = f"{store}:{shown(new)}|{shown(old)}"
        hand_on = self.context.all_children()  # as an operator of the DSL does; `forward` is for `process`
        hand_on(key_shown(key), value, *made_by[:2])

    def process(self, record: Record[str, str]) -> None:
        timestamped = {store["name"] for store in self._stores if store["ts"]}
        windowed = {store["name"] for store in self._stores if "window" in store}
        for name, call, key, value, later_ms, *times in json.loads(record.value):
            stored = value
            if value is not None and name in timestamped:
                stored = ValueAndTimestamp(value, record.timestamp_ms + later_ms)
            store = self.context.state_store(name)
            if name in windowed:
                answer = ANSWERS_OF_WINDOWS[call](store, key, stored, *times)
            else:
                answer = ANSWERS[call](store, key, value, stored)
            if answer is not None:
                self.context.forward(record._replace(key=call, value=answer))


# What a store answers to a call with key, value and the value as the store takes it.
ANSWERS: dict[str, Callable[[Any, str, Any, Any], str | None]] = {
    "put": lambda store, key, _value, stored: store.put(key, stored),
    "absent": lambda store, key, _value, stored: shown(store.put_if_absent(key, stored)),
    "delete": lambda store, key, _value, _stored: shown(store.delete(key)),
    "get": lambda store, key, _value, _stored: shown(store.get(key)),
    "range": lambda store, key, value, _stored: entries(store.range(key, value)),
    "reverse": lambda store, key, value, _stored: entries(store.reverse_range(key, value)),
    "all": lambda store, _key, _value, _stored: entries(store.all()),
    "prefix": lambda store, key, _value, _stored: entries(store.prefix_scan(key.encode())),
}

# The same of a window store, with key, value and two times.
ANSWERS_OF_WINDOWS: dict[str, Callable[[Any, str, Any, int, int], str | None]] = {
    "put": lambda store, key, stored, from_ms, _to_ms: store.put(key, stored, from_ms),
    "fetch": lambda store, key, _stored, from_ms, _to_ms: shown(store.fetch(key, from_ms)),
    "range": lambda store, key, _stored, from_ms, to_ms: entries(store.fetch_range(key, from_ms, to_ms)),
    "all": lambda store, _key, _stored, from_ms, to_ms: entries(store.fetch_all(from_ms, to_ms)),
}


def entries(found: Iterator[tuple[Any, Any]]) -> str:
    return "".join(f"{key_shown(key)}={shown(value)}," for key, value in found)


def key_shown(key: Any) -> str:
    return f"{key.key}@{key.start_ms}-{key.end_ms}" if isinstance(key, Windowed) else str(key)


def shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value.value}@{value.timestamp_ms}" if isinstance(value, ValueAndTimestamp) else str(value)


def as_row(record: Record[Any, Any]) -> list[Any]:
    key, value, timestamp_ms, headers = record
    named = [[name, None if header is None else header.hex()] for name, header in headers]
    return [None if key is None else key.hex(), None if value is None else value.hex(), timestamp_ms, named]
