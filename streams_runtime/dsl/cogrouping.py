"""Cogrouped streams: an aggregation of several grouped streams into one table.

Each grouped stream has its own aggregator, and all aggregators write to one store. A grouped stream whose keys may have
changed goes through its own repartition topic. The topics that the aggregators read must have the same number of
partitions.
Source: `CogroupedKStreamImpl`, `CogroupedStreamAggregateBuilder`, `KTablePassThrough`.
Differs from Kafka: if the call has no key serde, the store gets the key serde of a grouped stream. In Kafka, it gets
the default serde of the configs. Input topics before a repartition topic may have different numbers of partitions. In
Kafka, they must have the same number. A join with the resulting table checks the number of partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from streams_runtime.common.records import K
from streams_runtime.dsl.graph_nodes import TableNode
from streams_runtime.dsl.groupings import StreamGrouping, aggregate_operator, aggregate_store
from streams_runtime.dsl.materialized import Materialized
from streams_runtime.dsl.repartitioning import RepartitionNames, RepartitionNode
from streams_runtime.dsl.stream_aggregates import A, Aggregator, Initializer, Merger, StreamAggregation
from streams_runtime.dsl.streams_graph import Stage, TableStage
from streams_runtime.dsl.table_operators import Getter, TableOperator
from streams_runtime.dsl.windows import AggregationWindows, EmitStrategy, windowed_serde
from streams_runtime.processors.context import NodeContext, Receiver
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import Serde
from streams_runtime.serdes.defaults import DefaultSerde
from streams_runtime.state_stores.state_store import StoreBuilder

_AGGREGATE, _MERGE = "COGROUPKSTREAM-AGGREGATE-", "COGROUPKSTREAM-MERGE-"


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class CogroupAggregation(Generic[A]):
    """The functions and serdes of an aggregation of a cogrouped stream, without the aggregators. `merger`: None unless
    the windows are sessions.
    """

    initializer: Initializer
    key_serde: Serde[Any] | None
    value_serde: Serde[A] | None
    merger: Merger | None = None


@dataclass(eq=False, repr=False)
class CogroupAggregateNode(TableNode):
    """An aggregator of a cogrouped stream. `builder`: the builder of the store. The aggregators of a table share this
    object, so the first of them adds the store to the topology.
    """

    builder: StoreBuilder

    def write(self, topology: Topology) -> None:
        topology.add_processor(self.name, self.operator, self.parent_names())
        topology.add_state_store(self.builder, self.name)


class Cogrouping(Generic[K, A]):
    """A cogrouped stream. As in Kafka, all aggregations of a cogrouped stream share its repartition topics, which get
    the name of the grouping or of the first store.
    """

    def __init__(self) -> None:
        self._aggregators: dict[StreamGrouping[K, Any], Aggregator] = {}
        self._repartitions: dict[StreamGrouping[K, Any], RepartitionNode] = {}

    def add(self, grouping: StreamGrouping[K, Any], aggregator: Aggregator) -> None:
        """Adds a grouped stream. If the grouped stream was added before, its new aggregator replaces the old one."""
        self._aggregators[grouping] = aggregator

    def aggregated(
        self,
        windows: AggregationWindows | None,
        aggregation: CogroupAggregation[A],
        settings: Materialized,
        name: str | None,
    ) -> TableStage[Any, A]:
        """Returns the table of the aggregation. If `windows` are given, the keys of the table are windowed."""
        graph = next(iter(self._aggregators)).stream.graph
        naming, values, emit = graph.naming, aggregation.value_serde, EmitStrategy.ON_WINDOW_UPDATE
        given = (aggregation.key_serde, *(grouping.stream.key_serde for grouping in self._aggregators))
        keys: Serde[Any] | None = next((serde for serde in given if serde is not None), None)
        store_name = settings.name or naming.store(_AGGREGATE)
        store = aggregate_store(windows, store_name, keys, values, settings, emit)
        inputs = [self._by_key(grouping, store_name) for grouping in self._aggregators]
        sources: tuple[str, ...] = ()
        for stream in inputs:
            sources = tuple(dict.fromkeys((*sources, *inputs[0].joined_sources(stream))))
        graph.copartition(sources)
        nodes: list[TableNode] = []
        builder = store.builder()
        for number, (stream, aggregator) in enumerate(zip(inputs, self._aggregators.values(), strict=True)):
            functions = StreamAggregation(_AGGREGATE, aggregation.initializer, aggregator, values, aggregation.merger)
            node_name = naming.name_or_generated(name, _AGGREGATE, f"-cogroup-agg-{number}")
            nodes.append(CogroupAggregateNode(node_name, aggregate_operator(store, functions, emit), builder))
            graph.add(nodes[-1], [stream.node])
        operator = KTablePassThrough([node.operator for node in nodes])
        merge = TableNode(naming.name_or_generated(name, _MERGE, "-cogroup-merge"), operator)
        graph.add(merge, nodes)
        if windows is not None:
            keys = windowed_serde(windows, keys or DefaultSerde("key", merge.name))
        return TableStage(graph, merge, sources, keys, values, operator=operator)

    def _by_key(self, grouping: StreamGrouping[K, Any], store: str) -> Stage[K, Any]:
        """Returns the stage that an aggregator reads: the grouped stream itself, or its repartition topic."""
        stream = grouping.stream
        if not stream.repartition_required:
            return stream
        names = RepartitionNames.of_stream(stream.graph.naming, grouping.repartition_name or store)
        if grouping in self._repartitions:
            return stream.reading(self._repartitions[grouping])
        node = self._repartitions[grouping] = RepartitionNode(names, stream.key_serde, stream.value_serde)
        return stream.repartitioned(node)


class KTablePassThrough(TableOperator):
    """Merges the changes of the aggregators of a cogrouped stream. `parents`: the operators of the aggregators, which
    have the same store.
    """

    def __init__(self, parents: list[TableOperator]) -> None:
        super().__init__(None)
        self.parents = parents

    def connect(self, child: Receiver, context: NodeContext) -> Receiver:
        return child

    def send_old_values(self, *, keep_store: bool) -> bool:
        for parent in self.parents:
            parent.send_old_values(keep_store=keep_store)
        self.sends_old_values = True
        return True

    def view(self) -> tuple[str, ...]:
        return self.parents[0].view()

    def getter(self, context: NodeContext, *, flushed: bool = False) -> Getter:
        return self.parents[0].getter(context, flushed=flushed)
