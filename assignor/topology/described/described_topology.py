"""A group's topology from the text that Java's `Topology#describe` prints.

The text has the nodes, their edges, stores and topics under the names that the user knows. It does not have what else
Kafka's builder was told: which topics are internal, which stores are logged and how, which sources are co-partitioned,
and fixed partition counts. These follow from the graph, from the names that the DSL gives, or from the topics of the
cluster; a repartition topic has a fixed count when its count on the cluster differs from the one that follows from the
topics upstream. Whatever else had to be assumed is reported.
Source: `InternalTopologyBuilder.subtopologyToTopicsInfo`, `KStreamImpl` and `KTableImpl` for what the DSL makes of a
call, `Repartitioned.numberOfPartitions`, `RepartitionTopics`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from assignor.cluster import Cluster, TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.errors import InputError, KafkaError, TopologyError
from assignor.topology.assembly import assemble
from assignor.topology.definition import TopologyDefinition
from assignor.topology.described.copartition import copartitioned_sources
from assignor.topology.described.graph import described_graph
from assignor.topology.described.stores import SeenChangelogs, StoreFacts, described_stores
from assignor.topology.described.text import read_description
from assignor.topology.group_topology import GroupTopology
from assignor.topology.internal_topics import InternalTopicCatalog
from assignor.topology.repartition_topics import prepare_repartition_topics

_NO_FACTS = StoreFacts()
_DEFAULT_CONFIGS = AssignmentConfigs()


@dataclass(frozen=True, slots=True)
class DescribedTopology:
    """`assumptions`: one sentence for each thing that the text does not say and that was assumed. `stores_in_doubt`:
    the stores whose kind (key-value, windowed, versioned) was assumed, each with the kinds that it can have.
    """

    topology: GroupTopology
    assumptions: tuple[str, ...] = ()
    stores_in_doubt: tuple[str, ...] = ()


def topology_from_description(
    text: str,
    application_id: str,
    partition_counts: Mapping[str, int] | None = None,
    *,
    stores: StoreFacts = _NO_FACTS,
    changelog_configs: Mapping[str, Mapping[str, str]] | None = None,
    configs: AssignmentConfigs = _DEFAULT_CONFIGS,
    has_run: bool = False,
    creates_missing: bool = False,
) -> DescribedTopology:
    """The topology as Kafka's leader has it, with the application id in front of internal topics.

    `partition_counts`: all topics of the cluster; without them every store counts as logged. `stores`: what the caller
    knows about stores. `changelog_configs`: changelog topic to the configs set on the topic itself, of as many as the
    caller may read; None when it did not ask. `configs`: the application's, with which its changelogs were created.
    `has_run`: the group has completed a rebalance, so a changelog that does not exist is not wanted, even when none
    exists. `creates_missing`: the caller creates missing topics, so a changelog that does not exist will be created.
    Raises InputError: with the line for text that is not a description, and for `stores` that do not fit it.
    """
    graph = described_graph(read_description(text), application_id, partition_counts)
    counts = partition_counts or {}
    seen = SeenChangelogs(partition_counts, changelog_configs, configs)
    found = described_stores(
        graph.definition, application_id, seen, stores, has_run=has_run, creates_missing=creates_missing
    )
    groups = copartitioned_sources(graph.definition, application_id, counts)
    definition = replace(graph.definition, stores=found.definitions, copartitioned_sources=groups.sources)
    try:
        repartition = repartition_counts(definition, application_id, counts)
        topology = assemble(replace(definition, repartition_topics=repartition.fixed), application_id)
    except TopologyError as error:
        raise InputError(str(error), "topology") from None
    return DescribedTopology(
        _as_led(topology),
        (
            *graph.assumptions,
            *found.assumptions,
            *groups.assumptions,
            *_said_of_groups(topology),
            *repartition.assumptions,
        ),
        found.in_doubt,
    )


def _as_led(topology: GroupTopology) -> GroupTopology:
    """Kafka's leader does not see a subtopology whose patterns fit no topic, which has no tasks, nor the topic of a
    sink that chooses it for each record.
    """
    return replace(
        topology,
        subtopologies=tuple(
            replace(each, sink_topics=tuple(topic for topic in each.sink_topics if topic))
            for each in topology.subtopologies
            if each.source_topics
        ),
    )


def _said_of_groups(topology: GroupTopology) -> Iterator[str]:
    if topology.copartition_groups:
        groups = "; ".join(sorted(", ".join(sorted(group)) for group in topology.copartition_groups))
        yield f"assumed to be co-partitioned, because processors behind them share a store, as joins do: {groups}"


@dataclass(frozen=True, slots=True)
class RepartitionCounts:
    """`fixed`: the count by short name; None when it follows from the topics upstream."""

    fixed: Mapping[str, int | None]
    assumptions: tuple[str, ...]


def repartition_counts(
    definition: TopologyDefinition, application_id: str, partition_counts: Mapping[str, int]
) -> RepartitionCounts:
    """`partition_counts`: topics of the cluster by full name; empty when not known."""
    fixed = dict(definition.repartition_topics)
    existing = {
        topic: partition_counts[name]
        for topic in fixed
        if (name := definition.full_topic(topic, application_id)) in partition_counts
    }
    assumptions: list[str] = []
    for _ in existing:  # one at a time: the counts of others may follow from it
        counted = _counted(replace(definition, repartition_topics=fixed), application_id, partition_counts)
        odd = next(
            (t for t, count in existing.items() if counted.get(definition.full_topic(t, application_id)) != count), None
        )
        if odd is None or not counted or fixed[odd] is not None:
            break
        fixed[odd] = existing[odd]
        assumptions.append(
            f"repartition topic {definition.full_topic(odd, application_id)} has {existing[odd]} partitions where "
            f"{counted[definition.full_topic(odd, application_id)]} follow from upstream: assumed to be a fixed count"
        )
    unknown = [topic for topic in fixed if topic not in existing]
    if unknown:
        names = ", ".join(definition.full_topic(topic, application_id) for topic in unknown)
        assumptions.append(f"repartition topics get as many partitions as there are upstream, no fixed count: {names}")
    return RepartitionCounts(fixed, tuple(assumptions))


def _counted(
    definition: TopologyDefinition, application_id: str, partition_counts: Mapping[str, int]
) -> Mapping[str, int]:
    """The counts that Kafka would create on a cluster without these topics; empty when it cannot."""
    internal = {definition.full_topic(topic, application_id) for topic in definition.repartition_topics}
    topics = {name: TopicMetadata(count) for name, count in partition_counts.items() if name not in internal}
    try:
        topology = assemble(definition, application_id)
        return prepare_repartition_topics(
            topology, Cluster((), topics), InternalTopicCatalog(), AssignmentConfigs()
        ).ready
    except KafkaError:
        return {}
