"""Step 1: how many partitions every repartition topic has, and whether all input topics exist.

A repartition topic without a fixed count gets the largest count among the source topics of every subtopology that
writes to it. Those may be repartition topics too, so the walk repeats until all counts are known. It takes the largest
of the counts *already* known, so chained topics depend on Java's hash order.

Then topics that are joined get the same count. A co-partitioned group of repartition topics alone takes the largest
count, or the fixed count when the user gave one. With another topic in the group, that topic's count decides.
Source: `RepartitionTopics`, `StreamsPartitionAssignor.prepareRepartitionTopics`, `CopartitionedTopicsEnforcer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assignor.cluster import Cluster, TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError, MissingSourceTopicError, TaskAssignmentError, TopologyError
from assignor.java.order import hash_set_order, string_hash
from assignor.topology.group_topology import GroupTopology, Subtopology
from assignor.topology.internal_topics import CreatedTopic, InternalTopic, InternalTopicCatalog, make_ready
from assignor.topology.topics_info import subtopology_walk
from assignor.types import utf16_order

_LOG_PREFIX = "stream-thread [] "
"""Kafka begins these messages with the `client.id` of the leader's assignor. A leader here has none."""


@dataclass(frozen=True, slots=True)
class RepartitionTopics:
    """`cluster`: the cluster with the repartition topics added. `ready`: their partition counts."""

    cluster: Cluster
    created: Mapping[str, CreatedTopic] = field(default_factory=dict)
    ready: Mapping[str, int] = field(default_factory=dict)


def prepare_repartition_topics(
    topology: GroupTopology, cluster: Cluster, catalog: InternalTopicCatalog, configs: AssignmentConfigs
) -> RepartitionTopics:
    """Counts, checks and creates the repartition topics.

    Raises MissingSourceTopicError when the cluster lacks an input topic, TaskAssignmentError when a count cannot be
    computed, TopologyError for topics that are not co-partitioned, StreamsError for a topic that cannot be made ready.
    As in Kafka, co-partitioning is checked only when there are repartition topics.
    """
    missing = missing_source_topics(topology, cluster)
    if missing:
        raise MissingSourceTopicError(f"Missing source topics. [{', '.join(missing)}]")
    topics = _with_partition_counts(topology.subtopologies, cluster)
    if not topics:
        return RepartitionTopics(cluster)
    for group in topology.copartition_groups:
        topics |= enforce_copartitioning(group, topics, cluster)
    ready = make_ready(topics, catalog, configs)
    # Kafka adds partitions to the metadata, and removes none when it knows the topic already
    counts = {name: max(partitions, cluster.partition_count(name) or 0) for name, partitions in ready.ready.items()}
    full_cluster = cluster.with_topics({name: TopicMetadata(partitions) for name, partitions in counts.items()})
    return RepartitionTopics(full_cluster, ready.created, ready.ready)


def missing_source_topics(topology: GroupTopology, cluster: Cluster) -> tuple[str, ...]:
    """Input topics that the cluster lacks, sorted; repartition topics are not input."""
    missing: set[str] = set()
    for subtopology in topology.subtopologies:
        repartition = {topic.name for topic in subtopology.repartition_source_topics}
        missing.update(
            topic for topic in subtopology.source_topics if topic not in repartition and topic not in cluster.topics
        )
    return tuple(sorted(missing, key=utf16_order))


def _with_partition_counts(subtopologies: Sequence[Subtopology], cluster: Cluster) -> dict[str, InternalTopic]:
    counts = {
        topic.name: topic.partitions for subtopology in subtopologies for topic in subtopology.repartition_source_topics
    }
    topics = {  # in Kafka's order: it decides which of several topics an error names
        name: InternalTopic(name, counts[name], fixed_partitions=counts[name] is not None)
        for subtopology in subtopologies
        for name in _repartition_walk(subtopology)
    }
    walk = subtopology_walk(subtopologies)
    writers: dict[str, list[Subtopology]] = {}
    for subtopology in walk:
        for sink in dict.fromkeys(subtopology.sink_topics):
            writers.setdefault(sink, []).append(subtopology)
    needed = dict.fromkeys(name for subtopology in walk for name in _repartition_walk(subtopology))
    waiting = [name for name in needed if topics[name].partitions is None]
    while waiting:
        unknown: list[str] = []
        for name in waiting:
            partitions = _largest_known_count(writers.get(name, ()), topics, cluster)
            if partitions is None:
                unknown.append(name)
            else:
                topics[name] = topics[name].with_partitions(partitions)
        if len(unknown) == len(waiting):
            raise TaskAssignmentError(
                "Failed to compute number of partitions for all repartition topics, make sure all user input topics "
                "are created and all Pattern subscriptions match at least one topic in the cluster",
                f"no known count leads to [{', '.join(unknown)}]",
            )
        waiting = unknown
    return topics


