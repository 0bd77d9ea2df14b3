"""The topologies of the DSL are Kafka's own: names, stores, internal topics, subtopologies, co-partitioned topics."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from streams_runtime import LONG, STRING, Record, StreamsBuilder, Topology, TopologyTestDriver
from tests.streams_runtime.dsl.topologies import CASES, OPTIMIZED, Case
from tests.streams_runtime.processors.recording_runtime import PassOn

KAFKA = Path(__file__).with_name("described_by_kafka")
TOPICS: dict[str, dict[str, Any]] = json.loads((KAFKA / "topics.json").read_text())
ALL = [(name, case, False) for name, case in CASES.items()] + [(name, case, True) for name, case in OPTIMIZED.items()]


dumps: Callable[[object], bytes] = cloudpickle.dumps


class Drop(PassOn):
    def process(self, record: Record[Any, Any]) -> None:
        pass


def built(case: Case, optimize: bool) -> Topology:
    builder = StreamsBuilder(optimize=optimize)
    case(builder)
    return builder.build()


def topics(topology: Topology) -> dict[str, Any]:
    """In the form of topics.json."""
    group_topology = topology.builder.build("app")
    return {
        "subtopologies": {
            str(each.id): {
                "sources": sorted(each.source_topics),
                "sinks": sorted(each.sink_topics),
                "repartition": {topic.name: topic.partitions for topic in each.repartition_source_topics},
                "changelogs": sorted(
                    name
                    for store in each.stores
                    for name in (store.changelog_topic, store.source_topic_as_changelog)
                    if name is not None
                ),
            }
            for each in group_topology.subtopologies
        },
        "copartition": sorted(sorted(group) for group in group_topology.copartition_groups),
    }


def test_every_topology_of_kafka_is_compared() -> None:
    files = {path.stem for path in KAFKA.glob("*.txt")}
    assert files == {name for name, _, _ in ALL} == set(TOPICS)


@pytest.mark.parametrize("name, case, optimize", ALL, ids=[name for name, _, _ in ALL])
def test_should_describe_the_topology_as_kafka_does(name: str, case: Case, optimize: bool) -> None:
    assert built(case, optimize).describe() == (KAFKA / f"{name}.txt").read_text()


JOINED = ["app-inner-left-repartition", "app-inner-right-repartition"]
JOINED_TWICE = "app-KSTREAM-KEY-SELECT-0000000001-repartition"
LEFT_ALONE_BY_KAFKA = {
    "two_joins_share_a_repartition_topic": (
        [[JOINED_TWICE, "table-a"], ["table-b"]],
        [[JOINED_TWICE, "table-a", "table-b"]],
    ),
    "topics_read_together_and_again": ([["t"]], [["c", "t"]]),
    "joins_of_two_streams_after_key_change": ([JOINED, ["right"]], [[*JOINED, "right"]]),
    "joins_of_two_streams_after_key_change_optimized": ([JOINED, ["right"]], [[*JOINED, "right"]]),
}
"""Groups there and here: Kafka knows the stream by the name of a source that is not in the topology in the end."""


@pytest.mark.parametrize("name, case, optimize", ALL, ids=[name for name, _, _ in ALL])
def test_should_need_kafkas_topics_and_keep_joined_ones_together(name: str, case: Case, optimize: bool) -> None:
    expected = dict(TOPICS[name])
    if name in LEFT_ALONE_BY_KAFKA:
        there, expected["copartition"] = LEFT_ALONE_BY_KAFKA[name]
        assert TOPICS[name]["copartition"] == there
    assert topics(built(case, optimize)) == expected


@pytest.mark.parametrize("name, case, optimize", ALL, ids=[name for name, _, _ in ALL])
def test_should_be_sent_to_executors_whole(name: str, case: Case, optimize: bool) -> None:
    topology = built(case, optimize)
    assert cloudpickle.loads(dumps(topology)).describe() == topology.describe()


def test_should_merge_repartition_topics_of_one_branch_when_optimizing() -> None:
    """Kafka: StreamsException, "Found a null keyChangingChild node"."""
    group_topology = built(CASES["repartitions_behind_one_branch"], True).builder.build("app")
    repartition = "app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"
    assert [each.source_topics for each in group_topology.subtopologies] == [("input",), (repartition,)]
    assert [each.sink_topics for each in group_topology.subtopologies] == [(repartition,), ()]


@pytest.mark.parametrize("optimize", [False, True])
def test_should_build_splits_and_merges_one_after_the_other_in_steps_of_their_nodes(optimize: bool) -> None:
    """60 of them have 2^60 paths: a walk along each path would not end."""
    builder = StreamsBuilder(optimize=optimize)
    stream = builder.stream("input", STRING, STRING)
    for _ in range(60):
        low, high = stream.filter(lambda k, v: v < "h"), stream.filter_not(lambda k, v: v < "h")
        stream = low.select_key(lambda k, v: v).merge(high)
    stream.group_by_key(key_serde=STRING, value_serde=STRING).count().to_stream().to("output", value_serde=LONG)

    topology = builder.build()

    text = topology.describe()
    assert len(topology.definition().nodes) == len(re.findall("Source:|Processor:|Sink:", text))
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("input", STRING, STRING).pipe_input("k", "a", 0)
        assert driver.create_output_topic("output", STRING, LONG).read_key_values() == [("a", 1)]
        assert driver.node_runs()


def test_should_start_processors_that_split_and_merge_in_steps_of_their_nodes() -> None:
    topology, end = Topology().add_source("source", "input").add_processor("none", Drop, "source"), "none"
    for stage in range(40):
        for side in ("left", "right"):
            topology.add_processor(f"{side}-{stage}", PassOn, end)
        end = f"end-{stage}"
        topology.add_processor(end, PassOn, [f"left-{stage}", f"right-{stage}"])
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("input", STRING, STRING).pipe_input("k", "v", 0)
        assert len(driver.node_runs()) == 121
