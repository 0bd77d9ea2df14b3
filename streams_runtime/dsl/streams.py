"""Streams and tables, and their operations.

The classes are in one file, because the methods of each class return objects of the other classes. The modules
`stream_operations`, `table_operations`, `groupings` and others add the nodes of an operation to the graph. In every
call, the argument `name` is the name of the operation's node. If `name` is None, the name is generated. The argument
`store` is the name of a table's store, or a `Materialized` with more settings. If a call has no serde argument, the
operation uses the serde of its stream or table. The joiner of a join is a function with the arguments (left value,
right value). If the argument `with_key` of the join is True, the arguments of the joiner are (key, left value, right
value). The joiner must not change the key.
Source: `KStream`, `BranchedKStream`, `KGroupedStream`, `TimeWindowedKStream`, `SessionWindowedKStream`,
`CogroupedKStream`, `TimeWindowedCogroupedKStream`, `SessionWindowedCogroupedKStream`, `KTable`, `KGroupedTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from assignor.errors import IllegalArgumentError, TopologyError
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import K2, V2, K, V
from streams_runtime.dsl import (
    joins,
    stream_aggregates,
    stream_operations,
    suppression,
    table_aggregates,
    table_operations,
    transform_values,
)
from streams_runtime.dsl import stream_processors as processors
from streams_runtime.dsl.cogrouping import CogroupAggregation, Cogrouping
from streams_runtime.dsl.foreign_key_join import ForeignKeyJoin, joined_on_foreign_key
from streams_runtime.dsl.global_tables import GlobalKTable
from streams_runtime.dsl.groupings import StreamGrouping, TableGrouping
from streams_runtime.dsl.join_options import VT, GivenJoin, JoinOptions, StreamJoinOptions
from streams_runtime.dsl.materialized import Materialized, StoreArgument, checked_settings
from streams_runtime.dsl.stream_aggregates import A, StreamAggregation
from streams_runtime.dsl.stream_joins import StreamJoin, checked_windows
from streams_runtime.dsl.stream_processors import StreamOperator
from streams_runtime.dsl.streams_graph import Stage, TableStage
from streams_runtime.dsl.suppression import Suppressed
from streams_runtime.dsl.table_aggregates import TableAggregation
from streams_runtime.dsl.table_operations import ResultingTable, TableOptions
from streams_runtime.dsl.windows import (
    AggregationWindows,
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)
from streams_runtime.processors.api import (
    FixedKeyProcessor,
    Processor,
    StreamPartitioner,
    TopicNameExtractor,
    ValueTransformer,
)
from streams_runtime.processors.context import Receiver
from streams_runtime.processors.topology import check_functions, checked_topics
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.state_store import Windowed

KT = TypeVar("KT")


class KStream(Generic[K, V]):
    """A stream of records. A `KStream` has a method for each operation, as in Kafka. Applications get their first
    streams from a `StreamsBuilder`.
    """

    def __init__(self, stage: Stage[K, V]) -> None:
        self._stage = stage
        self._join_inputs = stream_operations.JoinInputs(stage)

    @property
    def name(self) -> str:
        """The name of the stream's node in the topology."""
        return self._stage.name

    def map(self, mapper: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None) -> KStream[K2, V2]:
        """Gives each record a new key and value."""
        supplier = _operator("KStream.map", processors.mapping, mapper=mapper)
        return KStream(stream_operations.with_new_records(self._stage, "KSTREAM-MAP-", supplier, name))

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None
    ) -> KStream[K2, V2]:
        """Replaces each record by any number of records with new keys and values."""
        supplier = _operator("KStream.flat_map", processors.flat_mapping, mapper=mapper)
        return KStream(stream_operations.with_new_records(self._stage, "KSTREAM-FLATMAP-", supplier, name))

    def select_key(self, selector: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]:
        """Gives each record a new key."""
        supplier = _operator("KStream.select_key", processors.selecting_keys, selector=selector)
        return KStream(stream_operations.with_new_keys(self._stage, "KSTREAM-KEY-SELECT-", supplier, name))

    def map_values(self, mapper: Callable[[V], V2], *, name: str | None = None) -> KStream[K, V2]:
        """Gives each record a new value. The mapper of `map_values_with_key` gets the key, too."""
        supplier = _operator("KStream.map_values", processors.mapping_values, "value", mapper=mapper)
        return KStream(stream_operations.with_new_values(self._stage, "KSTREAM-MAPVALUES-", supplier, name))

    def map_values_with_key(self, mapper: Callable[[K, V], V2], *, name: str | None = None) -> KStream[K, V2]:
        """Gives each record a new value. The mapper must not change the key."""
        supplier = _operator("KStream.map_values_with_key", processors.mapping_values_with_key, mapper=mapper)
        return KStream(stream_operations.with_new_values(self._stage, "KSTREAM-MAPVALUES-", supplier, name))

    def flat_map_values(self, mapper: Callable[[V], Iterable[V2]], *, name: str | None = None) -> KStream[K, V2]:
        """Replaces each record by any number of records with the same key and new values."""
        supplier = _operator("KStream.flat_map_values", processors.flat_mapping_values, "value", mapper=mapper)
        return KStream(stream_operations.with_new_values(self._stage, "KSTREAM-FLATMAPVALUES-", supplier, name))

    def flat_map_values_with_key(
        self, mapper: Callable[[K, V], Iterable[V2]], *, name: str | None = None
    ) -> KStream[K, V2]:
        """Replaces each record by any number of records with the same key and new values. The mapper must not change
        the key.
        """
        supplier = _operator("KStream.flat_map_values_with_key", processors.flat_mapping_values_with_key, mapper=mapper)
        return KStream(stream_operations.with_new_values(self._stage, "KSTREAM-FLATMAPVALUES-", supplier, name))

    def filter(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> KStream[K, V]:
        """Returns the stream of the records for which the predicate is true."""
        supplier = _operator("KStream.filter", processors.filtering, predicate=predicate)
        return KStream(stream_operations.unchanged(self._stage, "KSTREAM-FILTER-", supplier, name))

    def filter_not(self, predicate: Callable[[K, V], bool], *, name: str | None = None) -> KStream[K, V]:
        """Returns the stream of the records for which the predicate is false."""
        supplier = _operator("KStream.filter_not", processors.filtering_out, predicate=predicate)
        return KStream(stream_operations.unchanged(self._stage, "KSTREAM-FILTER-", supplier, name))

    def map_batches(
        self,
        function: Callable[[RecordColumns[K, V]], RecordColumns[K2, V2] | tuple[Iterable[K2], Iterable[V2]]],
        *,
        retries_one_by_one: bool = True,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Gives the records of a batch new keys and values. The function gets the batch as columns.

        The function returns a pair of columns (keys, values) with a row for each record, or `RecordColumns` with any
        number of rows. If the function returns a pair, the records keep their timestamps. The result for a record must
        not depend on the other records, because the runtime decides where a batch ends. `retries_one_by_one`: True to
        call the function again, once for each record, if it raises an error for a batch.
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
        """Gives the records of a batch new values. The function gets the batch as columns, like the function of
        `map_batches`, and returns one column with the new values.
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
        """Keeps the records for which the function returns True. The function gets a batch as columns, like the
        function of `map_batches`, and returns a column with True or False for each record.
        """
        check_functions("KStream.filter_batches", function=function)
        supplier = partial(processors.KStreamFilterBatches, function, retries_one_by_one)
        return KStream(stream_operations.unchanged(self._stage, "KSTREAM-FILTERBATCHES-", supplier, name))

    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
        """Calls the function `action` with each record, and then forwards the record."""
        supplier = _operator("KStream.peek", processors.peeking, action=action)
        return KStream(stream_operations.unchanged(self._stage, "KSTREAM-PEEK-", supplier, name))

    def for_each(self, action: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Calls the function `action` with each record. Forwards nothing."""
        supplier = _operator("KStream.for_each", processors.ending, action=action)
        stream_operations.unchanged(self._stage, "KSTREAM-FOREACH-", supplier, name)

    def print(
        self,
        path: str | Path | None = None,
        *,
        label: str | None = None,
        text: Callable[[K, V], object] | None = None,
        name: str | None = None,
    ) -> None:
        """Writes each record as a line `[label]: key, value`. Forwards nothing. Source: `KStream.print`, `Printed`.

        `path`: the file to which lines are appended, on the machine of the task; None for stdout. `label`: None for the
        name of the node above. `text`: a function that returns the text after the label.
        """
        if text is not None:
            check_functions("KStream.print", text=text)
        label = self._stage.node.name if label is None else label
        supplier = StreamOperator(processors.printing, None if path is None else Path(path), label, text)
        stream_operations.unchanged(self._stage, "KSTREAM-PRINTER-", supplier, name)

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Splits the stream: each record goes to the first branch whose predicate accepts the record."""
        return BranchedKStream(stream_operations.Branches(self._stage, name))

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """Merges the records of both streams. The order of two records from different streams is not defined. The
        merged stream has no serdes.
        """
        _check_kind("KStream.merge", other, KStream)
        return KStream(stream_operations.merged(self._stage, other._stage, name))

    def process(
        self, supplier: Callable[[], Processor[K, V]], *, stores: Sequence[str] = (), name: str | None = None
    ) -> KStream[Any, Any]:
        """Calls a processor of the user with each record. `stores`: the name of the store that the processor uses, or
        several names. `StreamsBuilder.add_state_store` adds such stores.

        The processor may forward records with new keys, so a grouping or join of the result repartitions the records.
        """
        return KStream(stream_operations.processed(self._stage, supplier, stores, name))

    def process_values(
        self, supplier: Callable[[], FixedKeyProcessor[K, V]], *, stores: Sequence[str] = (), name: str | None = None
    ) -> KStream[K, Any]:
        """Calls a processor of the user with each record. The processor does not change keys, so a grouping or join of
        the result needs no repartition topic. `stores`: as in `process`.
        """
        return KStream(stream_operations.values_processed(self._stage, supplier, stores, name))

    def to(
        self,
        topic: str | TopicNameExtractor,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        partitioner: StreamPartitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Writes the records to a topic, which must exist. `topic`: the name of the topic, or a function that chooses
        the topic of each record. The partition of a windowed key is chosen by the key without its window.
        """
        if not callable(topic):
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
        """Writes the records to an internal topic, and returns the stream that reads this topic. `partitions`: the
        topic's number of partitions; None to use the number of partitions of the input topics.
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
        """Makes a table with the newest value of every key. If keys may have changed, the stream is repartitioned
        first.
        """
        return KTable(stream_operations.as_table(self._stage.with_serdes(key_serde, value_serde), store, name))

    def group_by_key(
        self, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None, *, name: str | None = None
    ) -> KGroupedStream[K, V]:
        """Groups the records by their key. `name`: the name of the repartition topic, if the grouping needs one."""
        return KGroupedStream(StreamGrouping(self._stage.with_serdes(key_serde, value_serde), name))

    def group_by(
        self,
        selector: Callable[[K, V], K2],
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        name: str | None = None,
    ) -> KGroupedStream[K2, V]:
        """Groups the records by a new key. The records always go through a repartition topic.

        `name`: the name of the node and of the repartition topic.
        """
        supplier = _operator("KStream.group_by", processors.selecting_keys, selector=selector)
        stage: Stage[K2, V] = stream_operations.with_new_keys(self._stage, "KSTREAM-KEY-SELECT-", supplier, name)
        return KGroupedStream(StreamGrouping(stage.with_serdes(key_serde, value_serde), name))

    def join(
        self,
        other: KTable[K, VT] | KStream[K, VT] | GlobalKTable[Any, VT],
        joiner: Callable[[V, VT], V2] | Callable[[K, V, VT], V2],
        windows: JoinWindows | None = None,
        **options: Unpack[JoinOptions[K, V, VT]],
    ) -> KStream[K, V2]:
        """Joins each record with the table's present value of the record's key, or with the records of the other stream
        that have the same key and are within the `windows`. If the table is versioned, joins each record with the value
        that was valid at the timestamp of the record. If there is no such value or record, the record is left out.

        The topics of both inputs must have the same number of partitions, except those of a global table. `windows`:
        for a join with a stream. See `stream_joins`. The `options` depend on the type of `other`; see `JoinOptions`.
        """
        return self._join("KStream.join", other, joiner, GivenJoin(windows, **options))

    def left_join(
        self,
        other: KTable[K, VT] | KStream[K, VT] | GlobalKTable[Any, VT],
        joiner: Callable[[V, VT | None], V2] | Callable[[K, V, VT | None], V2],
        windows: JoinWindows | None = None,
        **options: Unpack[JoinOptions[K, V, VT]],
    ) -> KStream[K, V2]:
        """Joins records like `join`. If the record has no key, or if there is no value or record to join it with, the
        record is joined with None. In a join of two streams, this happens when the record's window closes. As in Kafka,
        a join with `grace_ms` fails for a record without key.
        """
        return self._join("KStream.left_join", other, joiner, GivenJoin(windows, **options, keeps_left=True))

    def outer_join(
        self,
        other: KStream[K, VT],
        joiner: Callable[[V | None, VT | None], V2] | Callable[[K, V | None, VT | None], V2],
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions[K, V, VT]],
    ) -> KStream[K, V2]:
        """Joins two streams like `left_join`, and also joins None with the records of the other stream that have no
        partner.
        """
        _check_kind("KStream.outer_join", other, KStream)
        given = GivenJoin(windows, **options, keeps_left=True, keeps_right=True)
        return self._join("KStream.outer_join", other, joiner, given)

    def _join(
        self,
        operation: str,
        other: KTable[K, VT] | KStream[K, VT] | GlobalKTable[Any, VT],
        joiner: Callable[..., V2],
        given: GivenJoin,
    ) -> KStream[K, V2]:
        _check_joiner(operation, joiner, given.with_key)
        with_three = joins.joiner_with_key(joiner, given.with_key)
        if isinstance(other, KStream):
            given.check(operation, "stream")
            join = StreamJoin(with_three, checked_windows(given.windows), given)
            left_name, right_name = join.repartition_names
            left = self._join_inputs.by_key(given.key_serde, given.value_serde, left_name)
            right = other._join_inputs.by_key(given.key_serde, given.other_value_serde, right_name)
            return KStream(join.added(left, right))
        if isinstance(other, GlobalKTable):
            given.check(operation, "global table")
            check_functions(operation, "key, value", key_selector=given.key_selector)
            selector: Any = given.key_selector
            return KStream(other.join(self._stage, selector, with_three, left=given.keeps_left, name=given.name))
        if not isinstance(other, KTable):
            raise TopologyError(
                "Invalid topology: a stream is joined with a KTable, a GlobalKTable or a KStream, not with a "
                f"{type(other).__name__}; make a table with `to_table`, or read the topic with `StreamsBuilder.table`"
            )
        given.check(operation, "table")
        stage = self._join_inputs.by_key(given.key_serde, given.value_serde, given.name)
        table_join = stream_operations.TableJoin(with_three, given.keeps_left, given.grace_ms)
        return KStream(stream_operations.joined(stage, other._stage, table_join, given.name))


BranchFunction = Callable[[KStream[K, V]], KStream[Any, Any] | None]
"""The type of a function that continues the stream of a branch. Source: `Branched.withFunction`, `withConsumer`."""


class BranchedKStream(Generic[K, V]):
    """A stream that is split. A record goes to the first branch whose predicate accepts the record. The predicates are
    checked in the order of the calls of `branch`.

    The name of a branch's node is the split's name, followed by the branch's name or number.
    """

    def __init__(self, branches: stream_operations.Branches[K, V]) -> None:
        self._branches = branches
        self._streams: dict[str, KStream[Any, Any]] = {}

    def branch(
        self,
        predicate: Callable[[K, V], bool],
        *,
        function: BranchFunction[K, V] | None = None,
        name: str | None = None,
    ) -> BranchedKStream[K, V]:
        """Adds a branch. `name`: the name of the branch; None to use the branch's number, counted from 1. `function`:
        is called at once with the branch's stream. If the function returns a stream, this stream takes the place of the
        branch's stream in the result of `default_branch` and `no_default_branch`. If it returns None, the result does
        not contain the branch.
        """
        check_functions("BranchedKStream.branch", "key, value", predicate=predicate)
        self._add(predicate, name, function)
        return self

    def default_branch(
        self, *, function: BranchFunction[K, V] | None = None, name: str | None = None
    ) -> dict[str, KStream[Any, Any]]:
        """Adds a branch for the records that no predicate accepts. `name`: the name of the branch; None to name it 0.
        `function`: as in `branch`. Returns the streams of all branches, by the name of the branch's node.
        """
        self._add(None, "0" if name is None else name, function)
        return dict(self._streams)

    def no_default_branch(self) -> dict[str, KStream[Any, Any]]:
        """Leaves out the records that no predicate accepts. Returns the streams of all branches, by the name of
        the branch's node.
        """
        return dict(self._streams)

    def _add(
        self, predicate: Callable[[K, V], bool] | None, suffix: str | None, function: BranchFunction[K, V] | None
    ) -> None:
        if function is not None:
            check_functions("BranchedKStream.branch", function=function)
        stage = self._branches.add(predicate, suffix)
        stream: KStream[Any, Any] | None = KStream(stage)
        if function is not None:
            stream = function(KStream(stage))
        if stream is not None:
            self._streams[stage.name] = stream


class _GroupedRecords(Generic[K, V, KT]):
    """The aggregations of a grouped stream. `KT`: the type of the keys of the resulting tables."""

    def __init__(
        self,
        grouping: StreamGrouping[K, V],
        windows: AggregationWindows | None = None,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:
        self._grouping = grouping
        self._windows = windows
        self._emit = emit

    def count(self, *, store: StoreArgument = None, name: str | None = None) -> KTable[KT, int]:
        """Counts the records of each key. In a windowed stream, counts the records of each key and window. In a stream
        without windows, records whose value is None are not counted.
        """
        return self._table(stream_aggregates.COUNT, self._grouping.settings_for_count(store, self._windows), name)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *,
        value_serde: Serde[A],
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[KT, A]:
        """Aggregates the records of each key. In a windowed stream, aggregates the records of each key and window.

        `aggregator`: a function with the arguments (key, value, old aggregate), which returns the new aggregate. If the
        aggregator returns None, the key is removed from the table.
        """
        check_functions(f"{type(self).__name__}.aggregate", "", initializer=initializer)
        check_functions(f"{type(self).__name__}.aggregate", "key, value, old aggregate", aggregator=aggregator)
        aggregation = StreamAggregation.by(initializer, aggregator, value_serde)
        return self._table(aggregation, checked_settings(store), name)

    def reduce(
        self, reducer: Callable[[V, V], V], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[KT, V]:
        """Combines the values of each key. In a windowed stream, combines the values of each key and window. If there
        is only one value, the result is this value.

        `reducer`: a function with the arguments (old result, next value), which returns the new result.
        """
        check_functions(f"{type(self).__name__}.reduce", "old result, value", reducer=reducer)
        aggregation = StreamAggregation.by_reducer(reducer, self._grouping.stream.value_serde)
        return self._table(aggregation, checked_settings(store), name)

    def _table(self, aggregation: StreamAggregation[A], settings: Materialized, name: str | None) -> KTable[KT, A]:
        return KTable(self._grouping.aggregated(self._windows, self._emit, aggregation, settings, name))


class _WindowedRecords(_GroupedRecords[K, V, Windowed[K]]):
    """The aggregations of a grouped stream with windows."""

    def emit_strategy(self, strategy: EmitStrategy) -> Self:
        """Returns the same windows with another choice of the forwarded results. Raises IllegalArgumentError for
        unlimited windows that should be forwarded when they close.
        """
        _check_kind(f"{type(self).__name__}.emit_strategy", strategy, EmitStrategy)
        if isinstance(self._windows, UnlimitedWindows) and strategy is EmitStrategy.ON_WINDOW_CLOSE:
            raise IllegalArgumentError("ON_WINDOW_CLOSE emit strategy cannot be used for UnlimitedWindows")
        return type(self)(self._grouping, self._windows, strategy)


class KGroupedStream(_GroupedRecords[K, V, K]):
    """The records of a stream, grouped by key. An aggregation makes a table."""

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: Windows) -> TimeWindowedKStream[K, V]: ...
    def windowed_by(self, windows: AggregationWindows) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Groups the records of each key by windows."""
        _check_windows("KGroupedStream.windowed_by", windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self._grouping, windows)
        return TimeWindowedKStream(self._grouping, windows)

    def cogroup(self, aggregator: Callable[[K, V, A], A]) -> CogroupedKStream[K, A]:
        """Begins an aggregation of several grouped streams into one table. `aggregator`: a function for the records of
        this stream, with the arguments (key, value, old aggregate), which returns the new aggregate.
        """
        cogrouped: CogroupedKStream[K, A] = CogroupedKStream(Cogrouping())
        return cogrouped.cogroup(self, aggregator)


class TimeWindowedKStream(_WindowedRecords[K, V]):
    """The records of a stream, grouped by key and by time windows, unlimited windows or sliding windows. An aggregation
    makes a table of windowed keys.

    The resulting table forwards every update of a window, unless `emit_strategy` chooses otherwise. The store keeps
    each window for `retention_ms`; `Materialized` describes its default. Sliding windows leave out records without
    value.
    """


class SessionWindowedKStream(_WindowedRecords[K, V]):
    """The records of a stream, grouped by key and session. An aggregation makes a table of windowed keys.

    If a record extends a session or merges sessions, the table removes the old sessions and adds a new session. The
    timestamp of a session is its end. The store keeps each session for `retention_ms` after its end.
    """

    def aggregate(  # type: ignore[override]  # as in Kafka, sessions need one more function
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        merger: Callable[[K, A, A], A],
        *,
        value_serde: Serde[A],
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """Aggregates the records of each key and session.

        `aggregator`: a function with the arguments (key, value, old aggregate), which returns the new aggregate.
        `merger`: a function with the arguments (key, aggregate, aggregate), which returns the aggregate of the merged
        sessions. If a function returns None, the session is removed from the table.
        """
        check_functions("SessionWindowedKStream.aggregate", "", initializer=initializer)
        check_functions("SessionWindowedKStream.aggregate", "key, value, old aggregate", aggregator=aggregator)
        check_functions("SessionWindowedKStream.aggregate", "key, aggregate, aggregate", merger=merger)
        aggregation = StreamAggregation.by(initializer, aggregator, value_serde, merger)
        return self._table(aggregation, checked_settings(store), name)


class _CogroupedRecords(Generic[K, A, KT]):
    """The aggregation of a cogrouped stream. `KT`: the type of the keys of the resulting table."""

    def __init__(self, cogrouping: Cogrouping[K, A], windows: AggregationWindows | None = None) -> None:
        self._cogrouping = cogrouping
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[A],
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[KT, A]:
        """Aggregates the records of each key, or of each key and window, with the aggregator of their stream.

        `name`: the beginning of the names of the nodes. `key_serde`: the serde of the keys in the store.
        """
        check_functions(f"{type(self).__name__}.aggregate", "", initializer=initializer)
        aggregation = CogroupAggregation(initializer, key_serde, value_serde)
        return KTable(self._cogrouping.aggregated(self._windows, aggregation, checked_settings(store), name))


class CogroupedKStream(_CogroupedRecords[K, A, K]):
    """Several grouped streams, each with its aggregator. An aggregation makes one table of all of them."""

    def cogroup(self, other: KGroupedStream[K, VT], aggregator: Callable[[K, VT, A], A]) -> CogroupedKStream[K, A]:
        """Adds a grouped stream with its aggregator, and returns this object."""
        _check_kind("CogroupedKStream.cogroup", other, KGroupedStream)
        check_functions("CogroupedKStream.cogroup", "key, value, old aggregate", aggregator=aggregator)
        self._cogrouping.add(other._grouping, aggregator)
        return self

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, A]: ...
    @overload
    def windowed_by(self, windows: Windows) -> TimeWindowedCogroupedKStream[K, A]: ...
    def windowed_by(
        self, windows: AggregationWindows
    ) -> TimeWindowedCogroupedKStream[K, A] | SessionWindowedCogroupedKStream[K, A]:
        """Groups the records of each key by windows."""
        _check_windows("CogroupedKStream.windowed_by", windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._cogrouping, windows)
        return TimeWindowedCogroupedKStream(self._cogrouping, windows)


class TimeWindowedCogroupedKStream(_CogroupedRecords[K, A, Windowed[K]]):
    """Several grouped streams, grouped by key and window. An aggregation makes a table of windowed keys."""


class SessionWindowedCogroupedKStream(_CogroupedRecords[K, A, Windowed[K]]):
    """Several grouped streams, grouped by key and session. An aggregation makes a table of windowed keys."""

    def aggregate(  # type: ignore[override]  # as in Kafka, sessions need one more function
        self,
        initializer: Callable[[], A],
        merger: Callable[[K, A, A], A],
        *,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[A],
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """Aggregates the records of each key and session, with the aggregator of their stream. `merger`: as in
        `SessionWindowedKStream.aggregate`. The other arguments are those of `CogroupedKStream.aggregate`.
        """
        check_functions("SessionWindowedCogroupedKStream.aggregate", "", initializer=initializer)
        check_functions("SessionWindowedCogroupedKStream.aggregate", "key, aggregate, aggregate", merger=merger)
        aggregation = CogroupAggregation(initializer, key_serde, value_serde, merger)
        return KTable(self._cogrouping.aggregated(self._windows, aggregation, checked_settings(store), name))


class KTable(Generic[K, V]):
    """A table with the newest value of every key. A key with its value is an entry of the table. The nodes below the
    table get each change of an entry.

    A table has a store if the user names a store, or if a join or an aggregation has to read the table.
    The arguments `key_serde` and `value_serde` are the serdes of the resulting table and its store. Without these
    arguments, `filter` and `filter_not` use both serdes of this table. Other operations use only the key serde of this
    table, so they need the argument `value_serde` if the result has a store.
    """

    def __init__(self, stage: TableStage[K, V]) -> None:
        self._stage = stage

    @property
    def name(self) -> str:
        """The name of the table's node in the topology."""
        return self._stage.name

    def filter(self, predicate: Callable[[K, V], bool], **result: Unpack[TableOptions[K, V]]) -> KTable[K, V]:
        """Returns the table of the entries for which the predicate is true. If the predicate becomes false for an
        entry, the entry is removed from the resulting table.
        """
        check_functions("KTable.filter", "key, value", predicate=predicate)
        return KTable(table_operations.filtered(self._stage, predicate, True, ResultingTable(**result)))

    def filter_not(self, predicate: Callable[[K, V], bool], **result: Unpack[TableOptions[K, V]]) -> KTable[K, V]:
        """Returns the table of the entries for which the predicate is false."""
        check_functions("KTable.filter_not", "key, value", predicate=predicate)
        return KTable(table_operations.filtered(self._stage, predicate, False, ResultingTable(**result)))

    def map_values(self, mapper: Callable[[V], V2], **result: Unpack[TableOptions[K, V2]]) -> KTable[K, V2]:
        """Gives each entry a new value. If a key is removed from this table, it is removed from the result. The mapper
        is not called for a removed key.
        """
        check_functions("KTable.map_values", "value", mapper=mapper)
        return KTable(
            table_operations.with_new_values(self._stage, partial(_without_key, mapper), ResultingTable(**result))
        )

    def map_values_with_key(self, mapper: Callable[[K, V], V2], **result: Unpack[TableOptions[K, V2]]) -> KTable[K, V2]:
        """Gives each entry a new value. The mapper must not change the key. The mapper is not called for a removed
        key.
        """
        check_functions("KTable.map_values_with_key", "key, value", mapper=mapper)
        return KTable(table_operations.with_new_values(self._stage, mapper, ResultingTable(**result)))

    def transform_values(
        self,
        supplier: Callable[[], ValueTransformer[K, V, V2]],
        *,
        stores: Sequence[str] = (),
        **result: Unpack[TableOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Gives each entry a new value, by a transformer of the user. The transformer is also called for a removed key.
        `stores`: the names of the stores that the transformer uses.

        If the table has no store, each node that reads the table has its own transformer, and this transformer can use
        only the stores of that node.
        """
        check_functions("KTable.transform_values", supplier=supplier)
        return KTable(transform_values.transformed(self._stage, supplier, stores, ResultingTable(**result)))

    @overload
    def to_stream(self, selector: None = None, *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, selector: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]: ...
    def to_stream(self, selector: Callable[[K, V], Any] | None = None, *, name: str | None = None) -> KStream[Any, V]:
        """Makes a stream with a record for every change of the table. The record for a removed key has the value
        None. `selector`: gives each record a new key; None to keep the key.
        """
        stream = KStream(table_operations.as_stream(self._stage, name))
        return stream if selector is None else stream.select_key(selector)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Returns a table that forwards fewer changes: only the last result of a window, or only the last of several
        changes of a key. The result forwards changes only while this table gets records. `name`: the name of the node,
        and, with the suffix `-store`, of the buffer.
        """
        _check_kind("KTable.suppress", suppressed, Suppressed)
        return KTable(suppression.suppressed(self._stage, suppressed, name))

    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2, V2]],
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
        *,
        name: str | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Groups the entries by a new key. The changes always go through a repartition topic.

        `name`: the name of the node and of the repartition topic.
        """
        check_functions("KTable.group_by", "key, value", selector=selector)
        stage: Stage[K2, V2] = table_operations.under_new_keys(self._stage, selector, name)
        return KGroupedTable(TableGrouping(stage.with_serdes(key_serde, value_serde), name))

    def join(
        self,
        other: KTable[K, VT],
        joiner: Callable[[V, VT], V2] | Callable[[K, V, VT], V2],
        *,
        with_key: bool = False,
        **result: Unpack[TableOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Joins the two values of each key that both tables have. The topics of both tables must have the same number
        of partitions.
        """
        with_three = _table_joiner("KTable.join", other, joiner, with_key)
        given = ResultingTable(**result)
        return KTable(table_operations.joined(self._stage, other._stage, with_three, (True, True), given))

    def left_join(
        self,
        other: KTable[K, VT],
        joiner: Callable[[V, VT | None], V2] | Callable[[K, V, VT | None], V2],
        *,
        with_key: bool = False,
        **result: Unpack[TableOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Joins the two values of each key of this table. If the other table does not have the key, the joiner gets
        None as its value.
        """
        with_three = _table_joiner("KTable.left_join", other, joiner, with_key)
        given = ResultingTable(**result)
        return KTable(table_operations.joined(self._stage, other._stage, with_three, (True, False), given))

    def outer_join(
        self,
        other: KTable[K, VT],
        joiner: Callable[[V | None, VT | None], V2] | Callable[[K, V | None, VT | None], V2],
        *,
        with_key: bool = False,
        **result: Unpack[TableOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Joins the two values of each key that at least one of the tables has. If a table does not have the key, the
        joiner gets None as its value.
        """
        with_three = _table_joiner("KTable.outer_join", other, joiner, with_key)
        given = ResultingTable(**result)
        return KTable(table_operations.joined(self._stage, other._stage, with_three, (False, False), given))

    def foreign_key_join(
        self,
        other: KTable[KT, VT],
        foreign_key: Callable[[K, V], KT | None],
        joiner: Callable[..., V2],
        *,
        with_key: bool = False,
        partitioner: StreamPartitioner | None = None,
        other_partitioner: StreamPartitioner | None = None,
        **result: Unpack[TableOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Joins each entry of this table with the entry of the other table whose key the function `foreign_key`
        returns. The result has the keys of this table. An entry has no result if `foreign_key` returns None, or if the
        other table does not have the key. A change of either table changes the result.

        The tables may have different numbers of partitions, because the join goes through two internal topics.
        `joiner`: a function (value, other value); if `with_key` is True, a function (key, value, other value).
        `partitioner`, `other_partitioner`: the partitioners with which the topics of this table and of the other table
        were written; None for Kafka's hash of the key. The join calls them with the value None. There are this many
        parameters because the partitioners are those of Kafka's `TableJoined`.
        """
        with_three = _table_joiner("KTable.foreign_key_join", other, joiner, with_key, foreign_key=foreign_key)
        join = ForeignKeyJoin(foreign_key, with_three, False, partitioner, other_partitioner)
        return KTable(joined_on_foreign_key(self._stage, other._stage, join, ResultingTable(**result)))

    def foreign_key_left_join(
        self,
        other: KTable[KT, VT],
        foreign_key: Callable[[K, V], KT | None],
        joiner: Callable[..., V2],
        *,
        with_key: bool = False,
        partitioner: StreamPartitioner | None = None,
        other_partitioner: StreamPartitioner | None = None,
        **result: Unpack[TableOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Joins like `foreign_key_join`, but each entry of this table has a result. If `foreign_key` returns None, or
        if the other table does not have the key, the joiner gets None as the other table's value.
        """
        with_three = _table_joiner("KTable.foreign_key_left_join", other, joiner, with_key, foreign_key=foreign_key)
        join = ForeignKeyJoin(foreign_key, with_three, True, partitioner, other_partitioner)
        return KTable(joined_on_foreign_key(self._stage, other._stage, join, ResultingTable(**result)))


class KGroupedTable(Generic[K, V]):
    """The entries of a table, grouped by a new key. An aggregation makes a table. If an entry is changed or removed,
    the aggregation subtracts its old value from the aggregate of its old group. The function `adder` adds the value of
    an entry to an aggregate. The function `subtractor` subtracts the value from an aggregate. Both functions have the
    arguments (key of the group, value, old aggregate) and return the new aggregate.
    """

    def __init__(self, grouping: TableGrouping[K, V]) -> None:
        self._grouping = grouping

    def count(self, *, store: StoreArgument = None, name: str | None = None) -> KTable[K, int]:
        """Counts the entries of each group."""
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
        """Aggregates the entries of each group."""
        check_functions("KGroupedTable.aggregate", "", initializer=initializer)
        functions = {"adder": adder, "subtractor": subtractor}
        check_functions("KGroupedTable.aggregate", "key, value, old aggregate", **functions)
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
        """Combines the values of each group. The first result of a group is its first value. The function `adder` adds
        the value of an entry to a result. The function `subtractor` subtracts the value from a result. Both functions
        have the arguments (group's old result, value) and return the new result.
        """
        check_functions("KGroupedTable.reduce", "old result, value", adder=adder, subtractor=subtractor)
        aggregation = TableAggregation.by_reducers(adder, subtractor, self._grouping.changes.value_serde)
        return KTable(self._grouping.aggregated(aggregation, store, name))


def _operator(
    operation: str, receiver: Callable[..., Receiver], arguments: str = "key, value", /, **functions: Callable[..., Any]
) -> StreamOperator:
    """Raises TopologyError if a given function cannot be called with the arguments. `receiver`: the function that makes
    the operator's receiver.
    """
    check_functions(operation, arguments, **functions)
    return StreamOperator(receiver, *functions.values())


def _check_joiner(operation: str, joiner: object, with_key: bool) -> None:
    check_functions(operation, "key, value, other value" if with_key else "value, other value", joiner=joiner)


def _without_key(mapper: Callable[[V], V2], key: object, value: V) -> V2:
    return mapper(value)


def _check_kind(operation: str, given: object, *wanted: type) -> None:
    if not isinstance(given, wanted):
        kinds = " or ".join(kind.__name__ for kind in wanted)
        raise TopologyError(f"Invalid topology: {operation} takes a {kinds}, not a {type(given).__name__}")


def _table_joiner(
    operation: str,
    other: object,
    joiner: Callable[..., object],
    with_key: bool,
    **functions: Callable[..., object],
) -> joins.Joiner:
    _check_kind(operation, other, KTable)
    check_functions(operation, "key, value", **functions)
    _check_joiner(operation, joiner, with_key)
    return joins.joiner_with_key(joiner, with_key)


def _check_windows(operation: str, windows: object) -> None:
    _check_kind(operation, windows, TimeWindows, UnlimitedWindows, SlidingWindows, SessionWindows)
