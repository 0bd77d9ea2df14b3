"""The graph of the nodes that DSL calls add, and its conversion into a topology: each node after all its parents.

The order is exactly Kafka's, because nodes, stores and subtopologies are numbered in this order. Source:
`InternalStreamsBuilder.addGraphNode`, `buildAndOptimizeTopology`, `mergeDuplicateSourceNodes`,
`NodesWithRelaxedNullKeyJoinDownstream`. Differs from Kafka: if several sources become one, or several repartition
topics, the co-partitioned groups name the source that remains. In Kafka they still name a source that was removed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from assignor.errors import TopologyError
from streams_runtime.configs import MERGE_REPARTITION_TOPICS, REUSE_KTABLE_SOURCE_TOPICS
from streams_runtime.dsl.graph_nodes import GraphNode, StreamSourceNode, TableSourceNode
from streams_runtime.dsl.naming import Naming
from streams_runtime.dsl.repartition_merging import RepartitionMerging
from streams_runtime.dsl.repartition_node import RepartitionNode
from streams_runtime.processors.topology import Topology


class StreamsGraph:
    """The graph of a `StreamsBuilder`. `naming`: gives the names of all nodes."""

    def __init__(self) -> None:
        self.naming = Naming()
        self._root = GraphNode("root")
        self._nodes: list[GraphNode] = []
        self._last_priority = -1
        self._merging = RepartitionMerging(self.naming)
        self._copartitioned: list[list[str]] = []
        self._topology: Topology | None = None

    def add(self, node: GraphNode, parents: Iterable[GraphNode] | None = None) -> None:
        """Link a node to its parents, or to the root if `parents` is None. Raises TopologyError once the topology is
        built.
        """
        if self._topology is not None:
            raise TopologyError("Invalid topology: it is built already, and later calls cannot change it")
        self._nodes.append(node)
        for parent in (self._root,) if parents is None else parents:
            parent.add_child(node)
            self._last_priority += 1
            node.priority = self._last_priority
            self._merging.note(node)  # remembers the nodes that `optimize` may merge

    def copartition(self, sources: Iterable[str]) -> None:
        """Topics of these source nodes, by name, must have the same number of partitions."""
        self._copartitioned.append(list(sources))

    def build(self, optimizations: frozenset[str]) -> Topology:
        """The topology. Each call gives the same object."""
        if self._topology is None:
            renamed = self._merge_equal_sources()
            if REUSE_KTABLE_SOURCE_TOPICS in optimizations:
                self._reuse_topics_of_tables()
            if MERGE_REPARTITION_TOPICS in optimizations:
                renamed.update(self._merging.merge())
            self._let_null_keys_through()
            self._topology = self._make_topology()
            self._topology.optimizations = optimizations
            for group in self._copartitioned:
                self._topology.copartition(dict.fromkeys(renamed.get(name, name) for name in group))
        return self._topology

    def _make_topology(self) -> Topology:
        """Let each node add itself to a new topology: parents first, and lower priorities first among the nodes whose
        parents are done. This is Kafka's order.

        A node is queued once, when its last parent is written. Kafka queues the children of a node each time that it
        reaches the node, so it takes a step for each path through the graph.
        """
        topology = Topology()
        queue = [(self._root.priority, 0, self._root)]
        offered = 0  # the number of children queued so far: of equal priorities, the node that was queued first is next
        unwritten_parents: dict[GraphNode, int] = {}  # of each node with a parent in the topology
        while queue:
            node = heapq.heappop(queue)[2]
            node.write(topology)
            for child in node.children:
                # each parent is written once, so the child is complete when this count comes to 0
                unwritten_parents[child] = unwritten_parents.get(child, len(child.parents)) - 1
                if unwritten_parents[child] == 0:
                    offered += 1
                    heapq.heappush(queue, (child.priority, offered, child))
        return topology

    def _merge_equal_sources(self) -> dict[str, str]:
        """Let streams of the same topics share the source of the first of these streams.

        Maps the name of each removed source to the name of the kept one.
        """
        first: dict[str, StreamSourceNode] = {}
        renamed: dict[str, str] = {}
        for node in list(self._root.children):
            if not isinstance(node, StreamSourceNode):
                continue
            kept = next((first[topic] for topic in node.topics if topic in first), None)
            if kept is None:
                first.update(dict.fromkeys(node.topics, node))
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
        """Records without key have to reach left joins of streams, so repartition topics above such joins keep them."""
        nodes_above_joins: set[GraphNode] = set()
        waiting = [node for node in self._nodes if node.takes_null_keys]
        while waiting:
            for parent in waiting.pop().parents:
                if parent not in nodes_above_joins:
                    nodes_above_joins.add(parent)
                    waiting.append(parent)
        for node in nodes_above_joins:
            if isinstance(node, RepartitionNode):
                node.keeps_null_keys = True
