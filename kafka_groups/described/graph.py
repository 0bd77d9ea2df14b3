"""Makes the node graph of a described topology. The graph has the nodes and the internal topics. Parents stand before
their children.

The text of `Topology#describe` shows topic names without the application id. A topic is assumed to be internal if the
topology writes and reads it, and the DSL may have generated its name. There is one exception: if the cluster has a
topic with exactly the printed name, this topic is assumed to belong to the user. A source with a pattern reads the
topics of the cluster that match the pattern.
Source: `InternalTopologyBuilder.addInternalTopic`, `SourceNodeFactory.topics`,
`KStreamImpl.REPARTITION_TOPIC_SUFFIX`, `KTableImpl.doJoinOnForeignKey`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from assignor.errors import InputError
from assignor.topology.definition import (
    GlobalStore,
    Node,
    ProcessorNode,
    SinkNode,
    SourceNode,
    TopologyDefinition,
    node_groups,
)
from assignor.topology.source_patterns import matching
from kafka_groups.described.text import ReadNode, ReadSubtopology

_NAME = re.compile(
    r".+-repartition|KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d{10}-topic"
    r"|.+-subscription-(?:registration|response)-topic",
    re.ASCII,
)


def is_repartition_name(topic: str) -> bool:
    """Returns True if the DSL may have generated this name for an internal topic. The DSL generates names that end with
    `-repartition`, and names for the two internal topics of a foreign-key join. `topic`: the topic's name without the
    application id.
    """
    return _NAME.fullmatch(topic) is not None


_NUMBER = re.compile(r"-(\d{10})\Z", re.ASCII)


def described_graph(
    read: Sequence[ReadSubtopology], application_id: str, partition_counts: Mapping[str, int] | None
) -> tuple[TopologyDefinition, tuple[str, ...]]:
    """Returns a definition of the topology, and the assumptions. The definition still lacks the stores and the
    partition counts of repartition topics. Raises InputError if the numbers of the subtopologies differ from Kafka's
    numbers. Also raises InputError if a source has a pattern and the topics of the cluster are not known.
    """
    topics = dict(_source_topics(read, partition_counts))
    nodes = _nodes(read, topics)
    assumptions = [*_source_assumptions(read, topics), *_sink_assumptions(read)]
    internal = _internal_topics(nodes, application_id, partition_counts or {}, assumptions)
    definition = TopologyDefinition(nodes, {}, _global_stores(read), dict.fromkeys(internal), ())
    _check_groups(read, definition)
    return definition, tuple(assumptions)


def _nodes(read: Sequence[ReadSubtopology], topics: Mapping[str, tuple[str, ...]]) -> dict[str, Node]:
    """Returns the nodes in an order in which parents stand before their children. If this rule allows several orders,
    nodes with generated names are sorted by the numbers in their names. A node that the user has named stands right
    after its parents.
    """
    nodes: dict[str, Node] = {}
    added: dict[str, int] = {}
    for subtopology in read:
        waiting = list(subtopology.nodes)
        while waiting:
            ready = [node for node in waiting if all(parent in nodes for parent in node.parents)]
            if not ready:
                raise InputError(f"{waiting[0].name} is among the nodes before itself", f"line {waiting[0].line}")
            numbers = {node.name: _number(node, added) for node in ready}
            node = min(ready, key=lambda each: numbers[each.name])
            waiting.remove(node)
            added[node.name] = numbers[node.name]
            nodes[node.name] = _as_node(node, topics)
    return nodes


def _number(node: ReadNode, added: Mapping[str, int]) -> int:
    match = _NUMBER.search(node.name)
    return max((added[parent] for parent in node.parents), default=-1) if match is None else int(match[1])


def _as_node(node: ReadNode, topics: Mapping[str, tuple[str, ...]]) -> Node:
    if node.kind == "Source":
        return SourceNode(node.name, topics[node.name])
    if node.kind == "Processor":
        return ProcessorNode(node.name, node.parents, node.items)
    return SinkNode(node.name, node.parents, node.items[0] if node.items else "")


def _global_stores(read: Sequence[ReadSubtopology]) -> dict[str, GlobalStore]:
    stores: dict[str, GlobalStore] = {}
    for source, processor in (each.nodes for each in read if each.of_global_store):
        name = processor.items[0] if processor.items else processor.name
        stores[name] = GlobalStore(name, source.name, source.items[0], processor.name)
    return stores


def _source_topics(
    read: Sequence[ReadSubtopology], partition_counts: Mapping[str, int] | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for node in (node for each in read for node in each.nodes if node.kind == "Source"):
        # Text without brackets is ambiguous. An old release prints a list of topics without brackets, and a pattern can
        # look like a list.
        if node.pattern is None or (
            node.items and (partition_counts is None or all(topic in partition_counts for topic in node.items))
        ):
            yield node.name, node.items
        elif partition_counts is None:
            raise InputError(
                f"{node.name} reads by pattern, so the topics of the cluster are needed", f"line {node.line}"
            )
        else:
            yield node.name, _fitting(node, node.pattern, partition_counts) or node.items


def _fitting(node: ReadNode, pattern: str, partition_counts: Mapping[str, int]) -> tuple[str, ...]:
    try:
        return matching(pattern, partition_counts)
    except re.error as error:
        raise InputError(f"the pattern of {node.name} cannot be read here: {error}", f"line {node.line}") from None


def _source_assumptions(read: Sequence[ReadSubtopology], topics: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for node in (node for each in read for node in each.nodes if node.kind == "Source"):
        if node.pattern is not None and topics[node.name] != node.items:
            now = ", ".join(topics[node.name]) or "none"
            yield f"source {node.name} reads by pattern; the topics of the cluster that fit it now are: {now}"


def _sink_assumptions(read: Sequence[ReadSubtopology]) -> Iterator[str]:
    for node in (node for each in read for node in each.nodes if node.by_record):
        yield f"sink {node.name} chooses a topic for each record: assumed to be writing to no internal topic"


def _internal_topics(
    nodes: Mapping[str, Node], application_id: str, topics: Mapping[str, int], assumptions: list[str]
) -> list[str]:
    """Returns the names of the internal topics, without the application id. Appends its assumptions to the list
    `assumptions`.
    """
    read = {topic for node in nodes.values() if isinstance(node, SourceNode) for topic in node.topics}
    written = dict.fromkeys(node.topic for node in nodes.values() if isinstance(node, SinkNode) and node.topic)
    internal: list[str] = []
    for topic in written:
        by_name = is_repartition_name(topic)
        there, prefixed = topic in topics, f"{application_id}-{topic}" in topics
        if topic not in read:
            if by_name and not there:
                assumptions.append(
                    f"topic {topic} is written and never read: assumed to be the user's own, unless the text is cut off"
                )
        elif by_name and there and not prefixed:
            assumptions.append(f"topic {topic} is on the cluster under just that name: assumed to be the user's own")
        elif by_name:
            internal.append(topic)
        elif prefixed and not there:
            internal.append(topic)
            assumptions.append(
                f"topic {topic} is on the cluster as {application_id}-{topic} only: assumed to be internal"
            )
    return internal


def _check_groups(read: Sequence[ReadSubtopology], definition: TopologyDefinition) -> None:
    groups = [frozenset(names) for names in node_groups(definition).values()]
    for subtopology in read:
        names = frozenset(node.name for node in subtopology.nodes)
        if groups[subtopology.id : subtopology.id + 1] != [names]:
            raise InputError(
                f"the nodes of Sub-topology: {subtopology.id} are not all connected, or are connected with those of "
                "another one, which Kafka never prints",
                f"line {subtopology.line}",
            )
