"""A parsed topology out of the text that Java's `Topology#describe` prints.

The text has the nodes, their edges, stores and topics under the names that the user knows. It does not have what
Kafka's builder was told besides: which topics are internal, which stores are logged and how, which sources are
co-partitioned, and fixed partition counts. What follows from the graph, from the names that the DSL gives, or from the
topics that the cluster has is taken from there; whatever else had to be assumed is said. Source:
`InternalTopologyBuilder.subtopologyToTopicsInfo`, and `KStreamImpl`, `KTableImpl` for what the DSL makes of a call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from assignor.errors import InputError, TopologyError
from assignor.topology.assembly import assemble
from assignor.topology.described.copartition import copartitioned_sources
from assignor.topology.described.graph import described_graph
from assignor.topology.described.repartition import repartition_counts
from assignor.topology.described.stores import StoreOptions, described_stores
from assignor.topology.described.text import read_description
from assignor.topology.group_topology import GroupTopology


@dataclass(frozen=True, slots=True)
class DescribedTopology:
    """`assumptions`: in plain words, one each, what could not be told for sure and what was taken instead."""

    topology: GroupTopology
    assumptions: tuple[str, ...] = ()


def topology_from_description(
    text: str,
    application_id: str,
    partition_counts: Mapping[str, int] | None = None,
    *,
    not_logged: Collection[str] = (),
    source_changelogs: Mapping[str, str] | None = None,
    retention_ms: Mapping[str, int] | None = None,
    has_run: bool = False,
    creates_missing: bool = False,
) -> DescribedTopology:
    """The topology as Kafka's leader has it, with the application id in front of internal topics.

    `partition_counts`: all topics of the cluster; without them every store is taken as logged. `has_run`: the group has
    been through a rebalance, so a changelog that is not there is not wanted, even when none is. `creates_missing`: the
    caller creates topics that are not there, so a changelog that is not there is one still to be made. By store:
    `not_logged`, `source_changelogs` (the source topic that serves as changelog), `retention_ms` (of windowed ones).
    Raises InputError: with the line for text that is no description, and for options that do not fit it.
    """
    graph = described_graph(read_description(text), application_id, partition_counts)
    counts = partition_counts or {}
    options = StoreOptions(frozenset(not_logged), source_changelogs or {}, retention_ms or {}, creates_missing)
    stores = described_stores(graph.definition, application_id, partition_counts, has_run, options)
    groups = copartitioned_sources(graph.definition, application_id, counts)
    definition = replace(graph.definition, stores=stores.definitions, copartitioned_sources=groups.sources)
    try:
        repartition = repartition_counts(definition, application_id, counts)
        topology = assemble(replace(definition, repartition_topics=repartition.fixed), application_id)
    except TopologyError as error:
        raise InputError(str(error), "topology") from None
    return DescribedTopology(
        _as_led(topology),
        (
            *graph.assumptions,
            *stores.assumptions,
            *groups.assumptions,
            *_said_of_groups(topology),
            *repartition.assumptions,
        ),
    )


def _as_led(topology: GroupTopology) -> GroupTopology:
    """A subtopology whose patterns fit no topic has no tasks, and Kafka's leader does not see it; nor does it see the
    topic of a sink that chooses it record by record."""
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
        yield f"taken as co-partitioned, because processors behind them share a store, as joins do: {groups}"
