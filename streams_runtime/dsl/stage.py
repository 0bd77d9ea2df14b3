"""The place of a stream or table in the graph of nodes, while a topology is written.

Operations take a stage and give the stage after it. A stage never changes, so a stream can have several operations.
Source: `AbstractStream`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from assignor.errors import TopologyError
from streams_runtime.dsl.graph_nodes import GraphNode, TableNode
from streams_runtime.dsl.streams_graph import StreamsGraph
from streams_runtime.dsl.table_operators import TableOperator
from streams_runtime.serdes import Serde

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class Stage(Generic[K, V]):
    """The newest node of a stream or table, with the properties of its records that are known so far.

    `sources`: names of the source nodes of its subtopology, for co-partitioning. `key_serde`, `value_serde`: None if no
    call so far has given one. `repartition_required`: the key may have changed since the records were last written to a
    topic.
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
        """Add a node below the node of this stage. Gives the stage of the new node, with the same serdes."""
        self.graph.add(node, [self.node])
        return replace(self, node=node)

    def repartitioned(self, node: GraphNode) -> Stage[K, V]:
        """Add a repartition topic. Gives the stage that reads it."""
        return self.then(node).reading(node)

    def reading(self, node: GraphNode) -> Stage[K, V]:
        """The stage that begins at `node`: a repartition topic of this stream that is in the graph already."""
        return replace(self, node=node, sources=(node.name,), repartition_required=False)

    def make_table(
        self, name: str, operator: TableOperator, key_serde: Serde[K2] | None, value_serde: Serde[V2] | None
    ) -> TableStage[K2, V2]:
        """Add a node of this name whose operators make a table. Gives the stage of the table."""
        node = TableNode(name, operator)
        self.graph.add(node, [self.node])
        return TableStage(self.graph, node, self.sources, key_serde, value_serde, operator=operator)

    def with_serdes(self, key_serde: Serde[K] | None, value_serde: Serde[V] | None) -> Stage[K, V]:
        """The same stage with these serdes. None keeps the serde that is known so far."""
        return replace(self, key_serde=key_serde or self.key_serde, value_serde=value_serde or self.value_serde)

    def joined_sources(self, other: Stage[Any, Any]) -> tuple[str, ...]:
        """The sources of both stages, each once.

        Raises TopologyError when the two stages come from different builders. Differs from Kafka: Kafka builds a
        topology without some of the nodes.
        """
        if other.graph is not self.graph:
            raise TopologyError(f"Invalid topology: {self.name} and {other.name} come from different builders")
        return tuple(dict.fromkeys((*self.sources, *other.sources)))

    def copartition_with(self, other: Stage[K, Any]) -> tuple[str, ...]:
        """Declare that the topics of both have the same number of partitions. Gives the sources of both."""
        sources = self.joined_sources(other)
        self.graph.copartition(sources)
        return sources


@dataclass(frozen=True)
class TableStage(Stage[K, V]):
    """The stage of a table. `operator`: makes the table's processors, and knows how the table is read."""

    operator: TableOperator = field(kw_only=True)
