"""Whole topologies turn the same records into the same bytes as Kafka's `TopologyTestDriver` did."""

from typing import Any

import pytest

from assignor.types import JAVA_LONG_MAX
from streams_runtime import BYTES, TopologyTestDriver, ValueAndTimestamp
from tests.examples import every_other_long
from tests.streams_runtime.golden.case_topology import CaseTopology
from tests.streams_runtime.golden.recorded import Recorded, recorded

CASES = recorded("topologies")
FLAVOURS = ("stateless", "agg", "window", "table", "mix", "process")


@pytest.mark.parametrize("one", every_other_long(CASES), ids=Recorded.label)
def test_should_write_and_keep_exactly_what_kafka_does(one: Recorded) -> None:
    """Outputs, repartition topics, changelogs with their timestamps and headers, and what is in the stores."""
    guarantee = "exactly_once_v2" if one.case.get("eos") else "at_least_once"
    configs = {"application.id": "app", "processing.guarantee": guarantee, "statestore.cache.max.bytes": 0}
    topology = CaseTopology(one.case).build()
    with TopologyTestDriver(topology, configs, initial_wall_clock_ms=one.case["wall"]) as driver:
        for topic, *record in one.case["inputs"]:
            if topic == "adv":
                driver.advance_wall_clock_time(record[0])
            else:
                key, value, timestamp_ms, headers = record
                driver.pipe_raw(topic, encoded(key), encoded(value), timestamp_ms, pairs(headers))
        assert {name: written(driver, name) for name in driver.produced_topic_names()} == one.kafka["topics"]
        assert {name: content(store) for name, store in driver.get_all_state_stores().items()} == {
            name: sorted(entries) if entries and len(entries[0]) > 3 else entries
            for name, entries in one.kafka["stores"].items()
        }


def test_should_have_cases_of_every_kind() -> None:
    assert {one.case["flavour"] for one in CASES} == set(FLAVOURS)
    assert sum(len(records) for one in CASES for records in one.kafka["topics"].values()) > 5_000


def written(driver: TopologyTestDriver, topic: str) -> list[list[Any]]:
    records = driver.create_output_topic(topic, BYTES, BYTES).read_all()
    return [
        [as_hex(key), as_hex(value), timestamp_ms, [[name, as_hex(header)] for name, header in headers]]
        for key, value, timestamp_ms, headers in records
    ]


def content(store: Any) -> list[list[Any]]:
    """Entries in order of their keys; a window is its key, start and end."""
    if hasattr(store, "fetch_all"):
        return sorted([*windowed, *parts(value)] for windowed, value in store.fetch_all(0, JAVA_LONG_MAX))
    return [[key, *parts(value)] for key, value in store.all()]


def parts(value: Any) -> list[Any]:
    return [str(value.value), value.timestamp_ms] if isinstance(value, ValueAndTimestamp) else [str(value)]


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def pairs(headers: list[list[str]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, value.encode()) for name, value in headers)


def as_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()
