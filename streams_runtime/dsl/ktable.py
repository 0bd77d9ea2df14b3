"""A table: the newest value of every key, kept up to date by the records of a topic or a stream.

What follows a table gets its changes one by one. A table is only kept in a store where something has to read it: an
aggregate, a join, an operation whose `store` is named. Source: `KTable`, `KTableImpl`.
Differs from Kafka: no suppress, `transformValues`, outer and foreign-key joins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from streams_runtime.dsl.abstract_stream import AbstractStream
from streams_runtime.dsl.graph_nodes import GraphNode, ProcessorGraphNode
from streams_runtime.dsl.materialized import KeyValueStoreMaker, Store, materialized
from streams_runtime.dsl.stream_processors import KStreamMapValues
from streams_runtime.dsl.streams_graph import StreamsGraph
from streams_runtime.dsl.table_aggregates import TableRepartitionMap
from streams_runtime.dsl.table_filter import KTableFilter
from streams_runtime.dsl.table_map_values import KTableMapValues
from streams_runtime.dsl.table_nodes import TableJoinNode, TableNode
from streams_runtime.dsl.table_supplier import TableSupplier
from streams_runtime.dsl.table_table_join import JoinSide, KTableKTableJoin
from streams_runtime.serdes import Serde

if TYPE_CHECKING:
    from streams_runtime.dsl.grouped_table import KGroupedTable
    from streams_runtime.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VT = TypeVar("VT")


class KTable(AbstractStream[K, V]):
    """`supplier`: makes its processors, and says how the table is read."""

    def __init__(
        self,
        graph: StreamsGraph,
        node: GraphNode,
        sources: tuple[str, ...],
        key_serde: Serde[K] | None,
        value_serde: Serde[V] | None,
        supplier: TableSupplier,
    ) -> None:
        super().__init__(graph, node, sources, key_serde, value_serde)
        self._supplier = supplier

    def filter(
        self, predicate: Callable[[K, V], bool], *, store: Store = None, name: str | None = None
    ) -> KTable[K, V]:
        """Entries that the predicate takes; one that it takes no longer is removed."""
        return self._filtered(predicate, True, store, name)

    def filter_not(
        self, predicate: Callable[[K, V], bool], *, store: Store = None, name: str | None = None
    ) -> KTable[K, V]:
        return self._filtered(predicate, False, store, name)

    def map_values(
        self,
        mapper: Callable[[V], V2],
        *,
        value_serde: Serde[V2] | None = None,
        store: Store = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        """The mapper never gets None: a removal stays one. A named `store` needs `value_serde`."""
        return self.map_values_with_key(_WithoutKey(mapper), value_serde=value_serde, store=store, name=name)

    def map_values_with_key(
        self,
        mapper: Callable[[K, V], V2],
        *,
        value_serde: Serde[V2] | None = None,
        store: Store = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        """The key is for reading only."""
        asked = store is not None or value_serde is not None
        maker, node_name = self._derived_names("KTABLE-MAPVALUES-", value_serde, store, asked, name)
        supplier = KTableMapValues(self._supplier, mapper, maker)
        node = TableNode(node_name, supplier)
        self._graph.add(node, [self._node])
        return KTable(self._graph, node, self._sources, self._key_serde, value_serde, supplier)

    def to_stream(self, *, name: str | None = None) -> KStream[K, V]:
        """Every change as a record; a removal has the value None."""
        from streams_runtime.dsl.kstream import KStream  # a stream becomes a table too, so they know each other

        node = ProcessorGraphNode(
            self._graph.naming.given_or(name, "KTABLE-TOSTREAM-"), partial(KStreamMapValues, _new_value)
        )
        self._graph.add(node, [self._node])
        return KStream(self._graph, node, self._sources, self._key_serde, self._value_serde)

    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2, V2]],
        *,
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Entries under new keys, always by way of a repartition topic. `name`: of the node and the topic."""
        from streams_runtime.dsl.grouped_table import KGroupedTable

        node_name = self._graph.naming.given_or(name, "KTABLE-SELECT-")
        node = ProcessorGraphNode(node_name, partial(TableRepartitionMap, selector))
        self._graph.add(node, [self._node])
        self._supplier.send_old_values(keep_store=True)
        return KGroupedTable(self._graph, node, self._sources, key_serde, value_serde, name)

    def join(
        self,
        other: KTable[K, VT],
        joiner: Callable[[V, VT], V2],
        *,
        value_serde: Serde[V2] | None = None,
        store: Store = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        """Keys that both have. Both must have the same number of partitions. A named `store` needs `value_serde`."""
        this, that = self._supplier, other._supplier
        left = JoinSide(this, that, joiner, needs_this=True, needs_other=True)
        right = JoinSide(that, this, _Reversed(joiner), needs_this=True, needs_other=True)
        return self._joined(other, left, right, value_serde, store, name)

    def left_join(
        self,
        other: KTable[K, VT],
        joiner: Callable[[V, VT | None], V2],
        *,
        value_serde: Serde[V2] | None = None,
        store: Store = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        """All keys of this one; the other's value is None where it has none."""
        this, that = self._supplier, other._supplier
        left = JoinSide(this, that, joiner, needs_this=True, needs_other=False)
        right = JoinSide(that, this, _Reversed(joiner), needs_this=False, needs_other=True)
        this.send_old_values(keep_store=True)
        return self._joined(other, left, right, value_serde, store, name)

    def _filtered(
        self, predicate: Callable[[K, V], bool], wanted: bool, store: Store, name: str | None
    ) -> KTable[K, V]:
        maker, node_name = self._derived_names("KTABLE-FILTER-", self._value_serde, store, store is not None, name)
        supplier = KTableFilter(self._supplier, predicate, wanted, maker)
        node = TableNode(node_name, supplier)
        self._graph.add(node, [self._node])
        return KTable(self._graph, node, self._sources, self._key_serde, self._value_serde, supplier)

    def _derived_names(
        self, prefix: str, value_serde: Serde[V2] | None, store: Store, asked: bool, name: str | None
    ) -> tuple[KeyValueStoreMaker | None, str]:
        """Only a named store is kept; one that was asked for without a name takes its number all the same."""
        settings = materialized(store)
        if asked and settings.name is None:
            self._graph.naming.store(prefix)
        maker = None
        if settings.name is not None:
            maker = KeyValueStoreMaker(settings.name, self._key_serde, value_serde, settings)
        return maker, self._graph.naming.given_or(name, prefix)

    def _joined(
        self,
        other: KTable[K, VT],
        left: JoinSide,
        right: JoinSide,
        value_serde: Serde[V2] | None,
        store: Store,
        name: str | None,
    ) -> KTable[K, V2]:
        naming, settings = self._graph.naming, materialized(store)
        maker = None
        if store is not None or value_serde is not None:
            store_name = naming.store("KTABLE-MERGE-") if settings.name is None else settings.name
            maker = KeyValueStoreMaker(store_name, self._key_serde, value_serde, settings)
        merge_name = naming.given_or(name, "KTABLE-MERGE-")
        sources = self._copartitioned_with(other)
        sides = (
            naming.given_or(name, "KTABLE-JOINTHIS-", "-join-this"),
            naming.given_or(name, "KTABLE-JOINOTHER-", "-join-other"),
        )
        join = KTableKTableJoin(left, right, maker)
        stores_to_read = (other._supplier.view(), self._supplier.view())
        node = TableJoinNode(merge_name, sides, join, (self.name, other.name), stores_to_read)
        self._graph.add(node, [self._node, other._node])
        return KTable(self._graph, node, sources, self._key_serde, value_serde, join)


class _WithoutKey(Generic[V, V2]):
    def __init__(self, mapper: Callable[[V], V2]) -> None:
        self._mapper = mapper

    def __call__(self, key: object, value: V) -> V2:
        return self._mapper(value)


class _Reversed(Generic[V, VT, V2]):
    """A joiner as the other side calls it."""

    def __init__(self, joiner: Callable[[V, VT], V2]) -> None:
        self._joiner = joiner

    def __call__(self, value: VT, other: V) -> V2:
        return self._joiner(other, value)


def _new_value(change: tuple[V | None, V | None]) -> V | None:
    return change[0]
