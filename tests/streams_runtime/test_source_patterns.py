"""Applications that read all topics that match a pattern."""

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import TopologyError
from streams_runtime import (
    STRING,
    Application,
    LocalRun,
    Processor,
    ProcessorContext,
    Record,
    RecordProducer,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    open_log,
    read_topic,
)
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.queries.client import StateStoreClient
from tests.known import known
from tests.oracle.broker import Broker
from tests.streams_runtime.word_counting import wait_for
from tests.warm_coordinator import WarmCoordinator

AT_ONCE = {"group.initial.rebalance.delay.ms": 0, "cluster.metadata.max.age.ms": 100}
SERDES: dict[str, Any] = {"key_serde": STRING, "value_serde": STRING}


class WithTopic(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record[str, str]) -> None:
        metadata = self._context.record_metadata
        assert metadata is not None
        self._context.forward(record._replace(value=f"{metadata.topic}:{record.value}"))


def with_topics(prefix: str = "") -> Topology:
    """Writes every record of `events-...` and of `names` to `out`, with the name of its topic, and counts by key."""
    builder = StreamsBuilder()
    events = builder.stream(re.compile(f"{prefix}events-.*"), **SERDES)
    every = events.merge(builder.stream(f"{prefix}names", **SERDES)).process(WithTopic)
    every.to(f"{prefix}out", **SERDES)
    every.group_by_key(**SERDES).count(store="counts")
    return builder.build()


def test_should_read_any_topic_that_matches_in_the_test_driver() -> None:
    with TopologyTestDriver(with_topics()) as driver:
        out = driver.create_output_topic("out", STRING, STRING)
        first = driver.create_input_topic("events-1", STRING, STRING)
        names = driver.create_input_topic("names", STRING, STRING)
        first.pipe_input("k", "a")
        names.pipe_input("k", "b")
        driver.create_input_topic("events-2", STRING, STRING).pipe_input("k", "c")
        first.pipe_input("k", "d")
        driver.pipe_raw("events-3", b"k", b"e", 5)
        assert [record.value for record in out.read_all()] == [
            "events-1:a",
            "names:b",
            "events-2:c",
            "events-1:d",
            "events-3:e",
        ]
        assert known(driver.get_key_value_store("counts").get("k")).value == 5
        with pytest.raises(Exception, match="does not read topic event; it reads events-1"):
            driver.create_input_topic("event", STRING, STRING)


def test_should_share_one_source_between_streams_of_one_pattern() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*"), **SERDES).to("x", **SERDES)
    builder.stream(re.compile("a.*"), **SERDES).to("y", **SERDES)
    assert builder.build().describe() == (
        "Topologies:\n   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: a.*)\n"
        "      --> KSTREAM-SINK-0000000001, KSTREAM-SINK-0000000003\n"
        "    Sink: KSTREAM-SINK-0000000001 (topic: x)\n      <-- KSTREAM-SOURCE-0000000000\n"
        "    Sink: KSTREAM-SINK-0000000003 (topic: y)\n      <-- KSTREAM-SOURCE-0000000000\n\n"
    )


def test_should_refuse_a_stream_of_a_topic_that_a_pattern_matches() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*"), **SERDES).to("x", **SERDES)
    builder.stream("ab", **SERDES).to("y", **SERDES)
    with pytest.raises(TopologyError, match=r"Topic ab matches the pattern a\.\*"):
        builder.build()


def write(log: Log, topic: str, *values: str) -> None:
    with RecordProducer(log, STRING, STRING) as producer:
        for number, value in enumerate(values):
            producer.send(topic, f"k{number}", value, timestamp_ms=1_000)


def run_with_changing_topics(log: Log, servers: str, coordinator: str, directory: Path, prefix: str) -> None:
    def create(*topics: str) -> None:
        log.create_topics([NewTopic(f"{prefix}{topic}", 2, {"retention.ms": "-1"}) for topic in topics])

    def wait_for_values(*values: str) -> None:
        def read() -> Sequence[object]:
            return sorted(
                str(each.value).removeprefix(prefix) for each in read_topic(log, f"{prefix}out", STRING, STRING)
            )

        wait_for(lambda: read() == sorted(values), read)

    configs = {
        "application.id": f"{prefix}app",
        "bootstrap.servers": servers,
        "state.dir": directory / "state",
        "commit.interval.ms": 50,
        "processing.guarantee": "exactly_once_v2",
    }
    create("names", "out")
    with LocalRun(Application(with_topics(prefix), configs), coordinator=coordinator) as run:
        write(log, f"{prefix}names", "a")
        wait_for_values("names:a")
        create("events-1", "an-event")
        write(log, f"{prefix}events-1", "b", "c")
        wait_for_values("names:a", "events-1:b", "events-1:c")
        create("events-2")
        write(log, f"{prefix}events-2", "d", "e")
        wait_for_values("names:a", *(f"events-1:{each}" for each in "bc"), *(f"events-2:{each}" for each in "de"))
        run.wait_until_caught_up()
        with StateStoreClient([endpoint.removeprefix("http://") for endpoint in run.endpoints]) as stores:
            assert stores.get("counts", b"k0").value == (3).to_bytes(8, "big")
        log.delete_topics([f"{prefix}events-1"])
        create("events-3")
        write(log, f"{prefix}events-3", "f")
        write(log, f"{prefix}names", "g")
        wait_for_values(*("names:a", "events-1:b", "events-1:c", "events-2:d", "events-2:e"), "events-3:f", "names:g")
        assert not any(instance.errors for instance in run.instances)


def test_should_read_topics_that_are_created_while_it_runs(tmp_path: Path) -> None:
    servers = f"embedded:{tmp_path / 'log'}"
    settings = {**AT_ONCE, "cluster.bootstrap.servers": servers}
    with closing(open_log(servers)) as log, WarmCoordinator(tmp_path, settings) as coordinator:
        run_with_changing_topics(log, servers, coordinator.url, tmp_path, "")


@pytest.mark.kafka
def test_should_read_topics_that_are_created_on_a_broker(kafka_broker: Broker, tmp_path: Path) -> None:
    servers = kafka_broker.bootstrap_servers
    settings = {**AT_ONCE, "cluster.bootstrap.servers": servers}
    with closing(open_log(servers)) as log, WarmCoordinator(tmp_path, settings) as coordinator:
        run_with_changing_topics(log, servers, coordinator.url, tmp_path, "by-pattern-")
