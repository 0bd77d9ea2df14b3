"""Which sources of a described topology are co-partitioned: the joins, told by the stores that both sides use.

Every co-partitioning join of the DSL (streams, tables, a stream with a table, by foreign key, cogroup) gives a store
that is filled below one source to a processor below another. So: when a processor uses a store whose first user has
other sources above it, the sources of both belong together. A merge, or an aggregate behind it, does not make such a
pair. A processor of the user's own that shares a store does, though Kafka asks nothing of its topics; when the
cluster's counts differ, Kafka cannot have asked for them to be equal, and the pair is left out. It stays when
the processor has a name that only joins of the DSL get: the topics have gone apart since, and Kafka throws. Differs
from Kafka: of a cogroup, it takes the topics before they are repartitioned, here it is those after, which get the same
counts. Source: `AbstractStream.ensureCopartitionWith`, `InternalTopologyBuilder.copartitionSources`.
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
"""How names of joins begin that need equal counts; those by foreign key do not."""


@dataclass(frozen=True, slots=True)
class CopartitionedSources:
    """`sources`: groups of source nodes, in the order in which the joins were added."""

    sources: tuple[tuple[str, ...], ...]
    assumptions: tuple[str, ...]


def copartitioned_sources(
    definition: TopologyDefinition, application_id: str, partition_counts: Mapping[str, int]
) -> CopartitionedSources:
    """`partition_counts`: topics of the cluster by full name, empty when not known."""
    groups: dict[frozenset[str], tuple[str, ...]] = {}
    refused: dict[frozenset[str], str] = {}
    for sources, store, user in _sharing(definition):
        topics = [
            definition.full_topic(topic, application_id) for name in sources for topic in definition.source_topics(name)
        ]
        counts = {partition_counts[topic] for topic in topics if topic in partition_counts}
        if len(counts) > 1 and not user.startswith(_JOINS):
            text = f"{', '.join(sorted(topics))} differ in partitions: taken as not co-partitioned (store {store})"
            refused.setdefault(frozenset(sources), text)
        else:
            groups.setdefault(frozenset(sources), sources)
    return CopartitionedSources(tuple(groups.values()), tuple(refused.values()))


def _sharing(definition: TopologyDefinition) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Sources that belong together, with the store and its user that say so, in the order of the joins."""
    above = _sources_above(definition)
    global_nodes = definition.global_nodes()
    first_user: dict[str, str] = {}
    for name, node in definition.nodes.items():
        for store in node.stores if isinstance(node, ProcessorNode) and name not in global_nodes else ():
            owner = first_user.setdefault(store, name)
            if set(above[owner]) != set(above[name]):
                yield tuple(dict.fromkeys((*above[name], *above[owner]))), store, name


def _sources_above(definition: TopologyDefinition) -> dict[str, tuple[str, ...]]:
    """The source nodes from which the records of a node come, itself if it is one."""
    above: dict[str, tuple[str, ...]] = {}
    for name, node in definition.nodes.items():  # parents come first
        if isinstance(node, SourceNode):
            above[name] = (name,)
        else:
            above[name] = tuple(dict.fromkeys(source for parent in node.parents for source in above[parent]))
    return above
