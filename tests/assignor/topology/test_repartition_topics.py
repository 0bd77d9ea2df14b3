"""Partition counts of repartition topics, and input topics that are missing."""

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError, MissingSourceTopicError, TaskAssignmentError, TopologyError
from assignor.topology.builder import TopologyBuilder
from assignor.topology.cluster import Broker, Cluster, TopicMetadata
from assignor.topology.group_topology import GroupTopology, RepartitionTopic, Subtopology, SubtopologyStore
from assignor.topology.internal_topics import (
    InternalTopic,
    InternalTopicCatalog,
    RepartitionTopics,
    enforce_copartitioning,
    prepare_repartition_topics,
)

_CONFIGS = AssignmentConfigs()


def _cluster(**counts: int) -> Cluster:
    return Cluster((Broker(1),), {topic: TopicMetadata(count) for topic, count in counts.items()})


def _prepare(
    builder: TopologyBuilder, cluster: Cluster, catalog: InternalTopicCatalog | None = None
) -> RepartitionTopics:
    return prepare_repartition_topics(builder.build("app"), cluster, catalog or InternalTopicCatalog(), _CONFIGS)


def _hop(builder: TopologyBuilder, source: str, *sinks: str) -> TopologyBuilder:
    """One subtopology: reads `source`, writes `sinks`."""
    builder.add_source(f"read-{source}", source).add_processor(f"work-{source}", f"read-{source}")
    for sink in sinks:
        builder.add_sink(f"{source}-to-{sink}", sink, f"work-{source}")
    return builder


def test_should_name_every_missing_source_topic_before_anything_else_is_looked_at() -> None:
    builder = TopologyBuilder().add_repartition_topic("never-written")
    for source in ("b", "a", "c", "never-written"):
        _hop(builder, source)
    catalog = InternalTopicCatalog(failures=frozenset({"describe_topics"}))

    with pytest.raises(MissingSourceTopicError) as raised:
        _prepare(builder, _cluster(c=1), catalog)

    assert str(raised.value) == "Missing source topics. [a, b]"


def test_should_fail_when_nobody_writes_a_repartition_topic() -> None:
    builder = _hop(_hop(TopologyBuilder().add_repartition_topic("r"), "a"), "r")

    with pytest.raises(TaskAssignmentError, match=r"Failed to compute number of partitions .* \[app-r\]"):
        _prepare(builder, _cluster(a=1))


def test_should_look_at_copartitioning_only_when_there_are_repartition_topics() -> None:
    """As in Kafka: a join of two input topics is checked by nobody here."""
    joined = TopologyBuilder().add_source("a", "a").add_source("b", "b").add_processor("join", ["a", "b"])
    joined.copartition(["a", "b"])
    cluster = _cluster(a=2, b=3)

    assert _prepare(joined, cluster) == RepartitionTopics(cluster, {}, {})
    with pytest.raises(TopologyError, match="Topics not co-partitioned"):
        _prepare(_hop(joined.add_repartition_topic("r").add_sink("to-r", "r", "join"), "r"), cluster)


@pytest.mark.parametrize(
    ("stores", "expected"),
    [
        ((), "no known count leads to"),  # the second is not there for Kafka, and so nobody writes app-r
        ((SubtopologyStore("counts", "app-counts"),), None),
    ],
)
def test_should_see_subtopologies_of_the_same_sources_and_changelogs_once(
    stores: tuple[SubtopologyStore, ...], expected: str | None
) -> None:
    topology = GroupTopology(
        (
            Subtopology(0, ("in",)),
            Subtopology(1, ("in",), sink_topics=("app-r",), repartition_sink_topics=("app-r",), stores=stores),
            Subtopology(2, ("app-r",), (RepartitionTopic("app-r"),)),
        )
    )
    if expected is None:
        assert prepare_repartition_topics(topology, _cluster(**{"in": 3}), InternalTopicCatalog(), _CONFIGS).ready == {
            "app-r": 3
        }
        return
    with pytest.raises(TaskAssignmentError, match=expected):
        prepare_repartition_topics(topology, _cluster(**{"in": 3}), InternalTopicCatalog(), _CONFIGS)


@pytest.mark.parametrize(("known", "expected"), [(2, 5), (8, 8)])
def test_should_take_no_partition_away_when_the_cluster_knows_the_topic_already(known: int, expected: int) -> None:
    builder = _hop(_hop(TopologyBuilder().add_repartition_topic("r"), "a", "r"), "r")

    topics = _prepare(builder, _cluster(a=5).with_topics({"app-r": TopicMetadata(known)}))

    assert (topics.ready, topics.cluster.partition_count("app-r")) == ({"app-r": 5}, expected)


def test_should_fail_when_a_copartitioned_group_has_several_fixed_counts_or_none() -> None:
    topics = {name: InternalTopic(name, count, fixed_partitions=True) for name, count in (("a", 3), ("b", 4))}
    with pytest.raises(TopologyError, match=r"do not have the same number of partitions: \[\{a=3, b=4, c=5\}\]"):
        enforce_copartitioning(["c", "b", "a"], {**topics, "c": InternalTopic("c", 5)}, _cluster(), "")
    with pytest.raises(IllegalStateError, match="Could not validate the copartitioning"):
        enforce_copartitioning(["a"], {"a": InternalTopic("a", None)}, _cluster(), "")
