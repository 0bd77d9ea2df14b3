"""The topologies of the DSL are Kafka's own: names, stores, internal topics, subtopologies, co-partitioned topics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from streams_runtime.dsl import StreamsBuilder
from streams_runtime.processors.topology import Topology
from tests.streams_runtime.dsl.topologies import CASES, OPTIMIZED, Case

KAFKA = Path(__file__).with_name("described_by_kafka")
TOPICS: dict[str, dict[str, Any]] = json.loads((KAFKA / "topics.json").read_text())
ALL = [(name, case, False) for name, case in CASES.items()] + [(name, case, True) for name, case in OPTIMIZED.items()]


dumps: Callable[[object], bytes] = cloudpickle.dumps


def built(case: Case, optimize: bool) -> Topology:
    builder = StreamsBuilder(optimize=optimize)
    case(builder)
    return builder.build()


def topics(topology: Topology) -> dict[str, Any]:
    """In the form of topics.json."""
    parsed = topology.builder.build("app")
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
            for each in parsed.subtopologies
        },
        "copartition": sorted(sorted(group) for group in parsed.copartition_groups),
    }


def test_every_topology_of_kafka_is_compared() -> None:
    files = {path.stem for path in KAFKA.glob("*.txt")}
    assert files == {name for name, _, _ in ALL} == set(TOPICS)


@pytest.mark.parametrize("name, case, optimize", ALL, ids=[name for name, _, _ in ALL])
def test_should_describe_the_topology_as_kafka_does(name: str, case: Case, optimize: bool) -> None:
    assert built(case, optimize).describe() == (KAFKA / f"{name}.txt").read_text()


JOINED_TWICE = "app-KSTREAM-KEY-SELECT-0000000001-repartition"
LEFT_ALONE_BY_KAFKA = {
    "two_joins_share_a_repartition_topic": (
        [[JOINED_TWICE, "table-a"], ["table-b"]],
        [[JOINED_TWICE, "table-a", "table-b"]],
    ),
    "topics_read_together_and_again": ([["t"]], [["c", "t"]]),
}
"""Groups there and here: Kafka knows the stream by the name of a source that is not in the topology in the end."""


@pytest.mark.parametrize("name, case, optimize", ALL, ids=[name for name, _, _ in ALL])
def test_should_need_the_topics_that_kafka_does_and_keep_joined_ones_together(
    name: str, case: Case, optimize: bool
) -> None:
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
    parsed = built(CASES["repartitions_behind_one_branch"], True).builder.build("app")
    repartition = "app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"
    assert [each.source_topics for each in parsed.subtopologies] == [("input",), (repartition,)]
    assert [each.sink_topics for each in parsed.subtopologies] == [(repartition,), ()]
