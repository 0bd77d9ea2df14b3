"""A stream of records, and everything that can be done with it.

An operation that may change the key marks its result, and the next one that needs records of a key together writes them
to a repartition topic first; an operation that cannot, keeps keys where they are. `name` names the operation's node; by
itself it gets the next number. Source: `KStream`, `KStreamImpl`.
Differs from Kafka: no stream-stream joins, global tables, `processValues`, nor topics chosen per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from assignor.errors import TopologyError
from streams_runtime.dsl import stream_processors as processors
from streams_runtime.dsl.abstract_stream import AbstractStream
from streams_runtime.dsl.branched import BranchedKStream
from streams_runtime.dsl.forwarding import PassThrough
from streams_runtime.dsl.graph_nodes import GraphNode, MergeNode, ProcessorGraphNode, SinkNode
from streams_runtime.dsl.grouped_stream import KGroupedStream
from streams_runtime.dsl.ktable import KTable
from streams_runtime.dsl.materialized import KeyValueStoreMaker, Store, materialized
from streams_runtime.dsl.naming import checked_name
from streams_runtime.dsl.repartition_node import RepartitionNames, RepartitionNode
from streams_runtime.dsl.stream_table_join import StreamTableJoinProcessor, StreamTableLeftJoinProcessor
from streams_runtime.dsl.streams_graph import StreamsGraph
from streams_runtime.dsl.table_nodes import TableNode
from streams_runtime.dsl.table_source import KTableSource
from streams_runtime.dsl.windowed_serde import TimeWindowedSerde, WindowedStreamPartitioner
from streams_runtime.processors.api import Processor, ProcessorSupplier, StreamPartitioner
from streams_runtime.serdes import Serde

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VT = TypeVar("VT")


class KStream(AbstractStream[K, V], Generic[K, V]):
    """`repartition_required`: the key may have changed since records were last written by it."""

    def __init__(
        self,
        graph: StreamsGraph,
        node: GraphNode,
        sources: tuple[str, ...],
        key_serde: Serde[K] | None,
        value_serde: Serde[V] | None,
        *,
        repartition_required: bool = False,
    ) -> None:
        super().__init__(graph, node, sources, key_serde, value_serde)
        self._repartition_required = repartition_required
        self._repartition_for_joins: RepartitionNode | None = None

    def map(self, mapper: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None) -> KStream[K2, V2]:
        """A new key and value for each record."""
        return self._rekeyed("KSTREAM-MAP-", partial(processors.KStreamMap, mapper), name)

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None
    ) -> KStream[K2, V2]:
        """Any number of new keys and values for each record."""
        return self._rekeyed("KSTREAM-FLATMAP-", partial(processors.KStreamFlatMap, mapper), name)

    def select_key(self, selector: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]:
        """A new key for each record."""
        supplier = partial(processors.KStreamSelectKey, selector)
        return self._rekeyed("KSTREAM-KEY-SELECT-", supplier, name, self._value_serde)

    def map_values(self, mapper: Callable[[V], V2], *, name: str | None = None) -> KStream[K, V2]:
        return self._revalued("KSTREAM-MAPVALUES-", partial(processors.KStreamMapValues, mapper), name)

    def map_values_with_key(self, mapper: Callable[[K, V], V2], *, name: str | None = None) -> KStream[K, V2]:
        """The key is for reading only."""
        return self._revalued("KSTREAM-MAPVALUES-", partial(processors.KStreamMapValuesWithKey, mapper), name)

    def flat_map_values(self, mapper: Callable[[V], Iterable[V2]], *, name: str | None = None) -> KStream[K, V2]:
        return self._revalued("KSTREAM-FLATMAPVALUES-", partial(processors.KStreamFlatMapValues, mapper), name)

    def flat_map_values_with_key(
        self, mapper: Callable[[K, V], Iterable[V2]], *, name: str | None = None
    ) -> KStream[K, V2]:
        """The key is for reading only."""
        supplier = partial(processors.KStreamFlatMapValuesWithKey, mapper)
        return self._revalued("KSTREAM-FLATMAPVALUES-", supplier, name)

    def filter(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> KStream[K, V]:
        return self._same("KSTREAM-FILTER-", partial(processors.KStreamFilter, predicate), name)

    def filter_not(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> KStream[K, V]:
        return self._same("KSTREAM-FILTER-", partial(processors.KStreamFilterNot, predicate), name)

    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
        """Look at each record as it passes."""
        return self._same("KSTREAM-PEEK-", partial(processors.KStreamPeek, action), name)

    def for_each(self, action: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Do something with each record; the stream ends here."""
        node_name = self._graph.naming.given_or(name, "KSTREAM-FOREACH-")
        self._graph.add(ProcessorGraphNode(node_name, partial(processors.ForeachProcessor, action)), [self._node])

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Each record goes to the first branch that takes it."""
        return BranchedKStream(self._graph, self._node, name, self._branch)

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """Records of both, in no order between them. Serdes have to be given again where they are needed."""
        self._check_same_builder(other)
        node = MergeNode(self._graph.naming.given_or(name, "KSTREAM-MERGE-"), PassThrough)
        self._graph.add(node, [self._node, other._node])
        sources = tuple(dict.fromkeys((*self._sources, *other._sources)))
        required = self._repartition_required or other._repartition_required
        return KStream(self._graph, node, sources, None, None, repartition_required=required)

    def process(
        self,
        supplier: Callable[[], Processor[K, V]],
        *,
        stores: Sequence[str] = (),
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """A processor of the user's, with the stores that `add_state_store` or operations before made.

        It may forward what it wants, so the result counts as one with changed keys.
        """
        node_name = self._graph.naming.processor("KSTREAM-PROCESSOR-") if name is None else checked_name(name)
        node = ProcessorGraphNode(node_name, supplier, connected_stores=stores)
        return self._after(node, None, None, repartition_required=True)

    def to(
        self,
        topic: str,
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        partitioner: StreamPartitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Write to a topic, which has to be there. Windowed keys are partitioned by the key alone."""
        keys = key_serde or self._key_serde
        if partitioner is None and isinstance(keys, TimeWindowedSerde):
            partitioner = WindowedStreamPartitioner(keys.key_serde)
        node_name = self._graph.naming.given_or(name, "KSTREAM-SINK-")
        self._graph.add(SinkNode(node_name, topic, keys, value_serde or self._value_serde, partitioner), [self._node])

    def repartition(
        self,
        *,
        name: str | None = None,
        partitions: int | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> KStream[K, V]:
        """Write to an internal topic and read it again. `partitions` None: as many as upstream."""
        naming = self._graph.naming
        prefix = naming.processor("KSTREAM-REPARTITION-") if name is None else checked_name(name)
        node = RepartitionNode(
            RepartitionNames.of_stream(naming, prefix),
            key_serde or self._key_serde,
            value_serde or self._value_serde,
            mergeable=False,
            partitions=partitions,
            partitioner=partitioner,
        )
        self._graph.add(node, [self._node])
        return KStream(self._graph, node, (node.name,), node.key_serde, node.value_serde)

    def to_table(
        self,
        *,
        store: Store = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The newest value of every key. Repartitions when the key may have changed."""
        naming, settings = self._graph.naming, materialized(store)
        node_name = naming.given_or(name, "KSTREAM-TOTABLE-")
        store_name = naming.store("KSTREAM-TOTABLE-") if settings.name is None else settings.name
        keys, values = key_serde or self._key_serde, value_serde or self._value_serde
        parent, sources = self._node, self._sources
        if self._repartition_required:
            parent = RepartitionNode(RepartitionNames.of_stream(naming, node_name), keys, values)
            self._graph.add(parent, [self._node])
            sources = (parent.name,)
        supplier = KTableSource(KeyValueStoreMaker(store_name, keys, values, settings), kept=settings.name is not None)
        node = TableNode(node_name, supplier)
        self._graph.add(node, [parent])
        return KTable(self._graph, node, sources, keys, values, supplier)

    def group_by_key(
        self,
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> KGroupedStream[K, V]:
        """Records of a key together. `name`: of the repartition topic, should there have to be one."""
        keys, values = key_serde or self._key_serde, value_serde or self._value_serde
        return KGroupedStream(self._graph, self._node, self._sources, keys, values, name, self._repartition_required)

    def group_by(
        self,
        selector: Callable[[K, V], K2],
        *,
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> KGroupedStream[K2, V]:
        """Records of a new key together, always by way of a repartition topic. `name`: of the node and the topic."""
        node_name = self._graph.naming.given_or(name, "KSTREAM-KEY-SELECT-")
        node = ProcessorGraphNode(node_name, partial(processors.KStreamSelectKey, selector), changes_key=True)
        self._graph.add(node, [self._node])
        values = value_serde or self._value_serde
        return KGroupedStream(self._graph, node, self._sources, key_serde, values, name, True)

    def join(
        self,
        table: KTable[K, VT],
        joiner: Callable[[V, VT], V2],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Each record with the table's present value of its key; records without one are left out.

        Both must have the same number of partitions. The serdes are for a repartition topic, should there have to be
        one.
        """
        _check_table(table)
        stream = self._by_key(key_serde, value_serde, name)
        return stream._joined(table, partial(StreamTableJoinProcessor, table._supplier, joiner), "KSTREAM-JOIN-", name)

    def left_join(
        self,
        table: KTable[K, VT],
        joiner: Callable[[V, VT | None], V2],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Like `join`, but records without a match stay, and those without key too; the table's value is then None."""
        _check_table(table)
        stream = self._by_key(key_serde, value_serde, name)
        supplier = partial(StreamTableLeftJoinProcessor, table._supplier, joiner)
        joined: KStream[K, V2] = stream._joined(table, supplier, "KSTREAM-LEFTJOIN-", name)
        joined._node.takes_null_keys = True
        return joined

    def _joined(
        self, table: KTable[K, VT], supplier: ProcessorSupplier, prefix: str, name: str | None
    ) -> KStream[K, V2]:
        sources = self._copartitioned_with(table)
        node_name = self._graph.naming.given_or(name, prefix)
        node = ProcessorGraphNode(node_name, supplier, connected_stores=table._supplier.view())
        self._graph.add(node, [self._node])
        return KStream(self._graph, node, sources, self._key_serde, None)

    def _by_key(self, key_serde: Serde[K] | None, value_serde: Serde[V] | None, name: str | None) -> KStream[K, V]:
        """Itself, or what comes out of a repartition topic. Joins of one stream share a topic that nobody named.

        Three numbers are taken in either case. Source: `KStreamImpl.repartitionForJoin`.
        """
        keys, values = key_serde or self._key_serde, value_serde or self._value_serde
        if not self._repartition_required:
            return KStream(self._graph, self._node, self._sources, keys, values)
        names = RepartitionNames.of_stream(self._graph.naming, name or self.name)
        node = self._repartition_for_joins
        if node is None or (name or self.name) != self.name:
            node = RepartitionNode(names, keys, values)
            self._graph.add(node, [self._node])
            self._repartition_for_joins = node
        return KStream(self._graph, node, (node.name,), keys, values)

    def _branch(self, node: GraphNode) -> KStream[K, V]:
        required = self._repartition_required
        return KStream(
            self._graph, node, self._sources, self._key_serde, self._value_serde, repartition_required=required
        )

    def _same(self, prefix: str, supplier: ProcessorSupplier, name: str | None) -> KStream[K, V]:
        node = ProcessorGraphNode(self._graph.naming.given_or(name, prefix), supplier)
        required = self._repartition_required
        return self._after(node, self._key_serde, self._value_serde, repartition_required=required)

    def _rekeyed(
        self, prefix: str, supplier: ProcessorSupplier, name: str | None, value_serde: Serde[Any] | None = None
    ) -> KStream[Any, Any]:
        node = ProcessorGraphNode(self._graph.naming.given_or(name, prefix), supplier, changes_key=True)
        return self._after(node, None, value_serde, repartition_required=True)

    def _revalued(self, prefix: str, supplier: ProcessorSupplier, name: str | None) -> KStream[K, Any]:
        node = ProcessorGraphNode(self._graph.naming.given_or(name, prefix), supplier, changes_value=True)
        return self._after(node, self._key_serde, None, repartition_required=self._repartition_required)

    def _after(
        self,
        node: GraphNode,
        key_serde: Serde[K2] | None,
        value_serde: Serde[V2] | None,
        *,
        repartition_required: bool,
    ) -> KStream[K2, V2]:
        self._graph.add(node, [self._node])
        return KStream(
            self._graph, node, self._sources, key_serde, value_serde, repartition_required=repartition_required
        )


def _check_table(other: object) -> None:
    if not isinstance(other, KTable):
        raise TopologyError(
            f"Invalid topology: a stream is joined with a KTable, not with a {type(other).__name__}; "
            "make one with `to_table`, or read the topic with `StreamsBuilder.table`"
        )
