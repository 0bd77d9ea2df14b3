"""Makes the group's topology from the node graph: subtopologies with topics and stores, and co-partitioned groups.

Topics have the iteration order of the JVM's collections, because tasks and partition counts depend on this order.
Source: `InternalTopologyBuilder.subtopologyToTopicsInfo`, `copartitionGroups`, `validateCopartition`, `decorateTopic`.
"""

from collections.abc import Sequence

from assignor.errors import TopologyError
from assignor.java.hash_codes import int32, string_hash
from assignor.java.order import hash_set_copy_order, hash_set_order
from assignor.names.legal_names import is_legal_name
from assignor.topology.definition import ProcessorNode, SinkNode, StoreDefinition, TopologyDefinition, node_groups
from assignor.topology.group_topology import GroupTopology, RepartitionTopic, Subtopology, SubtopologyStore


def assemble(definition: TopologyDefinition, application_id: str) -> GroupTopology:
    """Returns the group's topology. Raises TopologyError if co-partitioned topics have different fixed counts, or if
    the name of an internal topic is not legal in Kafka. Also raises TopologyError if a store uses a source topic as
    changelog, and the store's subtopology does not read this topic.
    """
    _check_fixed_counts(definition)
    global_nodes = definition.global_nodes()
    subtopologies = tuple(
        _subtopology(definition, application_id, group_id, nodes)
        for group_id, nodes in node_groups(definition).items()
        if global_nodes.isdisjoint(nodes)
    )
    return GroupTopology(subtopologies, _copartition_groups(definition, application_id))


def _subtopology(
    definition: TopologyDefinition, application_id: str, group_id: int, nodes: Sequence[str]
) -> Subtopology:
    walk = hash_set_order(nodes, string_hash)
    short_sources = [topic for name in walk for topic in definition.source_topics(name)]
    sinks = [
        node.topic for node in map(definition.nodes.__getitem__, walk) if isinstance(node, SinkNode) and node.topic
    ]

    def full(topic: str) -> str:
        return definition.full_topic(topic, application_id)

    repartition = {
        full(topic): definition.repartition_topics[topic] for topic in short_sources if _is_internal(definition, topic)
    }
    for name in repartition:
        _check_topic_name(name)
    read = {topic for name in definition.nodes for topic in definition.source_topics(name)}
    return Subtopology(
        id=group_id,
        source_topics=tuple(hash_set_order(map(full, short_sources), string_hash)),
        repartition_source_topics=tuple(
            RepartitionTopic(name, repartition[name]) for name in hash_set_order(repartition, string_hash)
        ),
        sink_topics=tuple(hash_set_order(map(full, sinks), string_hash)),
        repartition_sink_topics=tuple(
            hash_set_order(
                [full(topic) for topic in sinks if _is_internal(definition, topic) and topic in read], string_hash
            )
        ),
        stores=tuple(_state_store(store, application_id, short_sources) for store in _stores_of(definition, nodes)),
        source_patterns=tuple(pattern for name in nodes for pattern in definition.source_patterns(name)),
    )


def _is_internal(definition: TopologyDefinition, topic: str) -> bool:
    return topic in definition.repartition_topics


def _stores_of(definition: TopologyDefinition, nodes: Sequence[str]) -> list[StoreDefinition]:
    used = {
        store
        for node in map(definition.nodes.__getitem__, nodes)
        if isinstance(node, ProcessorNode)
        for store in node.stores
    }
    return [store for name, store in definition.stores.items() if name in used]


def _state_store(store: StoreDefinition, application_id: str, sources: Sequence[str]) -> SubtopologyStore:
    if store.source_topic is not None:
        if store.source_topic not in sources:
            raise TopologyError(
                f"Invalid topology: Topic {store.source_topic} serves as changelog of StateStore {store.name}, "
                "but its subtopology does not read it."
            )
        return SubtopologyStore(store.name, None, store.source_topic, store.changelog)
    if store.changelog is None:
        return SubtopologyStore(store.name)
    topic = f"{application_id}-{store.name}-changelog"
    _check_topic_name(topic)
    return SubtopologyStore(store.name, topic, None, store.changelog)


def _check_topic_name(topic: str) -> None:
    """Raises TopologyError for an illegal topic name. Differs from Kafka: Kafka throws InvalidTopicException."""
    if not is_legal_name(topic):
        raise TopologyError(
            f"Invalid topology: {topic!r} is not a legal topic name: "
            "at most 249 letters, digits, dots, underscores and hyphens"
        )


def _check_fixed_counts(definition: TopologyDefinition) -> None:
    for group in definition.copartitioned_sources:
        counts = {
            topic: definition.repartition_topics.get(topic)
            for name in group
            for topic in definition.source_topics(name)
        }
        if None not in counts.values() and len(set(counts.values())) > 1:
            text = ", ".join(f"{topic}={count}" for topic, count in sorted(counts.items()))
            raise TopologyError(
                f"Invalid topology: Following topics do not have the same number of partitions: [{{{text}}}]"
            )


def _copartition_groups(definition: TopologyDefinition, application_id: str) -> tuple[tuple[str, ...], ...]:
    """Returns the co-partitioned groups of topics. If a group shares a topic with an earlier group, it is merged into
    the earlier group. As in Kafka, if a group shares topics with several earlier groups, it is merged only into the
    group that Kafka finds first.
    """
    groups: list[list[str]] = []
    group_of: dict[str, int] = {}
    for sources in definition.copartitioned_sources:
        topics = hash_set_order(
            [
                definition.full_topic(topic, application_id)
                for name in hash_set_copy_order(sources, string_hash)
                for topic in (*definition.source_topics(name), *definition.source_patterns(name))
            ],
            string_hash,
        )
        index = next((group_of[topic] for topic in topics if topic in group_of), None)
        if index is None:
            index = len(groups)
            groups.append([])
        groups[index].extend(topic for topic in topics if topic not in groups[index])
        group_of.update(dict.fromkeys(topics, index))
    hashes = [int32(sum(map(string_hash, group))) for group in groups]
    walk = hash_set_copy_order(list(group_of.values()), hashes.__getitem__)
    return tuple(tuple(hash_set_order(groups[index], string_hash)) for index in walk)
