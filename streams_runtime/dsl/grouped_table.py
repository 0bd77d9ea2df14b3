"""A table's entries under new keys, ready to be folded: what is removed or replaced is subtracted again.

Source: `KGroupedTable`, `KGroupedTableImpl`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streams_runtime.dsl.abstract_stream import AbstractStream
from streams_runtime.dsl.graph_nodes import GraphNode
from streams_runtime.dsl.ktable import KTable
from streams_runtime.dsl.materialized import KeyValueStoreMaker, Store, materialized
from streams_runtime.dsl.naming import REPARTITION_SUFFIX, checked_name
from streams_runtime.dsl.repartition_node import GroupedTableRepartitionNode
from streams_runtime.dsl.stream_aggregates import one_more, zero
from streams_runtime.dsl.streams_graph import StreamsGraph
from streams_runtime.dsl.table_aggregates import KTableAggregate, one_less
from streams_runtime.dsl.table_nodes import TableNode
from streams_runtime.serdes import LONG, Serde

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

AGGREGATE_NAME = "KTABLE-AGGREGATE-"
REDUCE_NAME = "KTABLE-REDUCE-"


class KGroupedTable(AbstractStream[K, V]):
    """`repartition_name`: of the repartition topic, without its suffix; None: by the store."""

    def __init__(
        self,
        graph: StreamsGraph,
        node: GraphNode,
        sources: tuple[str, ...],
        key_serde: Serde[K] | None,
        value_serde: Serde[V] | None,
        repartition_name: str | None,
    ) -> None:
        super().__init__(graph, node, sources, key_serde, value_serde)
        self._repartition_name = None if repartition_name is None else checked_name(repartition_name)
        self._repartition: GroupedTableRepartitionNode | None = None

    def count(self, *, store: Store = None, name: str | None = None) -> KTable[K, int]:
        """How many entries each group has."""
        maker = self._maker(LONG, store)
        return self._folded(KTableAggregate(maker, zero, one_more, one_less), AGGREGATE_NAME, LONG, name)

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        *,
        value_serde: Serde[A],
        store: Store = None,
        name: str | None = None,
    ) -> KTable[K, A]:
        """`adder`, `subtractor`: key, an entry's value, aggregate so far to the new one."""
        supplier = KTableAggregate(self._maker(value_serde, store), initializer, adder, subtractor)
        return self._folded(supplier, AGGREGATE_NAME, value_serde, name)

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        store: Store = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """`adder`, `subtractor`: value so far and an entry's value to the new one; the first is taken as it is."""
        supplier = KTableAggregate.of_reducers(self._maker(self._value_serde, store), adder, subtractor)
        return self._folded(supplier, REDUCE_NAME, self._value_serde, name)

    def _maker(self, value_serde: Serde[A] | None, store: Store) -> KeyValueStoreMaker:
        """A store that nobody named is named after aggregates, in reduce too, as in Kafka."""
        settings = materialized(store)
        name = self._graph.naming.store(AGGREGATE_NAME) if settings.name is None else settings.name
        return KeyValueStoreMaker(name, self._key_serde, value_serde, settings)

    def _folded(
        self, supplier: KTableAggregate, prefix: str, value_serde: Serde[A] | None, name: str | None
    ) -> KTable[K, A]:
        naming = self._graph.naming
        sink = naming.given_or(name, "KSTREAM-SINK-", "-sink")
        source = naming.given_or(name, "KSTREAM-SOURCE-", "-source")
        node_name = naming.given_or(name, prefix)
        if self._repartition is None or self._repartition_name is None:
            topic = (self._repartition_name or supplier.store.name) + REPARTITION_SUFFIX
            self._repartition = GroupedTableRepartitionNode(topic, sink, source, self._key_serde, self._value_serde)
        self._graph.add(self._repartition, [self._node])
        node = TableNode(node_name, supplier)
        self._graph.add(node, [self._repartition])
        return KTable(self._graph, node, (self._repartition.name,), self._key_serde, value_serde, supplier)
