"""DSL calls add nodes to a graph (`StreamsGraph`). A `Stage` is the position of a stream or table in this graph.

The input and the result of an operation are stages. A stage never changes, so several operations can be applied to one
stream. In the topology, each node comes after all its parents.

The topology's nodes must have the same order as in Kafka, because stores and subtopologies are numbered in this order.
Source: `AbstractStream`, `InternalStreamsBuilder.addGraphNode`, `buildAndOptimizeTopology`,
`mergeDuplicateSourceNodes`, `NodesWithRelaxedNullKeyJoinDownstream`. Differs from Kafka: if one source or repartition
topic replaces others, the groups of co-partitioned sources contain the replacement. In Kafka, the groups contain a
source that was removed.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from assignor.errors import TopologyError
from streams_runtime.common.records import K2, V2, K, V
from streams_runtime.configs import MERGE_REPARTITION_TOPICS, REUSE_KTABLE_SOURCE_TOPICS, SINGLE_STORE_SELF_JOIN
from streams_runtime.dsl.graph_nodes import GraphNode, StreamSourceNode, TableNode, TableSourceNode
from streams_runtime.dsl.naming import Naming
from streams_runtime.dsl.repartitioning import RepartitionMerging, RepartitionNode, nodes_above
from streams_runtime.dsl.table_operators import TableOperator
from streams_runtime.processors.topology import Topology, store_names
from streams_runtime.serdes import Serde


class StreamsGraph:
    """The graph of one `StreamsBuilder`. `naming`: generates the names of nodes and stores."""

    def __init__(self) -> None:
        self.naming = Naming()
        self._root = GraphNode("root")
        self._nodes: list[GraphNode] = []
        self._last_priority = -1
        self._merging = RepartitionMerging(self.naming)
        self._copartitioned: list[list[str]] = []
        self._topology: Topology | None = None

    def add(self, node: GraphNode, parents: Iterable[GraphNode] | None = None) -> None:
        """Adds a node to the graph. `parents`: None to link the node to the root. Raises TopologyError if the topology
        is already built.
        """
        if self._topology is not None:
            raise TopologyError("Invalid topology: it is built already, and later calls cannot change it")
        self._nodes.append(node)
        for parent in (self._root,) if parents is None else parents:
            parent.add_child(node)
            self._last_priority += 1
            node.priority = self._last_priority
            self._merging.note(node)  # remember the node for the optimization of repartition topics

    def copartition(self, sources: Iterable[str]) -> None:
        """Adds the rule that the topics of some source nodes must have the same number of partitions. `sources`: the
        names of the nodes.
        """
        self._copartitioned.append(list(sources))

    def build(self, optimizations: frozenset[str]) -> Topology:
        """Returns the topology. All calls of `build` return the same object."""
        if self._topology is None:
            renamed = self._merge_equal_sources()
            if REUSE_KTABLE_SOURCE_TOPICS in optimizations:
                self._reuse_topics_of_tables()
            if MERGE_REPARTITION_TOPICS in optimizations:
                renamed.update(self._merging.merge())
            if SINGLE_STORE_SELF_JOIN in optimizations:
                for node in self._nodes:
                    node.use_one_store()
            self._let_null_keys_through()
            self._topology = self._make_topology()
            self._topology.optimizations = optimizations
            self._topology.without_names = self.naming.without_names(self._topology.definition())
            for group in self._copartitioned:
                self._topology.copartition(dict.fromkeys(renamed.get(name, name) for name in group))
        return self._topology

    def _make_topology(self) -> Topology:
        """Makes the topology. Each node adds itself to the topology after its parents. If several nodes can be added
        next, the node with the lowest priority is added. The resulting order of nodes is Kafka's.

        A node is queued once, when its last parent has been added. Kafka queues a node once for each path from the root
        to the node. So Kafka needs more steps if the graph has many paths.
        """
        topology = Topology()
        queue = [(self._root.priority, 0, self._root)]
        # counts the queued nodes; of two nodes with equal priority, the node that was queued first is added first
        offered = 0
        # for each node: the number of its parents that are not in the topology yet
        unwritten_parents: dict[GraphNode, int] = {}
        while queue:
            node = heapq.heappop(queue)[2]
            node.write(topology)
            for child in node.children:
                # each parent is added once, so if this number is 0, all parents of the child are in the topology
                unwritten_parents[child] = unwritten_parents.get(child, len(child.parents)) - 1
                if unwritten_parents[child] == 0:
                    offered += 1
                    heapq.heappush(queue, (child.priority, offered, child))
        return topology

    def _merge_equal_sources(self) -> dict[str, str]:
        """If several streams read the same topics, only the source of the first stream stays in the graph. The other
        streams are linked to this source. Returns a mapping from the name of each removed source to the name of the
        source that replaces it.
        """
        first: dict[str | re.Pattern[str], StreamSourceNode] = {}
        renamed: dict[str, str] = {}
        for node in list(self._root.children):
            if not isinstance(node, StreamSourceNode):
                continue
            read = node.topics if node.pattern is None else (node.pattern,)
            kept = next((first[topic] for topic in read if topic in first), None)
            if kept is None:
                first.update(dict.fromkeys(read, node))
                continue
            if set(kept.topics) != set(node.topics):
                raise TopologyError(
                    "Invalid topology: Two source nodes are subscribed to overlapping but not equal input topics"
                )
            if kept.auto_offset_reset != node.auto_offset_reset:
                raise TopologyError(
                    "Invalid topology: Can't configure different offset reset policies on the same input topic(s)"
                )
            for child in list(node.children):
                node.remove_child(child)
                kept.add_child(child)
            self._root.remove_child(node)
            renamed[node.name] = kept.name
        return renamed

    def _reuse_topics_of_tables(self) -> None:
        for node in self._root.children:
            if isinstance(node, TableSourceNode):
                node.reuses_topic = True

    def _let_null_keys_through(self) -> None:
        """Sets `keeps_null_keys` for the repartition topics above left and outer joins of streams. Such a join also
        needs the records without key.
        """
        for join in [node for node in self._nodes if node.takes_null_keys]:
            for node in nodes_above(join):
                if isinstance(node, RepartitionNode):
                    node.keeps_null_keys = True


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class Stage(Generic[K, V]):
    """The position of a stream or table in the graph: its newest node, and the known properties of the records at this
    node.

    `sources`: the names of the source nodes of the stream's subtopology, which co-partitioning needs. `key_serde`,
    `value_serde`: the serdes of the records; None if no call has given a serde yet. `repartition_required`: True if
    keys may have changed since the records were read from a topic.
    """

    graph: StreamsGraph
    node: GraphNode
    sources: tuple[str, ...]
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    repartition_required: bool = False

    @property
    def name(self) -> str:
        """The name of the stage's node in the topology."""
        return self.node.name

    def then(self, node: GraphNode) -> Stage[K, V]:
        """Adds a node below the node of this stage. Returns the stage of the new node, with the same serdes."""
        self.graph.add(node, [self.node])
        return replace(self, node=node)

    def repartitioned(self, node: GraphNode) -> Stage[K, V]:
        """Adds a repartition topic. Returns the stage that reads the topic."""
        return self.then(node).reading(node)

    def reading(self, node: GraphNode) -> Stage[K, V]:
        """Returns the stage that reads a repartition topic of this stream. The topic's node is already in the graph."""
        return replace(self, node=node, sources=(node.name,), repartition_required=False)

    def make_table(
        self,
        name: str,
        operator: TableOperator,
        key_serde: Serde[K2] | None,
        value_serde: Serde[V2] | None,
        stores: Sequence[str] = (),
    ) -> TableStage[K2, V2]:
        """Adds a node that makes a table. `stores`: the names of the user's stores that the node reads and changes.
        Returns the stage of the table.
        """
        node = TableNode(name, operator, connected_stores=store_names(stores))
        self.graph.add(node, [self.node])
        return TableStage(self.graph, node, self.sources, key_serde, value_serde, operator=operator)

    def with_serdes(self, key_serde: Serde[K] | None, value_serde: Serde[V] | None) -> Stage[K, V]:
        """Returns a copy of this stage with these serdes. If an argument is None, the copy has this stage's serde."""
        return replace(self, key_serde=key_serde or self.key_serde, value_serde=value_serde or self.value_serde)

    def joined_sources(self, other: Stage[Any, Any]) -> tuple[str, ...]:
        """Returns the sources of both stages, without duplicates.

        Raises TopologyError if the two stages come from different builders. Differs from Kafka: for stages of different
        builders, Kafka builds a topology without some of the nodes.
        """
        if other.graph is not self.graph:
            raise TopologyError(f"Invalid topology: {self.name} and {other.name} come from different builders")
        return tuple(dict.fromkeys((*self.sources, *other.sources)))

    def copartition_with(self, other: Stage[K, Any]) -> tuple[str, ...]:
        """Adds the rule that the topics of both stages must have the same number of partitions. Returns the sources of
        both stages.
        """
        sources = self.joined_sources(other)
        self.graph.copartition(sources)
        return sources


@dataclass(frozen=True)
class TableStage(Stage[K, V]):
    """The stage of a table. `operator`: makes the table's receivers, and the functions that read the table."""

    operator: TableOperator = field(kw_only=True)
