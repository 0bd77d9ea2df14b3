"""Grouped streams and tables, and the nodes that their aggregations add to the graph.

Every aggregation has its own store with timestamps and a changelog. If an earlier operation may have changed the keys,
the records go through a repartition topic before the aggregation. The repartition topic gets the name of the grouping.
If the grouping has no name, the topic gets the name of the store.
Source: `KGroupedStreamImpl`, `TimeWindowedKStreamImpl`, `SlidingWindowedKStreamImpl`, `SessionWindowedKStreamImpl`,
`GroupedStreamAggregateBuilder`, `KGroupedTableImpl`.
"""

from typing import Any, Generic

from streams_runtime.common.records import K, V
from streams_runtime.dsl.materialized import (
    Materialized,
    SessionStoreFactory,
    StoreArgument,
    StoreFactory,
    WindowStoreFactory,
    checked_settings,
)
from streams_runtime.dsl.naming import REPARTITION_SUFFIX, checked_name
from streams_runtime.dsl.repartitioning import GroupedTableRepartitionNode, RepartitionNames, RepartitionNode
from streams_runtime.dsl.session_aggregate import KStreamSessionWindowAggregate
from streams_runtime.dsl.sliding_aggregate import KStreamSlidingWindowAggregate
from streams_runtime.dsl.stream_aggregates import A, KStreamAggregate, KStreamWindowAggregate, StreamAggregation
from streams_runtime.dsl.streams_graph import Stage, TableStage
from streams_runtime.dsl.table_aggregates import KTableAggregate, TableAggregation
from streams_runtime.dsl.table_operators import StoredTableOperator
from streams_runtime.dsl.windows import AggregationWindows, EmitStrategy, SessionWindows, SlidingWindows, windowed_serde
from streams_runtime.serdes import Serde
from streams_runtime.serdes.defaults import DefaultSerde


def aggregate_store(
    windows: AggregationWindows | None,
    name: str,
    key_serde: Serde[Any] | None,
    value_serde: Serde[Any] | None,
    settings: Materialized,
    emit: EmitStrategy,
) -> StoreFactory:
    """Returns the factory of the store for an aggregation of a stream. `windows`: None for an aggregation by key.

    Raises IllegalArgumentError if the retention is too short.
    """
    if windows is None:
        return StoreFactory(name, key_serde, value_serde, settings)
    if isinstance(windows, SessionWindows):
        return SessionStoreFactory(name, key_serde, value_serde, settings, windows, emit)
    return WindowStoreFactory(name, key_serde, value_serde, settings, windows, emit)


def aggregate_operator(
    store: StoreFactory, aggregation: StreamAggregation[Any], emit: EmitStrategy
) -> StoredTableOperator:
    """Returns the operator of an aggregation of a stream. `store`: the result of `aggregate_store`."""
    if isinstance(store, SessionStoreFactory):
        return KStreamSessionWindowAggregate(store, aggregation, emit)
    if not isinstance(store, WindowStoreFactory):
        return KStreamAggregate(store, aggregation)
    if isinstance(store.windows, SlidingWindows):
        return KStreamSlidingWindowAggregate(store, aggregation, emit)
    return KStreamWindowAggregate(store, store.windows, aggregation, emit)


class StreamGrouping(Generic[K, V]):
    """A grouped stream.

    `repartition_name`: the name of the repartition topic without its suffix; None to use the name of the store. If
    `repartition_name` is given, all aggregations of the grouping share one repartition topic.
    """

    def __init__(self, stream: Stage[K, V], repartition_name: str | None) -> None:
        self.stream = stream
        self.repartition_name = None if repartition_name is None else checked_name(repartition_name)
        self._repartition: RepartitionNode | None = None

    def settings_for_count(self, store: StoreArgument, windows: AggregationWindows | None) -> Materialized:
        """Returns the settings of the store for a count.

        If the user gave a `Materialized` without a name, one number of the counter of generated names is skipped, but
        not for sliding windows. Kafka skips this number too, and the next generated names must have the same numbers as
        in Kafka. Source: `KGroupedStreamImpl.count(Materialized)`.
        """
        settings = checked_settings(store)
        if store is not None and settings.name is None and not isinstance(windows, SlidingWindows):
            self.stream.graph.naming.processor("KSTREAM-AGGREGATE-")
        return settings

    def aggregated(
        self,
        windows: AggregationWindows | None,
        emit: EmitStrategy,
        aggregation: StreamAggregation[A],
        settings: Materialized,
        name: str | None,
    ) -> TableStage[Any, A]:
        """Returns the table of the aggregation. If `windows` are given, the keys of the table are windowed."""
        stream, naming = self.stream, self.stream.graph.naming
        keys, values = stream.key_serde, aggregation.value_serde
        # if both names are generated, the store's name has the lower number
        store_name = settings.name or naming.store(aggregation.prefix)
        node_name = naming.name_or_generated(name, aggregation.prefix)
        operator = aggregate_operator(
            aggregate_store(windows, store_name, keys, values, settings, emit), aggregation, emit
        )
        table_keys = keys if windows is None else windowed_serde(windows, keys or DefaultSerde("key", node_name))
        if stream.repartition_required:
            stream = self._repartitioned(self.repartition_name or store_name)
        return stream.make_table(node_name, operator, table_keys, values)

    def _repartitioned(self, prefix: str) -> Stage[K, V]:
        """Returns the stage that reads the repartition topic. As in Kafka, each call uses up three numbers of the
        counter of generated names, even if the topic already exists.
        """
        stream = self.stream
        names = RepartitionNames.of_stream(stream.graph.naming, prefix)
        if self._repartition is None or self.repartition_name is None:
            self._repartition = RepartitionNode(names, stream.key_serde, stream.value_serde)
        return stream.repartitioned(self._repartition)


class TableGrouping(Generic[K, V]):
    """A grouped table. The key of each change is the key of the group. The changes always go through a repartition
    topic.

    `repartition_name`: the name of the repartition topic without its suffix; None to use the name of the store.
    """

    def __init__(self, changes: Stage[K, V], repartition_name: str | None) -> None:
        self.changes = changes
        self._repartition_name = None if repartition_name is None else checked_name(repartition_name)
        self._repartition: GroupedTableRepartitionNode | None = None

    def aggregated(self, aggregation: TableAggregation[A], store: StoreArgument, name: str | None) -> TableStage[K, A]:
        changes, settings = self.changes, checked_settings(store)
        graph, keys = changes.graph, changes.key_serde
        # as in Kafka, a generated store name has this prefix even if the operation is a reduce
        store_name = settings.name or graph.naming.store("KTABLE-AGGREGATE-")
        factory = StoreFactory(store_name, keys, aggregation.value_serde, settings)
        operator = KTableAggregate(factory, aggregation)
        sink = graph.naming.name_or_generated(name, "KSTREAM-SINK-", "-sink")
        source = graph.naming.name_or_generated(name, "KSTREAM-SOURCE-", "-source")
        node_name = graph.naming.name_or_generated(name, aggregation.prefix)
        if self._repartition is None or self._repartition_name is None:
            topic = (self._repartition_name or store_name) + REPARTITION_SUFFIX
            self._repartition = GroupedTableRepartitionNode(source, topic, sink, keys, changes.value_serde)
        return changes.repartitioned(self._repartition).make_table(node_name, operator, keys, aggregation.value_serde)
