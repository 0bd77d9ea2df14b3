"""Global tables, and the joins of streams with them.

Every instance has a global table with the records of all partitions of a topic. So a stream can be joined with it by
any key, and the topics of stream and table need not have the same number of partitions. A join makes results only for
records of the stream. In the order of a topology, a global table has two nodes, which belong to no task.
Source: `GlobalKTable`, `TableSourceNode` with `isGlobalKTable`, `GlobalStoreNode`, `KStreamGlobalKTableJoin`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic

from assignor.errors import IllegalArgumentError, TopologyError
from streams_runtime.common.records import K, V
from streams_runtime.dsl.graph_nodes import GraphNode, ProcessorGraphNode, StreamSourceNode
from streams_runtime.dsl.joins import Joiner, TableLookup, joining_found
from streams_runtime.dsl.materialized import StoreArgument, StoreFactory, checked_settings
from streams_runtime.dsl.stream_processors import StreamOperator
from streams_runtime.dsl.streams_graph import Stage, StreamsGraph
from streams_runtime.dsl.table_operators import KTableSource, stored_getter
from streams_runtime.processors.context import NodeContext, NodeSupplier, Receiver
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes.defaults import DefaultSerde
from streams_runtime.state_stores.state_store import StoreBuilder

Selector = Callable[[Any, Any], Any]
"""The type of a function (key, value) that returns the key of a stream's record in the global table."""


class GlobalKTable(Generic[K, V]):
    """A table of which every instance has all entries. `StreamsBuilder.global_table` makes global tables, and
    `KStream.join` and `KStream.left_join` join a stream with them. `store_name`: the name of the table's store.
    """

    def __init__(self, store_name: str, graph: StreamsGraph) -> None:
        self.store_name = store_name
        self._graph = graph

    def join(
        self, stream: Stage[Any, Any], selector: Selector, joiner: Joiner, *, left: bool, name: str | None
    ) -> Stage[Any, Any]:
        """Adds a join of a stream with this table, for `KStream.join` and `KStream.left_join`. The stream is not
        repartitioned. The generated name of an inner join also has the prefix of a left join, as in Kafka. Raises
        TopologyError if stream and table come from different builders.
        """
        if stream.graph is not self._graph:
            raise TopologyError(
                f"Invalid topology: {stream.name} and global table {self.store_name} come from different builders"
            )
        operator = StreamOperator(joining_global_table, self.store_name, selector, joiner, left)
        node = ProcessorGraphNode(stream.graph.naming.name_or_generated(name, "KSTREAM-LEFTJOIN-"), operator)
        node.takes_null_keys = left
        return replace(stream.then(node), value_serde=None)


@dataclass(eq=False, repr=False)
class GlobalStoreNode(GraphNode):
    """A global store with its source and its processor."""

    builder: StoreBuilder
    source: StreamSourceNode
    supplier: NodeSupplier

    def write(self, topology: Topology) -> None:
        topology.add_global_store(
            self.builder,
            self.source.name,
            self.source.topics[0],
            self.name,
            self.supplier,
            key_serde=self.source.key_serde or DefaultSerde("key", self.source.name),
            value_serde=self.source.value_serde or DefaultSerde("value", self.source.name),
        )


def add_global_table(
    graph: StreamsGraph, source: StreamSourceNode, store: StoreArgument, name: str | None
) -> GlobalKTable[Any, Any]:
    """Adds a global table. `source`: the source of the table, which gets its name from this function. Raises
    IllegalArgumentError for a Materialized without a name, and TopologyError for a versioned one.
    """
    settings, topic = checked_settings(store), source.topics[0]
    if settings.is_versioned:
        raise TopologyError("Invalid topology: GlobalTables cannot be versioned.")
    if store is not None and settings.name is None:
        raise IllegalArgumentError(
            f"The Materialized of the global table of topic {topic} needs the name of the store."
        )
    store_name = settings.name or graph.naming.store(f"{topic}-")
    factory = StoreFactory(store_name, source.key_serde, source.value_serde, settings)
    add_global_store(graph, factory.builder(), source, KTableSource(factory, kept=True), name)
    return GlobalKTable(store_name, graph)


def add_global_store(
    graph: StreamsGraph, builder: StoreBuilder, source: StreamSourceNode, supplier: NodeSupplier, name: str | None
) -> None:
    """Adds a global store. `source`: the source of the store, which gets its name from this function. `name`: the name
    of the processor that fills the store.
    """
    source.name = graph.naming.name_or_generated(name, "KSTREAM-SOURCE-", "-source")
    graph.add(GlobalStoreNode(graph.naming.name_or_generated(name, "KTABLE-SOURCE-"), builder, source, supplier))


def joining_global_table(
    store: str, selector: Selector, joiner: Joiner, is_left: bool, child: Receiver, context: NodeContext
) -> Receiver:
    """Joins each record with the entry of the table whose key `selector` returns. See `joining_found`."""
    lookup = TableLookup(stored_getter(context, store, flushed=False), selector=selector)
    return joining_found(lookup, joiner, is_left, child, context)
