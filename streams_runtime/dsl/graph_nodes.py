"""What a chain of DSL calls leaves behind: nodes that know how to write themselves into a topology, parents first.

The graph is separate from the topology because later calls change earlier nodes: a join makes the table it reads keep a
store, and `optimize` moves repartition topics. Source: `GraphNode` and the other classes of `kstream.internals.graph`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streams_runtime.dsl.known_serdes import known_serde
from streams_runtime.dsl.materialized import StoreMaker
from streams_runtime.logs.base import OffsetReset
from streams_runtime.processors.api import StreamPartitioner, TimestampExtractor
from streams_runtime.processors.context import NodeSupplier
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.base import StoreBuilder


class GraphNode:
    """`name`: of the node that children have as their parent in the topology. Children and parents are in the order in
    which they were linked.

    `changes_key`, `changes_value`: whether records change on their way through, which decides about merging repartition
    topics. `takes_null_keys`: a left join of a stream with a table, which records without key have to reach.
    """

    def __init__(self, name: str, *, changes_key: bool = False, changes_value: bool = False) -> None:
        self.name = name
        self.changes_key = changes_key
        self.changes_value = changes_value
        self.takes_null_keys = False
        self.priority = -1
        self.children: dict[GraphNode, None] = {}
        self.parents: dict[GraphNode, None] = {}

    def add_child(self, child: GraphNode) -> None:
        self.children[child] = None
        child.parents[self] = None

    def remove_child(self, child: GraphNode) -> None:
        self.children.pop(child, None)
        child.parents.pop(self, None)

    def parent_names(self) -> tuple[str, ...]:
        return tuple(parent.name for parent in self.parents)

    def write(self, topology: Topology) -> None:
        """Add what this node stands for, after its parents. The root stands for nothing."""


class StreamSourceNode(GraphNode):
    def __init__(
        self,
        name: str,
        topics: tuple[str, ...],
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        timestamp_extractor: TimestampExtractor | None,
        auto_offset_reset: OffsetReset | str | None,
    ) -> None:
        super().__init__(name)
        self.topics = topics
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.timestamp_extractor = timestamp_extractor
        self.auto_offset_reset = auto_offset_reset

    def write(self, topology: Topology) -> None:
        topology.add_source(
            self.name,
            self.topics,
            key_serde=known_serde(self.key_serde, "key", self._described()),
            value_serde=known_serde(self.value_serde, "value", self._described()),
            timestamp_extractor=self.timestamp_extractor,
            auto_offset_reset=self.auto_offset_reset,
        )

    def _described(self) -> str:
        return f"{self.name}, which reads {', '.join(self.topics)},"


class ProcessorGraphNode(GraphNode):
    """A processor, the store that it fills, if any, and the stores of others that it reads."""

    def __init__(
        self,
        name: str,
        supplier: NodeSupplier,
        *,
        store: StoreMaker | None = None,
        connected_stores: Sequence[str] = (),
        changes_key: bool = False,
        changes_value: bool = False,
    ) -> None:
        super().__init__(name, changes_key=changes_key, changes_value=changes_value)
        self.supplier = supplier
        self.store = store
        self.connected_stores = tuple(connected_stores)

    def write(self, topology: Topology) -> None:
        write_processor(topology, self.name, self.supplier, self.parent_names(), self.store)
        if self.connected_stores:
            topology.connect_processor_and_stores(self.name, self.connected_stores)


class MergeNode(ProcessorGraphNode):
    """Two streams merged into one."""


class StateStoreNode(GraphNode):
    """A store that the user has added, for `process`."""

    def __init__(self, builder: StoreBuilder) -> None:
        super().__init__(builder.name)
        self.builder = builder

    def write(self, topology: Topology) -> None:
        topology.add_state_store(self.builder)


class StreamSinkNode(GraphNode):
    def __init__(
        self,
        name: str,
        topic: str,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        partitioner: StreamPartitioner | None,
    ) -> None:
        super().__init__(name)
        self.topic = topic
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.partitioner = partitioner

    def write(self, topology: Topology) -> None:
        topology.add_sink(
            self.name,
            self.topic,
            self.parent_names(),
            key_serde=known_serde(self.key_serde, "key", self.name),
            value_serde=known_serde(self.value_serde, "value", self.name),
            partitioner=self.partitioner,
        )


def write_processor(
    topology: Topology, name: str, supplier: NodeSupplier, parents: Sequence[str], store: StoreMaker | None
) -> None:
    """A processor, then the store that belongs to it. Stores are numbered by this order, which is Kafka's."""
    topology.add_processor(name, supplier, parents)
    if store is not None:
        topology.add_state_store(store.builder(), name)
