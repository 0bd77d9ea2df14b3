"""Records of a key together, ready to be folded into a table.

Every fold has its store, logged and timestamped. When the key may have changed, the records go by way of a repartition
topic first, named by the group, else by the store. Source: `KGroupedStream`, `GroupedStreamAggregateBuilder`.
Differs from Kafka: no cogroup, session or sliding windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streams_runtime.dsl.abstract_stream import AbstractStream
from streams_runtime.dsl.graph_nodes import GraphNode
from streams_runtime.dsl.ktable import KTable
from streams_runtime.dsl.materialized import KeyValueStoreMaker, Materialized, Store, materialized
from streams_runtime.dsl.naming import checked_name
from streams_runtime.dsl.repartition_node import RepartitionNames, RepartitionNode
from streams_runtime.dsl.stream_aggregates import (
    Aggregator,
    Initializer,
    KStreamAggregate,
    ReducerAsAggregator,
    nothing,
    one_more,
    zero,
)
from streams_runtime.dsl.streams_graph import StreamsGraph
from streams_runtime.dsl.table_nodes import TableNode
from streams_runtime.dsl.table_supplier import StoredTableSupplier
from streams_runtime.dsl.time_windowed_stream import TimeWindowedKStream
from streams_runtime.dsl.time_windows import TimeWindows
from streams_runtime.serdes import LONG, Serde

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

AGGREGATE_NAME = "KSTREAM-AGGREGATE-"
REDUCE_NAME = "KSTREAM-REDUCE-"


class KGroupedStream(AbstractStream[K, V]):
    """`repartition_name`: of the repartition topic, without its suffix; None: by the store."""

    def __init__(
        self,
        graph: StreamsGraph,
        node: GraphNode,
        sources: tuple[str, ...],
        key_serde: Serde[K] | None,
        value_serde: Serde[V] | None,
        repartition_name: str | None,
        repartition_required: bool,
    ) -> None:
        super().__init__(graph, node, sources, key_serde, value_serde)
        self._repartition_name = None if repartition_name is None else checked_name(repartition_name)
        self._repartition_required = repartition_required
        self._repartition: RepartitionNode | None = None

    def count(self, *, store: Store = None, name: str | None = None) -> KTable[K, int]:
        """How many records each key had; values are counted, not looked at, but None does not count."""
        return self._folded(AGGREGATE_NAME, zero, one_more, LONG, self._count_settings(store), name)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *,
        value_serde: Serde[A],
        store: Store = None,
        name: str | None = None,
    ) -> KTable[K, A]:
        """`aggregator`: key, value, aggregate so far to the new one; None removes it."""
        return self._folded(AGGREGATE_NAME, initializer, aggregator, value_serde, materialized(store), name)

    def reduce(self, reducer: Callable[[V, V], V], *, store: Store = None, name: str | None = None) -> KTable[K, V]:
        """`reducer`: value so far and next value to the new one; the first value is taken as it is."""
        aggregator = ReducerAsAggregator(reducer)
        return self._folded(REDUCE_NAME, nothing, aggregator, self._value_serde, materialized(store), name)

    def windowed_by(self, windows: TimeWindows) -> TimeWindowedKStream[K, V]:
        """The same per key and window."""
        return TimeWindowedKStream(self, windows)

    def _count_settings(self, store: Store) -> Materialized:
        """Settings without a store's name take a number more. Source: `KGroupedStreamImpl.count(Materialized)`."""
        settings = materialized(store)
        if store is not None and settings.name is None:
            self._graph.naming.store(AGGREGATE_NAME)
        return settings

    def _folded(
        self,
        prefix: str,
        initializer: Initializer,
        aggregator: Aggregator,
        value_serde: Serde[A] | None,
        settings: Materialized,
        name: str | None,
    ) -> KTable[K, A]:
        store_name = self._store_name(prefix, settings)
        node_name = self._graph.naming.given_or(name, prefix)
        maker = KeyValueStoreMaker(store_name, self._key_serde, value_serde, settings)
        supplier = KStreamAggregate(maker, initializer, aggregator)
        node, sources = self._fold_node(node_name, supplier)
        return KTable(self._graph, node, sources, self._key_serde, value_serde, supplier)

    def _store_name(self, prefix: str, settings: Materialized) -> str:
        return self._graph.naming.store(prefix) if settings.name is None else settings.name

    def _fold_node(self, name: str, supplier: StoredTableSupplier) -> tuple[TableNode, tuple[str, ...]]:
        """The node, and the sources above it: behind the repartition topic, which a named group has only one of."""
        parent, sources = self._node, self._sources
        if self._repartition_required:
            prefix = self._repartition_name or supplier.store.name
            names = RepartitionNames.of_stream(self._graph.naming, prefix)
            if self._repartition is None or self._repartition_name is None:
                self._repartition = RepartitionNode(names, self._key_serde, self._value_serde)
            self._graph.add(self._repartition, [self._node])
            parent, sources = self._repartition, (self._repartition.name,)
        node = TableNode(name, supplier)
        self._graph.add(node, [parent])
        return node, sources