def _repartition_walk(subtopology: Subtopology) -> list[str]:
    return hash_set_order((topic.name for topic in subtopology.repartition_source_topics), string_hash)


def _largest_known_count(
    writers: Sequence[Subtopology], topics: Mapping[str, InternalTopic], cluster: Cluster
) -> int | None:
    largest: int | None = None
    for source in (source for writer in writers for source in writer.source_topics):
        repartition_topic = topics.get(source)
        if repartition_topic is None:
            count = cluster.partition_count(source)
            if count is None:
                raise TaskAssignmentError(
                    f"No partition count found for source topic {source}, but it should have been."
                )
        else:
            count = repartition_topic.partitions
        if count is not None and (largest is None or count > largest):
            largest = count
    return largest


def enforce_copartitioning(
    group: Sequence[str], repartition_topics: Mapping[str, InternalTopic], cluster: Cluster
) -> dict[str, InternalTopic]:
    """The repartition topics of `group` with the count that the group needs.

    Raises TopologyError when other topics, or fixed counts, disagree, and IllegalStateError for a topic that is
    neither a repartition topic nor in the cluster.
    """
    walk = hash_set_order(group, string_hash)
    inside = [repartition_topics[topic] for topic in walk if topic in repartition_topics]
    outside = {topic: _partition_count(topic, cluster) for topic in walk if topic not in repartition_topics}
    if not inside and not outside:
        return {}
    partitions = _same_partitions(outside) if outside else _partitions_among_repartition_topics(inside)
    coerced = {topic.name: topic.with_partitions(partitions) for topic in inside}
    for topic in coerced.values():
        if topic.partitions != partitions:
            raise TopologyError(
                f"Invalid topology: {_LOG_PREFIX}Number of partitions [{topic.partitions}] of repartition topic "
                f"[{topic.name}] doesn't match number of partitions [{partitions}] of the source topic."
            )
    return coerced


def _partition_count(topic: str, cluster: Cluster) -> int:
    count = cluster.partition_count(topic)
    if count is None:
        raise IllegalStateError(f"{_LOG_PREFIX}Topic not found: {topic}")
    return count


def _same_partitions(outside: Mapping[str, int]) -> int:
    if len(set(outside.values())) > 1:
        raise TopologyError(f"Invalid topology: {_LOG_PREFIX}Topics not co-partitioned: [{_as_text(outside)}]")
    return next(iter(outside.values()))


def _partitions_among_repartition_topics(inside: Sequence[InternalTopic]) -> int:
    counts = {topic.name: topic.partitions for topic in inside if topic.partitions is not None}
    fixed = {topic.name: topic.partitions for topic in inside if topic.fixed_partitions}
    if len(set(fixed.values())) > 1:
        raise TopologyError(
            f"Invalid topology: {_LOG_PREFIX}Following topics do not have the same number of partitions: "
            f"[{_as_text(counts)}]"
        )
    for partitions in fixed.values():
        if partitions is not None:
            return partitions
    if not counts:
        names = ", ".join(topic.name for topic in inside)
        raise IllegalStateError(f"{_LOG_PREFIX}Could not validate the copartitioning of topics: [{names}]")
    return max(counts.values())


def _as_text(counts: Mapping[str, int]) -> str:
    """As Java writes a `TreeMap`."""
    ordered = sorted(counts.items(), key=lambda item: utf16_order(item[0]))
    return "{" + ", ".join(f"{topic}={count}" for topic, count in ordered) + "}"
