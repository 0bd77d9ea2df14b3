"""One stream split into several: a record goes to the first branch whose predicate takes it.

Source: `BranchedKStream`, `BranchedKStreamImpl`. Differs from Kafka: a branch cannot be given a function to apply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from streams_runtime.dsl.forwarding import PassThrough
from streams_runtime.dsl.graph_nodes import GraphNode, ProcessorGraphNode
from streams_runtime.dsl.naming import checked_name
from streams_runtime.dsl.stream_processors import KStreamBranch
from streams_runtime.dsl.streams_graph import StreamsGraph

if TYPE_CHECKING:
    from streams_runtime.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")


class BranchedKStream(Generic[K, V]):
    """Branches are asked in the order of the calls. Their names: the split's, then the branch's own or its number."""

    def __init__(
        self,
        graph: StreamsGraph,
        parent: GraphNode,
        name: str | None,
        make_stream: Callable[[GraphNode], KStream[K, V]],
    ) -> None:
        self._graph = graph
        self._make_stream = make_stream
        self._branches: list[tuple[Callable[[K, V], bool] | None, str]] = []
        self._streams: dict[str, KStream[K, V]] = {}
        split_name = graph.naming.given_or(name, "KSTREAM-BRANCH-")
        self._node = ProcessorGraphNode(split_name, partial(KStreamBranch, self._branches))
        graph.add(self._node, [parent])

    def branch(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> BranchedKStream[K, V]:
        """The next branch. Without a name it is called by its number, from 1."""
        self._add(predicate, str(len(self._branches) + 1) if name is None else name)
        return self

    def default_branch(self, *, name: str | None = None) -> dict[str, KStream[K, V]]:
        """One more branch for the rest, called 0 without a name. All branches by their nodes' names."""
        self._add(None, "0" if name is None else name)
        return dict(self._streams)

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """The rest is left out. All branches by their nodes' names."""
        return dict(self._streams)

    def _add(self, predicate: Callable[[K, V], bool] | None, suffix: str) -> None:
        name = checked_name(self._node.name + suffix)
        self._branches.append((predicate, name))
        self._graph.naming.processor(name)  # Kafka takes a number for it
        node = ProcessorGraphNode(name, PassThrough)
        self._graph.add(node, [self._node])
        self._streams[name] = self._make_stream(node)
