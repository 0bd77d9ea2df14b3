"""Makes a group's topology from the text that Java's `Topology#describe` prints.

The text shows the nodes with their edges, stores and topics. Topic names in the text lack the application id. The text
lacks some facts of Kafka's builder: the internal topics, the logged stores and their changelogs. The text also lacks
the co-partitioned sources and fixed partition counts. This module derives the missing facts from the graph, from the
names that the DSL generates, or from the topics of the cluster. Normally the partition count of a repartition topic
follows from the topics upstream. If the topic on the cluster has a different partition count, the topic is assumed to
have a fixed count. Each assumption about the topology is reported.
Source: `InternalTopologyBuilder.subtopologyToTopicsInfo`, `Repartitioned.numberOfPartitions`, `RepartitionTopics`;
`KStreamImpl` and `KTableImpl` (the nodes that the DSL adds for a call).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError, KafkaError, MissingSourceTopicError, TopologyError
from assignor.topology.assembly import assemble
from assignor.topology.cluster import Cluster, TopicMetadata
from assignor.topology.definition import TopologyDefinition
from assignor.topology.group_topology import ChangelogConfig, GroupTopology
from assignor.topology.internal_topics import InternalTopicCatalog, prepare_repartition_topics
from kafka_groups.described.copartition import MISSING_TOPICS, CopartitionChoice, CopartitionFacts
from kafka_groups.described.graph import described_graph
from kafka_groups.described.shown_joins import Sources
from kafka_groups.described.stores import SeenChangelogs, StoreFacts, described_stores
from kafka_groups.described.text import read_description

_NO_FACTS = StoreFacts()
_NO_COPARTITION_FACTS = CopartitionFacts()
_REFUSED = "Kafka refuses unequal numbers"
_ORDERS_TRIED = 24
_DEFAULT_CONFIGS = AssignmentConfigs()


@dataclass(frozen=True, slots=True)
class DescribedTopology:
    """A topology and the assumptions about it. `assumptions`: one sentence for each assumed fact.
    `stores_of_unknown_kind`: the stores whose kind was assumed, with the kinds that each of them can have (key-value,
    windowed, versioned).
    """

    topology: GroupTopology
    assumptions: tuple[str, ...] = ()
    stores_of_unknown_kind: tuple[str, ...] = ()


def topology_from_description(
    text: str,
    application_id: str,
    partition_counts: Mapping[str, int] | None = None,
    *,
    stores: StoreFacts = _NO_FACTS,
    copartition: CopartitionFacts = _NO_COPARTITION_FACTS,
    changelog_configs: Mapping[str, Mapping[str, str]] | None = None,
    configs: AssignmentConfigs = _DEFAULT_CONFIGS,
    has_run: bool = False,
    creates_missing: bool = False,
) -> DescribedTopology:
    """Returns the topology that Kafka's leader would use. In the result, the names of internal topics begin with the
    application id.

    `partition_counts`: the number of partitions of each topic of the cluster. If `partition_counts` is None, every
    store is assumed to be logged. `stores`, `copartition`: the caller's facts about stores and co-partitioned topics.
    `changelog_configs`: for each changelog topic, the configs that are set on the topic itself. Topics are left out if
    the caller may not read their configs. If the caller has read no configs, `changelog_configs` is None. `configs`:
    the application's configs, with which Kafka Streams created the changelogs. `has_run`: True if the group has
    completed a rebalance. After a completed rebalance all changelogs exist, so a store without a changelog is not
    logged. `creates_missing`: True if the caller creates missing topics, including missing changelogs. Raises
    InputError if the text is not a description or if the facts do not fit the topology. Also raises InputError if the
    partition count of a topic depends on a missing fact.
    """
    definition, graph_assumptions = described_graph(read_description(text), application_id, partition_counts)
    counts = partition_counts or {}
    seen = SeenChangelogs(partition_counts, changelog_configs, configs)
    found = described_stores(definition, application_id, seen, stores, has_run=has_run, creates_missing=creates_missing)
    definition = replace(definition, stores=found.definitions)

    def outcome(sources: tuple[Sources, ...]) -> Mapping[str, int] | str:
        return _outcome(replace(definition, copartitioned_sources=sources), application_id, counts)

    known_outcome = None if partition_counts is None else outcome
    choice = CopartitionChoice(definition, application_id, copartition, counts, known_outcome, has_run)
    groups, group_assumptions = choice.decided()
    definition = replace(definition, copartitioned_sources=groups)
    try:
        fixed, fixed_assumptions = _repartition_counts(definition, application_id, counts)
        topology = assemble(replace(definition, repartition_topics=fixed), application_id)
    except TopologyError as error:
        raise InputError(str(error), "topology") from None
    if partition_counts is not None:
        _check_order_of_changelogs(topology, found.assumed, partition_counts)
    assumptions = (*graph_assumptions, *found.assumptions, *group_assumptions, *fixed_assumptions)
    return DescribedTopology(_as_led(topology), assumptions, found.unknown_kind)


def _as_led(topology: GroupTopology) -> GroupTopology:
    """Returns the topology that Kafka's leader would use. Leaves out subtopologies without source topics, because they
    have no tasks.
    """
    return replace(topology, subtopologies=tuple(each for each in topology.subtopologies if each.source_topics))


def _check_order_of_changelogs(
    topology: GroupTopology, assumed_stores: Collection[str], partition_counts: Mapping[str, int]
) -> None:
    """Raises InputError if the partition count of a missing repartition topic depends on assumed facts about stores.
    Kafka's leader iterates over the subtopologies in the order of a hash map. The order of this hash map depends on the
    configs of the changelogs. When the leader reaches a repartition topic, some upstream topics may not have a
    partition count yet. The repartition topic then gets the largest partition count among the upstream topics that
    already have a count.
    """
    missing = {
        topic.name
        for each in topology.subtopologies
        for topic in each.repartition_source_topics
        if topic.name not in partition_counts
    }
    unknown_kind = [
        store.name for each in topology.subtopologies for store in each.stores if store.name in set(assumed_stores)
    ]
    if not missing or not unknown_kind:
        return
    counted = [
        _counts_or_refusal(each, partition_counts) for each in _with_other_changelogs(topology, set(unknown_kind))
    ]
    possible = {
        topic: {counts.get(topic) for counts in counted if not isinstance(counts, str)} for topic in sorted(missing)
    }
    differing = [
        f"{topic} ({' or '.join(map(str, sorted(filter(None, counts))))})"
        for topic, counts in possible.items()
        if len(counts) > 1
    ]
    if differing or len({isinstance(each, str) for each in counted}) > 1:
        raise InputError(
            f"the partitions of {', '.join(differing) or ', '.join(sorted(missing))} follow from the order in which "
            f"Java walks the changelogs, so what these stores are has to be known: {', '.join(unknown_kind)}; "
            "say it with --store for each, or give the topology as JSON",
            "repartition topics",
        )


def _with_other_changelogs(topology: GroupTopology, stores: Collection[str]) -> Iterator[GroupTopology]:
    """Yields the topology, and then variants of the topology. In a variant, the changelogs of the given stores have
    different configs.
    """
    yield topology
    for number in range(_ORDERS_TRIED):
        yield replace(
            topology,
            subtopologies=tuple(
                replace(
                    each,
                    stores=tuple(
                        replace(store, changelog=ChangelogConfig(configs={f"{number}.{store.name}": f"{number}"}))
                        if store.name in stores and store.changelog is not None
                        else store
                        for store in each.stores
                    ),
                )
                for each in topology.subtopologies
            ),
        )


def _outcome(
    definition: TopologyDefinition, application_id: str, partition_counts: Mapping[str, int]
) -> Mapping[str, int] | str:
    """Returns the partition counts of all repartition topics. If Kafka's leader would refuse the topics, returns a text
    with the reason.
    """
    fixed, _ = _repartition_counts(definition, application_id, partition_counts)
    try:
        topology = assemble(replace(definition, repartition_topics=fixed), application_id)
    except KafkaError:
        return _REFUSED
    return _counts_or_refusal(topology, partition_counts)


def _counts_or_refusal(topology: GroupTopology, partition_counts: Mapping[str, int]) -> Mapping[str, int] | str:
    try:
        return _prepared(_as_led(topology), partition_counts)
    except MissingSourceTopicError:
        return MISSING_TOPICS
    except KafkaError:
        return _REFUSED


def _repartition_counts(
    definition: TopologyDefinition, application_id: str, partition_counts: Mapping[str, int]
) -> tuple[Mapping[str, int | None], tuple[str, ...]]:
    """Returns the fixed partition count of each repartition topic, and the assumptions. The key is the name of the
    topic without the application id. The fixed count is None if the partition count of the repartition topic follows
    from the topics upstream. `partition_counts`: the number of partitions of each topic of the cluster, by full name;
    empty if the topics are not known.
    """
    fixed = dict(definition.repartition_topics)
    existing = {
        topic: partition_counts[name]
        for topic in fixed
        if (name := definition.full_topic(topic, application_id)) in partition_counts
    }
    assumptions: list[str] = []
    # determine one topic's count at a time, because the counts of other topics may follow from this topic's count
    for _ in existing:
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
    return fixed, tuple(assumptions)


def _counted(
    definition: TopologyDefinition, application_id: str, partition_counts: Mapping[str, int]
) -> Mapping[str, int]:
    """Returns the partition counts that Kafka would give to the repartition topics if it had to create all of them. The
    result is empty if Kafka would refuse the topics.
    """
    internal = {definition.full_topic(topic, application_id) for topic in definition.repartition_topics}
    topics = {name: count for name, count in partition_counts.items() if name not in internal}
    try:
        return _prepared(assemble(definition, application_id), topics)
    except KafkaError:
        return {}


def _prepared(topology: GroupTopology, partition_counts: Mapping[str, int]) -> Mapping[str, int]:
    """Returns the partition counts of all repartition topics. Raises KafkaError."""
    cluster = Cluster((), {name: TopicMetadata(count) for name, count in partition_counts.items()})
    return prepare_repartition_topics(topology, cluster, InternalTopicCatalog(), AssignmentConfigs()).ready
