"""Grouped streams and tables, and the nodes that their aggregations add to the graph.

Every aggregation has its own store, logged and with timestamps. If the key may have changed, the records are written to
a repartition topic first. The topic has the name of the group; without one, that of the store.
Source: `KGroupedStreamImpl`, `GroupedStreamAggregateBuilder`, `KGroupedTableImpl`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from streams_runtime.dsl.materialized import (
    KeyValueStoreMaker,
    Materialized,
    StoreArgument,
    WindowStoreMaker,
    materialized,
)
from streams_runtime.dsl.naming import REPARTITION_SUFFIX, checked_name
from streams_runtime.dsl.repartition_node import GroupedTableRepartitionNode, RepartitionNames, RepartitionNode
from streams_runtime.dsl.stage import Stage, TableStage
from streams_runtime.dsl.stream_aggregates import KStreamAggregate, KStreamWindowAggregate, StreamAggregation
from streams_runtime.dsl.table_aggregates import KTableAggregate, TableAggregation
from streams_runtime.dsl.table_supplier import StoredTableSupplier
from streams_runtime.dsl.windows import TimeWindowedSerde, TimeWindows
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.base import Windowed

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
KT = TypeVar("KT")


class StreamGrouping(Generic[K, V]):
    """A grouped stream. `repartition_name`: the name of the repartition topic without its suffix; None: the store's
    name.

    With a `repartition_name`, all aggregations of the grouping share one repartition topic.
    """

    def __init__(self, stream: Stage[K, V], repartition_name: str | None) -> None:
        self.stream = stream
        self._repartition_name = None if repartition_name is None else checked_name(repartition_name)
        self._repartition: RepartitionNode | None = None

    def count_settings(self, store: StoreArgument) -> Materialized:
        """Settings without a name for the store take one more number for generated names.

        Source: `KGroupedStreamImpl.count(Materialized)`.
        """
        settings = materialized(store)
        if store is not None and settings.name is None:
            self.stream.graph.naming.store("KSTREAM-AGGREGATE-")
        return settings

    def aggregated(
        self, aggregation: StreamAggregation[A], settings: Materialized, name: str | None
    ) -> TableStage[K, A]:
        keys, values = self.stream.key_serde, aggregation.value_serde
        store_name, node_name = self._names(aggregation.prefix, settings, name)
        maker = KeyValueStoreMaker(store_name, keys, values, settings)
        supplier = KStreamAggregate(maker, aggregation.initializer, aggregation.aggregator)
        return self._table(node_name, supplier, keys, values)

    def aggregated_in_windows(
        self, windows: TimeWindows, aggregation: StreamAggregation[A], settings: Materialized, name: str | None
    ) -> TableStage[Windowed[K], A]:
        keys, values = self.stream.key_serde, aggregation.value_serde
        store_name, node_name = self._names(aggregation.prefix, settings, name)
        maker = WindowStoreMaker(store_name, keys, values, settings, windows)
        supplier = KStreamWindowAggregate(maker, aggregation.initializer, aggregation.aggregator)
        windowed_keys = None if keys is None else TimeWindowedSerde(keys, windows.size_ms)
        return self._table(node_name, supplier, windowed_keys, values)

    def _names(self, prefix: str, settings: Materialized, name: str | None) -> tuple[str, str]:
        """The names of the store and of the node. The store takes its number first."""
        naming = self.stream.graph.naming
        store_name = settings.name or naming.store(prefix)
        return store_name, naming.name_or_generated(name, prefix)

    def _table(
        self, node_name: str, supplier: StoredTableSupplier, key_serde: Serde[KT] | None, value_serde: Serde[A] | None
    ) -> TableStage[KT, A]:
        stream = self.stream
        if stream.repartition_required:
            stream = self._repartitioned(self._repartition_name or supplier.store.name)
        return stream.make_table(node_name, supplier, key_serde, value_serde)

    def _repartitioned(self, prefix: str) -> Stage[K, V]:
        """Each call takes three numbers for generated names, even if it shares a topic."""
        stream = self.stream
        names = RepartitionNames.of_stream(stream.graph.naming, prefix)
        if self._repartition is None or self._repartition_name is None:
            self._repartition = RepartitionNode(names, stream.key_serde, stream.value_serde)
        return stream.repartitioned(self._repartition)


class TableGrouping(Generic[K, V]):
    """The changes of a table, with the keys of their groups. They always go through a repartition topic.

    `repartition_name`: see `StreamGrouping`.
    """

    def __init__(self, changes: Stage[K, V], repartition_name: str | None) -> None:
        self.changes = changes
        self._repartition_name = None if repartition_name is None else checked_name(repartition_name)
        self._repartition: GroupedTableRepartitionNode | None = None

    def aggregated(self, aggregation: TableAggregation[A], store: StoreArgument, name: str | None) -> TableStage[K, A]:
        changes, settings = self.changes, materialized(store)
        graph, keys = changes.graph, changes.key_serde
        # As in Kafka, a store without a name is numbered as that of an aggregate, for a reduce as well.
        store_name = settings.name or graph.naming.store("KTABLE-AGGREGATE-")
        maker = KeyValueStoreMaker(store_name, keys, aggregation.value_serde, settings)
        supplier = KTableAggregate(maker, aggregation.initializer, aggregation.adder, aggregation.subtractor)
        sink = graph.naming.name_or_generated(name, "KSTREAM-SINK-", "-sink")
        source = graph.naming.name_or_generated(name, "KSTREAM-SOURCE-", "-source")
        node_name = graph.naming.name_or_generated(name, aggregation.prefix)
        if self._repartition is None or self._repartition_name is None:
            topic = (self._repartition_name or store_name) + REPARTITION_SUFFIX
            self._repartition = GroupedTableRepartitionNode(topic, sink, source, keys, changes.value_serde)
        return changes.repartitioned(self._repartition).make_table(node_name, supplier, keys, aggregation.value_serde)
