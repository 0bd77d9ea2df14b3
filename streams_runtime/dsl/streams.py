"""Streams and tables, and their operations.

The classes are in one file, because the methods of each class return objects of the other classes. `stream_operations`,
`table_operations` and `groupings` add the nodes of an operation to the graph. In every call, `name` is the name of the
operation's node; None for a generated name. `store` is the name of a table's store, or a `Materialized` with further
settings. If a call gets no serde as an argument, the operation uses the serde of its stream or table.
Source: `KStream`, `BranchedKStream`, `KGroupedStream`, `TimeWindowedKStream`, `KTable`, `KGroupedTable`.
Differs from Kafka: the following are missing: joins of two streams, outer joins, foreign-key joins, global tables,
`cogroup`, `suppress`, `processValues`, `transformValues`, session windows, sliding windows, and
`EmitStrategy.onWindowClose`. `to` cannot choose a topic for each record. `branch` cannot apply a function to the
branch's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from assignor.errors import TopologyError
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import K2, V2, K, V
from streams_runtime.dsl import joins, stream_aggregates, stream_operations, table_aggregates, table_operations
from streams_runtime.dsl import stream_processors as processors
from streams_runtime.dsl.groupings import StreamGrouping, TableGrouping
from streams_runtime.dsl.materialized import Materialized, StoreArgument, checked_settings
from streams_runtime.dsl.stream_aggregates import A, StreamAggregation
from streams_runtime.dsl.stream_processors import StreamOperator
from streams_runtime.dsl.streams_graph import Stage, TableStage
from streams_runtime.dsl.table_aggregates import TableAggregation
from streams_runtime.dsl.windows import TimeWindows
from streams_runtime.processors.api import Processor, StreamPartitioner
from streams_runtime.processors.context import Receiver
from streams_runtime.processors.topology import check_functions, checked_topics
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.state_store import Windowed

KT = TypeVar("KT")
VT = TypeVar("VT")


class KStream(Generic[K, V]):
    """A stream of records. `KStream` has a method for each operation, as in Kafka. Users get a `KStream` from a
    `StreamsBuilder`.
    """

    def __init__(self, stage: Stage[K, V]) -> None:
        self._stage = stage
        self._join_inputs = stream_operations.JoinInputs(stage)

    @property
    def name(self) -> str:
        """The name of the stream's node in the topology."""
        return self._stage.name

    def map(self, mapper: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None) -> KStream[K2, V2]:
        """Give each record a new key and value."""
        supplier = _operator("KStream.map", processors.mapping, mapper=mapper)
        return KStream(stream_operations.with_new_records(self._stage, "KSTREAM-MAP-", supplier, name))

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None
    ) -> KStream[K2, V2]:
        """Replace each record by any number of records with new keys and values."""
        supplier = _operator("KStream.flat_map", processors.flat_mapping, mapper=mapper)
        return KStream(stream_operations.with_new_records(self._stage, "KSTREAM-FLATMAP-", supplier, name))

    def select_key(self, selector: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]:
        """Give each record a new key."""
        supplier = _operator("KStream.select_key", processors.selecting_keys, selector=selector)
        return KStream(stream_operations.with_new_keys(self._stage, "KSTREAM-KEY-SELECT-", supplier, name))

    def map_values(self, mapper: Callable[[V], V2], *, name: str | None = None) -> KStream[K, V2]:
        """Give each record a new value."""
        supplier = _operator("KStream.map_values", processors.mapping_values, mapper=mapper)
        return KStream(stream_operations.with_new_values(self._stage, "KSTREAM-MAPVALUES-", supplier, name))

    def map_values_with_key(self, mapper: Callable[[K, V], V2], *, name: str | None = None) -> KStream[K, V2]:
        """Give each record a new value. The mapper must not change the key."""
        supplier = _operator("KStream.map_values_with_key", processors.mapping_values_with_key, mapper=mapper)
        return KStream(stream_operations.with_new_values(self._stage, "KSTREAM-MAPVALUES-", supplier, name))

    def flat_map_values(self, mapper: Callable[[V], Iterable[V2]], *, name: str | None = None) -> KStream[K, V2]:
        """Replace each record by any number of records with the same key and new values."""
        supplier = _operator("KStream.flat_map_values", processors.flat_mapping_values, mapper=mapper)
        return KStream(stream_operations.with_new_values(self._stage, "KSTREAM-FLATMAPVALUES-", supplier, name))

    def flat_map_values_with_key(
        self, mapper: Callable[[K, V], Iterable[V2]], *, name: str | None = None
    ) -> KStream[K, V2]:
        """Replace each record by any number of records with new values. The mapper must not change the key."""
        supplier = _operator("KStream.flat_map_values_with_key", processors.flat_mapping_values_with_key, mapper=mapper)
        return KStream(stream_operations.with_new_values(self._stage, "KSTREAM-FLATMAPVALUES-", supplier, name))

    def filter(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> KStream[K, V]:
        """Keep the records for which the predicate is true."""
        supplier = _operator("KStream.filter", processors.filtering, predicate=predicate)
        return KStream(stream_operations.unchanged(self._stage, "KSTREAM-FILTER-", supplier, name))

    def filter_not(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> KStream[K, V]:
        """Keep the records for which the predicate is false."""
        supplier = _operator("KStream.filter_not", processors.filtering_out, predicate=predicate)
        return KStream(stream_operations.unchanged(self._stage, "KSTREAM-FILTER-", supplier, name))

    def map_batches(
        self,
        function: Callable[[RecordColumns[K, V]], RecordColumns[K2, V2] | tuple[Iterable[K2], Iterable[V2]]],
        *,
        retries_one_by_one: bool = True,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Give the records of a batch new keys and values. The function gets the batch as columns.

        The function returns a pair of columns (keys, values) with a row for each record, or `RecordColumns` with any
        number of rows. With a pair of columns, records keep their timestamps. The function must treat each row alone,
        because the runtime decides where a batch ends. `retries_one_by_one`: True to call the function again with one
        record at a time if it raises an error for a batch.
        """
        check_functions("KStream.map_batches", function=function)
        supplier = partial(processors.KStreamMapBatches, function, retries_one_by_one)
        return KStream(stream_operations.with_new_records(self._stage, "KSTREAM-MAPBATCHES-", supplier, name))

    def map_values_batches(
        self,
        function: Callable[[RecordColumns[K, V]], Iterable[V2]],
        *,
        retries_one_by_one: bool = True,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Give the records of a batch new values. The function gets the batch as in `map_batches`, and returns one
        column with the new values.
        """
        check_functions("KStream.map_values_batches", function=function)
        supplier = partial(processors.KStreamMapValuesBatches, function, retries_one_by_one)
        return KStream(stream_operations.with_new_values(self._stage, "KSTREAM-MAPVALUESBATCHES-", supplier, name))

    def filter_batches(
        self,
        function: Callable[[RecordColumns[K, V]], Iterable[bool]],
        *,
        retries_one_by_one: bool = True,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Keep the records of a batch for which the function returns True. The function gets the batch as in
        `map_batches`, and returns a column with True or False for each record.
        """
        check_functions("KStream.filter_batches", function=function)
        supplier = partial(processors.KStreamFilterBatches, function, retries_one_by_one)
        return KStream(stream_operations.unchanged(self._stage, "KSTREAM-FILTERBATCHES-", supplier, name))

    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
        """Call `action` with each record, and forward the record."""
        supplier = _operator("KStream.peek", processors.peeking, action=action)
        return KStream(stream_operations.unchanged(self._stage, "KSTREAM-PEEK-", supplier, name))

    def for_each(self, action: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Call `action` with each record, and forward nothing."""
        supplier = _operator("KStream.for_each", processors.ending, action=action)
        stream_operations.unchanged(self._stage, "KSTREAM-FOREACH-", supplier, name)

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Send each record to the first branch whose predicate is true."""
        return BranchedKStream(stream_operations.Branches(self._stage, name))

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """Merge the records of both streams. The order between records of different streams is not defined. The merged
        stream has no serdes.
        """
        _check_kind("KStream.merge", other, KStream)
        return KStream(stream_operations.merged(self._stage, other._stage, name))

    def process(
        self, supplier: Callable[[], Processor[K, V]], *, stores: Sequence[str] = (), name: str | None = None
    ) -> KStream[Any, Any]:
        """Hand each record to a processor of the user. `stores`: the names of stores that the processor uses, which
        were added before.

        The processor may forward records with other keys, so a later grouping or join repartitions the result.
        """
        return KStream(stream_operations.processed(self._stage, supplier, stores, name))

    def to(
        self,
        topic: str,
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        partitioner: StreamPartitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Write the records to a topic, which must exist. The partition of a windowed key is chosen by the key without
        its window.
        """
        checked_topics("KStream.to", (topic,))
        stream_operations.add_sink(self._stage.with_serdes(key_serde, value_serde), topic, partitioner, name)

    def repartition(
        self,
        *,
        name: str | None = None,
        partitions: int | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> KStream[K, V]:
        """Write the records to an internal topic, and read them from this topic. `partitions`: the number of partitions
        of the topic; None to use the number of partitions of the upstream topics.
        """
        stage = self._stage.with_serdes(key_serde, value_serde)
        return KStream(stream_operations.repartitioned(stage, partitions, partitioner, name))

    def to_table(
        self,
        *,
        store: StoreArgument = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Make a table of the newest value of every key. If the key may have changed, the stream is repartitioned
        first.
        """
        return KTable(stream_operations.as_table(self._stage.with_serdes(key_serde, value_serde), store, name))

    def group_by_key(
        self, *, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None, name: str | None = None
    ) -> KGroupedStream[K, V]:
        """Group the records by their key. `name`: the name of the repartition topic. The name is used only if the
        grouping needs a repartition topic.
        """
        return KGroupedStream(StreamGrouping(self._stage.with_serdes(key_serde, value_serde), name))

    def group_by(
        self,
        selector: Callable[[K, V], K2],
        *,
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> KGroupedStream[K2, V]:
        """Group the records by a new key, always through a repartition topic.

        `name`: the name of the node and of the repartition topic.
        """
        supplier = _operator("KStream.group_by", processors.selecting_keys, selector=selector)
        stage: Stage[K2, V] = stream_operations.with_new_keys(self._stage, "KSTREAM-KEY-SELECT-", supplier, name)
        return KGroupedStream(StreamGrouping(stage.with_serdes(key_serde, value_serde), name))

    def join(
        self,
        table: KTable[K, VT],
        joiner: Callable[[V, VT], V2],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Join each record with the table's present value of its key. Records whose key is not in the table are left
        out.

        The topics of stream and table must have the same number of partitions. `key_serde`, `value_serde`: the serdes
        of the stream's repartition topic. The two serdes are used only if the join needs a repartition topic.
        """
        check_functions("KStream.join", joiner=joiner)
        _check_table(table)
        stage = self._join_inputs.by_key(key_serde, value_serde, name)
        supplier = StreamOperator(joins.joining_table, table._stage.operator, joiner)
        return KStream(stream_operations.joined(stage, table._stage, supplier, "KSTREAM-JOIN-", name))

    def left_join(
        self,
        table: KTable[K, VT],
        joiner: Callable[[V, VT | None], V2],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Join each record with the table's present value of its key. A record without a key, or whose key is not in
        the table, is joined with None.
        """
        check_functions("KStream.left_join", joiner=joiner)
        _check_table(table)
        stage = self._join_inputs.by_key(key_serde, value_serde, name)
        supplier = StreamOperator(joins.left_joining_table, table._stage.operator, joiner)
        joined = stream_operations.joined(stage, table._stage, supplier, "KSTREAM-LEFTJOIN-", name)
        joined.node.takes_null_keys = True
        return KStream(joined)


class BranchedKStream(Generic[K, V]):
    """A stream that is split. The predicates are checked in the order of the calls of `branch`, and a record goes to
    the first branch whose predicate is true.

    The name of a branch's node is the name of the split, followed by the name or number of the branch.
    """

    def __init__(self, branches: stream_operations.Branches[K, V]) -> None:
        self._branches = branches
        self._streams: dict[str, KStream[K, V]] = {}

    def branch(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> BranchedKStream[K, V]:
        """Add a branch. `name`: the name of the branch; None to use the branch's number, counted from 1."""
        check_functions("BranchedKStream.branch", predicate=predicate)
        self._add(predicate, name)
        return self

    def default_branch(self, *, name: str | None = None) -> dict[str, KStream[K, V]]:
        """Add a branch for all other records. `name`: the name of the branch; None to name it 0. Returns the stream of
        each branch, by the name of the branch's node.
        """
        self._add(None, "0" if name is None else name)
        return dict(self._streams)

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Leave out all other records. Returns the stream of each branch, by the name of the branch's node."""
        return dict(self._streams)

    def _add(self, predicate: Callable[[K, V], bool] | None, suffix: str | None) -> None:
        stage = self._branches.add(predicate, suffix)
        self._streams[stage.name] = KStream(stage)


class _GroupedRecords(Generic[K, V, KT]):
    """The aggregations of a grouped stream. `KT`: the type of the keys of the resulting tables."""

    def __init__(self, grouping: StreamGrouping[K, V], windows: TimeWindows | None = None) -> None:
        self._grouping = grouping
        self._windows = windows

    def count(self, *, store: StoreArgument = None, name: str | None = None) -> KTable[KT, int]:
        """Count the records of each key, and of each window. In a stream without windows, records whose value is None
        are not counted.
        """
        return self._table(stream_aggregates.COUNT, self._grouping.settings_for_count(store), name)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *,
        value_serde: Serde[A],
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[KT, A]:
        """Aggregate the records of each key, and of each window.

        `aggregator`: a function that takes key, value and the aggregate so far, and returns the new aggregate. If the
        aggregator returns None, the key is removed from the table.
        """
        check_functions(f"{type(self).__name__}.aggregate", initializer=initializer, aggregator=aggregator)
        aggregation = StreamAggregation.by(initializer, aggregator, value_serde)
        return self._table(aggregation, checked_settings(store), name)

    def reduce(
        self, reducer: Callable[[V, V], V], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[KT, V]:
        """Combine the values of each key, and of each window. The first value of a key becomes the key's result
        unchanged.

        `reducer`: a function that takes the result so far and the next value, and returns the new result.
        """
        check_functions(f"{type(self).__name__}.reduce", reducer=reducer)
        aggregation = StreamAggregation.by_reducer(reducer, self._grouping.stream.value_serde)
        return self._table(aggregation, checked_settings(store), name)

    def _table(self, aggregation: StreamAggregation[A], settings: Materialized, name: str | None) -> KTable[KT, A]:
        return KTable(self._grouping.aggregated(self._windows, aggregation, settings, name))


class KGroupedStream(_GroupedRecords[K, V, K]):
    """The records of a stream, grouped by key. An aggregation makes a table."""

    def windowed_by(self, windows: TimeWindows) -> TimeWindowedKStream[K, V]:
        """Group the records of each key by windows of time."""
        _check_kind("KGroupedStream.windowed_by", windows, TimeWindows)
        return TimeWindowedKStream(self._grouping, windows)


class TimeWindowedKStream(_GroupedRecords[K, V, Windowed[K]]):
    """The records of a stream, grouped by key and window. An aggregation makes a table of windowed keys.

    The resulting table forwards every update of a window. The store keeps each window for `retention_ms`, by default
    the window size plus the grace period.
    """


class KTable(Generic[K, V]):
    """A table, which has the newest value of every key. A key with its value is an entry of the table. The nodes below
    the table get each change of an entry.

    A table keeps a store if the user names one, or if a join or an aggregation has to read the table.
    `key_serde`, `value_serde`: the serdes of an operation's result, and of the result's store. If `filter` has no serde
    arguments, the result keeps both serdes of the table. The results of other operations keep only the key serde. So an
    operation other than `filter` needs the argument `value_serde` if its result has a store.
    """

    def __init__(self, stage: TableStage[K, V]) -> None:
        self._stage = stage

    @property
    def name(self) -> str:
        """The name of the table's node in the topology."""
        return self._stage.name

    def filter(
        self,
        predicate: Callable[[K, V], bool],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Keep the entries for which the predicate is true. If the predicate becomes false for an entry, the entry is
        removed from the result.
        """
        check_functions("KTable.filter", predicate=predicate)
        result = table_operations.ResultingTable(key_serde, value_serde, store)
        return KTable(table_operations.filtered(self._stage, predicate, True, result, name))

    def filter_not(
        self,
        predicate: Callable[[K, V], bool],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Keep the entries for which the predicate is false."""
        check_functions("KTable.filter_not", predicate=predicate)
        result = table_operations.ResultingTable(key_serde, value_serde, store)
        return KTable(table_operations.filtered(self._stage, predicate, False, result, name))

    def map_values(
        self,
        mapper: Callable[[V], V2],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V2] | None = None,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        """Give each entry a new value. If a key is removed from this table, the mapper is not called, and the key is
        removed from the result.
        """
        check_functions("KTable.map_values", mapper=mapper)
        result = table_operations.ResultingTable(key_serde, value_serde, store)
        return KTable(table_operations.with_new_values(self._stage, partial(_without_key, mapper), result, name))

    def map_values_with_key(
        self,
        mapper: Callable[[K, V], V2],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V2] | None = None,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        """Give each entry a new value. The mapper must not change the key. The mapper is not called for a removed
        key.
        """
        check_functions("KTable.map_values_with_key", mapper=mapper)
        result = table_operations.ResultingTable(key_serde, value_serde, store)
        return KTable(table_operations.with_new_values(self._stage, mapper, result, name))

    def to_stream(self, *, name: str | None = None) -> KStream[K, V]:
        """Make a stream with every change of the table as a record. The record of a deleted key has the value None."""
        return KStream(table_operations.as_stream(self._stage, name))

    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2, V2]],
        *,
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Group the entries by a new key, always through a repartition topic.

        `name`: the name of the node and of the repartition topic.
        """
        check_functions("KTable.group_by", selector=selector)
        stage: Stage[K2, V2] = table_operations.under_new_keys(self._stage, selector, name)
        return KGroupedTable(TableGrouping(stage.with_serdes(key_serde, value_serde), name))

    def join(
        self,
        other: KTable[K, VT],
        joiner: Callable[[V, VT], V2],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V2] | None = None,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        """Join the values of each key that both tables have. The topics of both tables must have the same number of
        partitions.
        """
        _check_kind("KTable.join", other, KTable)
        check_functions("KTable.join", joiner=joiner)
        sides = joins.inner_join(self._stage.operator, other._stage.operator, joiner)
        result = table_operations.ResultingTable(key_serde, value_serde, store)
        return KTable(table_operations.joined(self._stage, other._stage, sides, result, name))

    def left_join(
        self,
        other: KTable[K, VT],
        joiner: Callable[[V, VT | None], V2],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V2] | None = None,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        """Join the values of each key of this table. If the other table does not have the key, the joiner gets None as
        the other table's value.
        """
        _check_kind("KTable.left_join", other, KTable)
        check_functions("KTable.left_join", joiner=joiner)
        sides = joins.left_join(self._stage.operator, other._stage.operator, joiner)
        result = table_operations.ResultingTable(key_serde, value_serde, store)
        return KTable(table_operations.joined(self._stage, other._stage, sides, result, name))


class KGroupedTable(Generic[K, V]):
    """The entries of a table, grouped by a new key. An aggregation makes a table. If the value of an entry is replaced
    or removed, the aggregation subtracts the old value from the aggregate of the old value's group.

    `adder`, `subtractor`: functions that add or subtract the value of an entry. Both functions take the key of the
    group, the value and the aggregate so far, and return the new aggregate.
    """

    def __init__(self, grouping: TableGrouping[K, V]) -> None:
        self._grouping = grouping

    def count(self, *, store: StoreArgument = None, name: str | None = None) -> KTable[K, int]:
        """Count the entries of each group."""
        return KTable(self._grouping.aggregated(table_aggregates.COUNT, store, name))

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        *,
        value_serde: Serde[A],
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, A]:
        """Aggregate the entries of each group."""
        check_functions("KGroupedTable.aggregate", initializer=initializer, adder=adder, subtractor=subtractor)
        aggregation = TableAggregation.by(initializer, adder, subtractor, value_serde)
        return KTable(self._grouping.aggregated(aggregation, store, name))

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Combine the values of each group. The first value of a group becomes the group's result unchanged.

        `adder`, `subtractor`: functions that add or subtract the value of an entry. Both functions take the group's
        result so far and the value, and return the new result.
        """
        check_functions("KGroupedTable.reduce", adder=adder, subtractor=subtractor)
        aggregation = TableAggregation.by_reducers(adder, subtractor, self._grouping.changes.value_serde)
        return KTable(self._grouping.aggregated(aggregation, store, name))


def _operator(operation: str, receiver: Callable[..., Receiver], **functions: Callable[..., object]) -> StreamOperator:
    """Raises TopologyError for a function that cannot be called. `receiver`: see `StreamOperator`."""
    check_functions(operation, **functions)
    return StreamOperator(receiver, *functions.values())


def _without_key(mapper: Callable[[V], V2], key: object, value: V) -> V2:
    return mapper(value)


def _check_kind(operation: str, given: object, wanted: type) -> None:
    if not isinstance(given, wanted):
        raise TopologyError(f"Invalid topology: {operation} takes a {wanted.__name__}, not a {type(given).__name__}")


def _check_table(other: object) -> None:
    if not isinstance(other, KTable):
        raise TopologyError(
            f"Invalid topology: a stream is joined with a KTable, not with a {type(other).__name__}; "
            "make one with `to_table`, or read the topic with `StreamsBuilder.table`"
        )
