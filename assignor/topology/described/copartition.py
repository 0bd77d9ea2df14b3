"""Which sources of a described topology are co-partitioned: joins, recognised by the stores that both sides use.

Every co-partitioning join of the DSL (streams, tables, a stream with a table, by foreign key, cogroup) gives a
processor below one source a store that is filled below another. So when a processor uses a store whose first user has
other sources above it, the sources of both are co-partitioned. A merge, or an aggregate after it, does not make such a
pair.

A user's own processor that shares a store makes one, though Kafka requires nothing of its topics. When the cluster's
counts differ, Kafka cannot have required them to be equal, and the pair is left out. It is kept when the processor has
a name that only joins of the DSL get: then the topics have changed since, and Kafka throws. Differs from Kafka: for a
cogroup Kafka takes the topics before they are repartitioned, and this code those after, which get the same counts.
Source: `AbstractStream.ensureCopartitionWith`, `InternalTopologyBuilder.copartitionSources`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assignor.topology.definition import ProcessorNode, SourceNode, TopologyDefinition

_JOINS = tuple(
    f"{kind}-{numbered}-"
    for kind, names in {
        "KSTREAM": ("JOIN", "LEFTJOIN", "JOINTHIS", "JOINOTHER", "OUTERTHIS", "OUTEROTHER"),
        "KTABLE": ("JOINTHIS", "JOINOTHER"),
    }.items()
    for numbered in names
)
"""How the names of joins begin that need equal counts; joins by foreign key do not."""


@dataclass(frozen=True, slots=True)
class CopartitionedSources:
    """`sources`: groups of source nodes, in the order in which the joins were added."""

    sources: tuple[tuple[str, ...], ...]
    assumptions: tuple[str, ...]


def copartitioned_sources(
    definition: TopologyDefinition, application_id: str, partition_counts: Mapping[str, int]
) -> CopartitionedSources:
    """`partition_counts`: topics of the cluster by full name; empty when not known."""
    groups: dict[frozenset[str], tuple[str, ...]] = {}
    refused: dict[frozenset[str], str] = {}
    for sources, store, user in _sharing(definition):
        topics = [
            definition.full_topic(topic, application_id) for name in sources for topic in definition.source_topics(name)
        ]
        counts = {partition_counts[topic] for topic in topics if topic in partition_counts}
        if len(counts) > 1 and not user.startswith(_JOINS):
            text = f"{', '.join(sorted(topics))} differ in partitions: assumed to be not co-partitioned (store {store})"
            refused.setdefault(frozenset(sources), text)
        else:
            groups.setdefault(frozenset(sources), sources)
    return CopartitionedSources(tuple(groups.values()), tuple(refused.values()))


def _sharing(definition: TopologyDefinition) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Sources that belong together, with the store and the user that show it, in the order of the joins."""
    above = _sources_above(definition)
    global_nodes = definition.global_nodes()
    first_user: dict[str, str] = {}
    for name, node in definition.nodes.items():
        for store in node.stores if isinstance(node, ProcessorNode) and name not in global_nodes else ():
            owner = first_user.setdefault(store, name)
            if set(above[owner]) != set(above[name]):
                yield tuple(dict.fromkeys((*above[name], *above[owner]))), store, name


def _sources_above(definition: TopologyDefinition) -> dict[str, tuple[str, ...]]:
    """The source nodes that a node's records come from; a source has itself."""
    above: dict[str, tuple[str, ...]] = {}
    for name, node in definition.nodes.items():  # parents come first
        if isinstance(node, SourceNode):
            above[name] = (name,)
        else:
            above[name] = tuple(dict.fromkeys(source for parent in node.parents for source in above[parent]))
    return above
