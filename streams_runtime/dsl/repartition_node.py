"""Repartition topics in the graph: each node is a filter, a sink, the topic, and the source that reads the topic.

The node has the name of its source, because later nodes are linked to the source. Source: `BaseRepartitionNode`,
`OptimizableRepartitionNode`, `UnoptimizableRepartitionNode`, `GroupedTableOperationRepartitionNode`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streams_runtime.dsl.change import ChangedSerde
from streams_runtime.dsl.graph_nodes import GraphNode
from streams_runtime.dsl.naming import REPARTITION_SUFFIX, Naming, is_generated
from streams_runtime.dsl.stream_processors import StreamOperator, leaving_out_null_keys, passing_on
from streams_runtime.dsl.table_aggregates import KTableRepartitionMap
from streams_runtime.processors.api import StreamPartitioner
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import BYTES, DefaultSerde, Serde


@dataclass(frozen=True, slots=True)
class RepartitionNames:
    topic: str
    sink: str
    filter: str
    source: str

    @classmethod
    def of_stream(cls, naming: Naming, prefix: str) -> RepartitionNames:
        """`prefix`: the name that the user gave, or a generated one.

        Takes three numbers from the counter of `naming` in both cases, as Kafka does. Source:
        `KStreamImpl.createRepartitionedSource`.
        """
        topic = prefix if prefix.endswith(REPARTITION_SUFFIX) else prefix + REPARTITION_SUFFIX
        sink = naming.processor("KSTREAM-SINK-")
        null_filter = naming.processor("KSTREAM-FILTER-")
        source = naming.processor("KSTREAM-SOURCE-")
        if is_generated(prefix):
            return cls(topic, sink, null_filter, source)
        return cls(topic, f"{topic}-sink", f"{topic}-filter", f"{topic}-source")


class RepartitionNode(GraphNode):
    """`mergeable`: whether `optimize` may merge the topic with others; False for `KStream.repartition`.

    `keeps_null_keys`: whether records without key pass; the graph decides it when the topology is built.
    """

    def __init__(
        self,
        names: RepartitionNames,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        *,
        mergeable: bool = True,
        partitions: int | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> None:
        super().__init__(names.source)
        self.names = names
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.mergeable = mergeable
        self.partitions = partitions
        self.partitioner = partitioner
        self.keeps_null_keys = False

    def write(self, topology: Topology) -> None:
        names = self.names
        key_serde = self.key_serde or DefaultSerde("key", names.topic)
        value_serde = self.value_serde or DefaultSerde("value", names.topic)
        topology.add_repartition_topic(names.topic, self.partitions)
        operator = StreamOperator(passing_on if self.keeps_null_keys else leaving_out_null_keys)
        topology.add_processor(names.filter, operator, self.parent_names())
        topology.add_sink(
            names.sink,
            names.topic,
            names.filter,
            key_serde=key_serde,
            value_serde=value_serde,
            partitioner=self.partitioner,
        )
        topology.add_source(names.source, names.topic, key_serde=key_serde, value_serde=value_serde)


class GroupedTableRepartitionNode(GraphNode):
    """The repartition topic of a grouped table. It has the changes of the table, each with the key of its group."""

    def __init__(
        self, topic: str, sink: str, source: str, key_serde: Serde[Any] | None, value_serde: Serde[Any] | None
    ) -> None:
        super().__init__(source)
        self.topic = topic
        self.sink = sink
        self.key_serde = key_serde
        self.value_serde = value_serde

    def write(self, topology: Topology) -> None:
        key_serde = self.key_serde or DefaultSerde("key", self.topic)
        changes = ChangedSerde(self.value_serde or DefaultSerde("value", self.topic))
        topology.add_repartition_topic(self.topic)
        topology.add_sink(self.sink, self.topic, self.parent_names(), key_serde=key_serde, value_serde=changes)
        topology.add_source(self.name, self.topic, key_serde=key_serde, value_serde=changes)


class GroupedTableSelectNode(GraphNode):
    """Gives each change of a table the key of its group. The aggregation below decides the topic and its serdes."""

    def __init__(self, name: str, selector: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        super().__init__(name)
        self._selector = selector

    def write(self, topology: Topology) -> None:
        below = next((child for child in self.children if isinstance(child, GroupedTableRepartitionNode)), None)
        # Without an aggregation, there is no topic, and keys are taken as bytes. Else the keys have the serde of the
        # aggregation, or the default serde if the aggregation has none.
        topic = "" if below is None else below.topic
        keys = BYTES if below is None else below.key_serde or DefaultSerde("key", below.topic)
        topology.add_processor(self.name, KTableRepartitionMap(self._selector, topic, keys), self.parent_names())
