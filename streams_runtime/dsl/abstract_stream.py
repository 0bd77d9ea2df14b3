"""What streams and tables have in common: a place in the graph, serdes as far as known, and the sources above.

Source: `AbstractStream`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from assignor.errors import TopologyError
from streams_runtime.dsl.graph_nodes import GraphNode
from streams_runtime.dsl.streams_graph import StreamsGraph
from streams_runtime.serdes import Serde

K = TypeVar("K")
V = TypeVar("V")


class AbstractStream(Generic[K, V]):
    """Made by the builder and by operations, never by users.

    `sources`: names of the source nodes of its subtopology, for co-partitioning.
    """

    def __init__(
        self,
        graph: StreamsGraph,
        node: GraphNode,
        sources: tuple[str, ...],
        key_serde: Serde[K] | None,
        value_serde: Serde[V] | None,
    ) -> None:
        self._graph = graph
        self._node = node
        self._sources = sources
        self._key_serde = key_serde
        self._value_serde = value_serde

    @property
    def name(self) -> str:
        """Of the node in the topology."""
        return self._node.name

    def _copartitioned_with(self, other: AbstractStream[K, Any]) -> tuple[str, ...]:
        """Declare it. All the sources of both."""
        self._check_same_builder(other)
        sources = tuple(dict.fromkeys((*self._sources, *other._sources)))
        self._graph.copartition(sources)
        return sources

    def _check_same_builder(self, other: AbstractStream[Any, Any]) -> None:
        """Differs from Kafka: refused here; there, the result is a topology with nodes missing."""
        if other._graph is not self._graph:
            raise TopologyError(f"Invalid topology: {self.name} and {other.name} come from different builders")
