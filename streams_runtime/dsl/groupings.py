"""Records or entries by group, and what aggregating them leaves in the graph.

Every aggregation has its own store, logged and with timestamps. When the key may have changed, the records are written
to a repartition topic first. The topic is named by the group, else by the store.
Source: `KGroupedStreamImpl`, `GroupedStreamAggregateBuilder`, `KGroupedTableImpl`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from streams_runtime.dsl.materialized import (
    KeyValueStoreMaker,
    Materialized,
    Store,
    WindowStoreMaker,
    materialized,
)
from streams_runtime.dsl.naming import REPARTITION_SUFFIX, checked_name
from streams_runtime.dsl.repartition_node import GroupedTableRepartitionNode, RepartitionNames, RepartitionNode
from streams_runtime.dsl.stage import Stage, TableStage
from streams_runtime.dsl.stream_aggregates import KStreamAggregate, StreamAggregation
from streams_runtime.dsl.table_aggregates import KTableAggregate, TableAggregation
from streams_runtime.dsl.table_nodes import TableNode
from streams_runtime.dsl.table_supplier import StoredTableSupplier
from streams_runtime.dsl.time_windows import TimeWindows
from streams_runtime.dsl.window_aggregates import KStreamWindowAggregate
from streams_runtime.dsl.windowed_serde import TimeWindowedSerde
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.base import Windowed

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
KT = TypeVar("KT")


class StreamGrouping(Generic[K, V]):
    """A grouped stream. `repartition_name`: of the repartition topic, without its suffix; None: by the store.

    A grouping with a `repartition_name` has one repartition topic for all of its aggregations.
    """

    def __init__(self, stream: Stage[K, V], repartition_name: str | None) -> None:
        self.stream = stream
        self._repartition_name = None if repartition_name is None else checked_name(repartition_name)
        self._repartition: RepartitionNode | None = None

    def count_settings(self, store: Store) -> Materialized:
        """Settings without a store's name take one number more. Source: `KGroupedStreamImpl.count(Materialized)`."""
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
        """Of the store and of the node; the store takes its number first."""
        naming = self.stream.graph.naming
        store_name = naming.store(prefix) if settings.name is None else settings.name
        return store_name, naming.given_or(name, prefix)

    def _table(
        self, node_name: str, supplier: StoredTableSupplier, key_serde: Serde[KT] | None, value_serde: Serde[A] | None
    ) -> TableStage[KT, A]:
        stream = self.stream
        parent, sources = stream.node, stream.sources
        if stream.repartition_required:
            parent = self._repartition_by(self._repartition_name or supplier.store.name)
            sources = (parent.name,)
        node = TableNode(node_name, supplier)
        stream.graph.add(node, [parent])
        return TableStage(stream.graph, node, sources, key_serde, value_serde, supplier=supplier)

    def _repartition_by(self, prefix: str) -> RepartitionNode:
        """Takes its numbers even when the topic is there already."""
        stream = self.stream
        names = RepartitionNames.of_stream(stream.graph.naming, prefix)
        if self._repartition is None or self._repartition_name is None:
            self._repartition = RepartitionNode(names, stream.key_serde, stream.value_serde)
        stream.graph.add(self._repartition, [stream.node])
        return self._repartition


class TableGrouping(Generic[K, V]):
    """A table's changes under the keys of their groups; they always go through a repartition topic.

    `repartition_name`: as for `StreamGrouping`.
    """

    def __init__(self, changes: Stage[K, V], repartition_name: str | None) -> None:
        self.changes = changes
        self._repartition_name = None if repartition_name is None else checked_name(repartition_name)
        self._repartition: GroupedTableRepartitionNode | None = None

    def aggregated(self, aggregation: TableAggregation[A], store: Store, name: str | None) -> TableStage[K, A]:
        changes, settings = self.changes, materialized(store)
        graph, keys = changes.graph, changes.key_serde
        # Without a name it is called after aggregates for a reduce, too, as in Kafka.
        store_name = graph.naming.store("KTABLE-AGGREGATE-") if settings.name is None else settings.name
        maker = KeyValueStoreMaker(store_name, keys, aggregation.value_serde, settings)
        supplier = KTableAggregate(maker, aggregation.initializer, aggregation.adder, aggregation.subtractor)
        sink = graph.naming.given_or(name, "KSTREAM-SINK-", "-sink")
        source = graph.naming.given_or(name, "KSTREAM-SOURCE-", "-source")
        node_name = graph.naming.given_or(name, aggregation.prefix)
        if self._repartition is None or self._repartition_name is None:
            topic = (self._repartition_name or store_name) + REPARTITION_SUFFIX
            self._repartition = GroupedTableRepartitionNode(topic, sink, source, keys, changes.value_serde)
        graph.add(self._repartition, [changes.node])
        node = TableNode(node_name, supplier)
        graph.add(node, [self._repartition])
        sources = (self._repartition.name,)
        return TableStage(graph, node, sources, keys, aggregation.value_serde, supplier=supplier)
