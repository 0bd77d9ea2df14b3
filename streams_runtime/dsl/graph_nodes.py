"""The nodes that DSL calls add to the graph. When the topology is built, the graph calls the method `write` of each
node, parents before children.

The graph is separate from the topology, because a DSL call can change nodes of earlier calls. For example, a join adds
a store to its input table. The option `optimize` also changes nodes: it moves repartition topics. Source: `GraphNode`
and the other classes of `kstream.internals.graph`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from streams_runtime.dsl.joins import KTableKTableJoin
from streams_runtime.dsl.table_operators import TableOperator
from streams_runtime.logs.base import OffsetReset
from streams_runtime.processors.api import StreamPartitioner, TimestampExtractor, TopicNameExtractor
from streams_runtime.processors.context import NodeSupplier
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import Serde
from streams_runtime.serdes.defaults import DefaultSerde
from streams_runtime.state_stores.state_store import StoreBuilder


@dataclass(eq=False, repr=False)
class GraphNode:
    """A node of the graph, which may add several nodes to the topology.

    `name`: the name of the last topology node that this node adds. The children's topology nodes are linked to this
    topology node. `priority`: determines the order in which nodes are added to the topology. Of all nodes whose parents
    have been added, the node with the lowest priority is added next. `StreamsGraph.add` assigns the priorities 0, 1, 2,
    ...; the root has the priority -1. `changes_key`: True if this node may change keys. `changes_value`: True if this
    node may change values. The option `optimize` uses `changes_key` and `changes_value` to find the repartition topics
    that one topic can replace. `takes_null_keys`: True only for a left or outer join of a stream, because this join
    needs records without key. `children` and `parents` are in the order in which the nodes were linked.
    """

    name: str
    changes_key: bool = field(default=False, kw_only=True)
    changes_value: bool = field(default=False, kw_only=True)
    takes_null_keys: bool = field(default=False, init=False)
    priority: int = field(default=-1, init=False)
    children: dict[GraphNode, None] = field(default_factory=dict, init=False)
    parents: dict[GraphNode, None] = field(default_factory=dict, init=False)

    def add_child(self, child: GraphNode) -> None:
        self.children[child] = None
        child.parents[self] = None

    def remove_child(self, child: GraphNode) -> None:
        self.children.pop(child, None)
        child.parents.pop(self, None)

    def parent_names(self) -> tuple[str, ...]:
        return tuple(parent.name for parent in self.parents)

    def use_one_store(self) -> None:
        """Called for the option `single.store.self.join`. Only a join of a stream with itself changes."""

    def write(self, topology: Topology) -> None:
        """Adds the topology nodes and stores of this node to the topology. The root of the graph adds no topology node
        and no store.
        """


@dataclass(eq=False, repr=False)
class StreamSourceNode(GraphNode):
    """A source. `pattern`: the pattern that its topics match; None if it names its topics."""

    topics: tuple[str, ...]
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    timestamp_extractor: TimestampExtractor | None
    auto_offset_reset: OffsetReset | str | None
    pattern: re.Pattern[str] | None = None

    def write(self, topology: Topology) -> None:
        topology.add_source(
            self.name,
            self.pattern or self.topics,
            key_serde=self.key_serde or DefaultSerde("key", self._described()),
            value_serde=self.value_serde or DefaultSerde("value", self._described()),
            timestamp_extractor=self.timestamp_extractor,
            auto_offset_reset=self.auto_offset_reset,
        )

    def _described(self) -> str:
        read = self.topics if self.pattern is None else (self.pattern.pattern,)
        return f"{self.name}, which reads {', '.join(read)},"


@dataclass(eq=False, repr=False)
class ProcessorGraphNode(GraphNode):
    """A processor. `connected_stores`: the stores of other nodes that the processor reads. `own_store`: the builder of
    the store that is added with the processor; None if the processor has none. Two processors may share one builder.
    """

    supplier: NodeSupplier
    connected_stores: Sequence[str] = field(default=(), kw_only=True)
    own_store: StoreBuilder | None = field(default=None, kw_only=True)

    def write(self, topology: Topology) -> None:
        topology.add_processor(self.name, self.supplier, self.parent_names(), stores=self.connected_stores)
        if self.own_store is not None:
            topology.add_state_store(self.own_store, self.name)


class MergeNode(ProcessorGraphNode):
    """A node that forwards the records of two streams as one stream."""


@dataclass(eq=False, repr=False)
class StateStoreNode(GraphNode):
    """A store that the user has added with `StreamsBuilder.add_state_store`."""

    builder: StoreBuilder

    def write(self, topology: Topology) -> None:
        topology.add_state_store(self.builder)


@dataclass(eq=False, repr=False)
class StreamSinkNode(GraphNode):
    topic: str | TopicNameExtractor
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    partitioner: StreamPartitioner | None

    def write(self, topology: Topology) -> None:
        described = self.name if callable(self.topic) else f"{self.name}, which writes to {self.topic},"
        topology.add_sink(
            self.name,
            self.topic,
            self.parent_names(),
            key_serde=self.key_serde or DefaultSerde("key", described),
            value_serde=self.value_serde or DefaultSerde("value", described),
            partitioner=self.partitioner,
        )


@dataclass(eq=False, repr=False)
class TableNode(GraphNode):
    """A processor whose result is a table. When the topology is built, the operator decides whether the table has a
    store. `connected_stores`: the stores of the user that the processor uses.
    """

    operator: TableOperator
    connected_stores: Sequence[str] = field(default=(), kw_only=True)

    def write(self, topology: Topology) -> None:
        _write_table(topology, self.name, self.operator, self.parent_names(), self.connected_stores)


@dataclass(eq=False, repr=False)
class TableSourceNode(TableNode):
    """A source with a processor, which makes a table from the source's records. `reuses_topic`: True if the source
    topic is also the changelog of the store.
    """

    source: StreamSourceNode
    reuses_topic: bool = field(default=False, init=False)

    def write(self, topology: Topology) -> None:
        self.source.write(topology)
        _write_table(topology, self.name, self.operator, (self.source.name,))
        if self.operator.store is not None and self.reuses_topic:
            topology.use_source_topic_as_changelog(self.operator.store.name, self.source.topics[0])


@dataclass(eq=False, repr=False)
class TableJoinNode(GraphNode):
    """A join of two tables. A join has one processor for each side. A third processor with the name `name` merges the
    results of the two sides.

    `parents_of_sides`: the names of the two tables' nodes. `stores_to_read`: for each side, the names of the stores
    from which this side reads the other table.
    """

    sides: tuple[str, str]
    join: KTableKTableJoin
    parents_of_sides: tuple[str, str]
    stores_to_read: tuple[tuple[str, ...], tuple[str, ...]]

    def write(self, topology: Topology) -> None:
        operators = (self.join.left, self.join.right)
        for side, operator, parent in zip(self.sides, operators, self.parents_of_sides, strict=True):
            topology.add_processor(side, operator, parent)
        _write_table(topology, self.name, self.join, self.sides)
        for side, stores in zip(self.sides, self.stores_to_read, strict=True):
            topology.connect_processor_and_stores(side, stores)


def _write_table(
    topology: Topology, name: str, operator: TableOperator, parents: Sequence[str], stores: Sequence[str] = ()
) -> None:
    """Adds the processor, and after it the processor's store. The order matters: as in Kafka, stores are numbered in
    the order in which they are added.
    """
    topology.add_processor(name, operator, parents, stores=stores)
    if operator.store is not None:
        topology.add_state_store(operator.store.builder(), name)
