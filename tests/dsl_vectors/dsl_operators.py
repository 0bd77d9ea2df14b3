"""The operators of the DSL by the names of cases. One that is not here is not known."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from streams_runtime import (
    GlobalKTable,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    StreamsBuilder,
    Topology,
)
from streams_runtime.dsl.streams import TimeWindowedKStream
from tests.dsl_vectors.cases import Case, NotKnown
from tests.dsl_vectors.functions import AGGREGATORS, FLAT_PAIRS, FLAT_VALUES, KEYS, PREDICATES, pair_function
from tests.dsl_vectors.join_operators import join_streams
from tests.dsl_vectors.operators import MaterializedOption, Operator, materialized
from tests.dsl_vectors.processors import processor_supplier
from tests.dsl_vectors.table_join_operators import foreign_key_join


@dataclass
class DslMaker:
    """Makes the topology of a case.

    `without_metadata`: as in `CaseProcessor`. `store_names`: of the stores that the case names. `initial_values`: of
    the aggregates of streams, by name of their node.
    """

    case: Case
    without_metadata: str
    store_names: list[str] = field(default_factory=list)
    initial_values: dict[str, Any] = field(default_factory=dict)
    builder: StreamsBuilder = field(default_factory=StreamsBuilder)
    variables: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Topology:
        """Raises NotKnown, and what the DSL raises for a topology that it refuses."""
        for written in self.case.operators:
            operator = Operator(written)
            made = self._apply(operator)
            operator.check_all_used()
            if operator.output is not None and made is not None:
                self.variables[operator.output] = made
        optimization = self.case.configs.get("topology.optimization")
        return self.builder.build(None if optimization is None else {"topology.optimization": optimization})

    def _apply(self, operator: Operator) -> Any:
        if not operator.inputs:
            if operator.kind not in _ON_BUILDER:
                raise NotKnown(operator.kind)
            return _ON_BUILDER[operator.kind](self, operator)
        receiver, *others = (self.variables[name] for name in operator.inputs)
        if isinstance(receiver, KStream) and operator.kind in _SIMPLE:
            return _SIMPLE[operator.kind](operator, receiver, *others)
        method = _ON.get((type(receiver), operator.kind))
        if method is None:
            raise NotKnown(f"{operator.kind} of {_NOUNS.get(type(receiver), type(receiver).__name__)}")
        return method(self, operator, receiver, *others)

    def materialized(self, operator: Operator) -> MaterializedOption:
        option = materialized(operator)
        if option.store.name is not None:
            self.store_names.append(option.store.name)
        return option


def same(value: Any) -> Any:
    return value


Method = TypeVar("Method", bound=Callable[..., Any])

_ON_BUILDER: dict[str, Callable[..., Any]] = {}
_ON: dict[tuple[type, str], Callable[..., Any]] = {}
_NOUNS: dict[type, str] = {
    KStream: "a stream",
    KTable: "a table",
    KGroupedStream: "a grouped stream",
    KGroupedTable: "a grouped table",
    TimeWindowedKStream: "a windowed stream",
}


def on_builder(kind: str) -> Callable[[Method], Method]:
    def register(method: Method) -> Method:
        _ON_BUILDER[kind] = method
        return method

    return register


def on(receiver: type, *kinds: str) -> Callable[[Method], Method]:
    """The decorated function takes the maker, the operator, the receiver, and what else the operator takes in."""

    def register(method: Method) -> Method:
        for kind in kinds:
            _ON[receiver, kind] = method
        return method

    return register


# of the builder


@on_builder("stream")
def stream(maker: DslMaker, operator: Operator) -> Any:
    return maker.builder.stream(
        operator["topics"],
        operator.key_serde,
        operator.value_serde,
        timestamp_extractor=operator.timestamp_extractor(),
        name=operator.name,
    )


@on_builder("table")
def table(maker: DslMaker, operator: Operator) -> Any:
    return maker.builder.table(
        operator["topic"],
        operator.key_serde,
        operator.value_serde,
        store=maker.materialized(operator).store,
        timestamp_extractor=operator.timestamp_extractor(),
        name=operator.name,
    )


@on_builder("addStateStore")
def add_state_store(maker: DslMaker, operator: Operator) -> None:
    maker.store_names.append(operator["store"])
    maker.builder.add_state_store(operator.store_builder())


# of a stream


def _do_nothing(_key: Any, _value: Any) -> None:
    pass


_SIMPLE: dict[str, Callable[..., Any]] = {
    "filter": lambda operator, stream: stream.filter(PREDICATES.get(operator["f"]), name=operator.name),
    "filterNot": lambda operator, stream: stream.filter_not(PREDICATES.get(operator["f"]), name=operator.name),
    "selectKey": lambda operator, stream: stream.select_key(KEYS.get(operator["f"]), name=operator.name),
    "map": lambda operator, stream: stream.map(pair_function(operator["f"]), name=operator.name),
    "flatMap": lambda operator, stream: stream.flat_map(FLAT_PAIRS.get(operator["f"]), name=operator.name),
    "peek": lambda operator, stream: stream.peek(_do_nothing, name=operator.name),
    "foreach": lambda operator, stream: stream.for_each(_do_nothing, name=operator.name),
    "merge": lambda operator, stream, other: stream.merge(other, name=operator.name),
    "repartition": lambda operator, stream: stream.repartition(name=operator.name, **operator.serdes),
    "groupByKey": lambda operator, stream: stream.group_by_key(name=operator.name, **operator.serdes),
    "groupBy": lambda operator, stream: stream.group_by(KEYS.get(operator["f"]), name=operator.name, **operator.serdes),
}
"""Operators of a stream that have no store and no options of their own."""


@on(KStream, "mapValues")
def map_values(_maker: DslMaker, operator: Operator, stream: KStream[Any, Any]) -> Any:
    method = stream.map_values_with_key if operator.with_key else stream.map_values
    return method(operator.value_function(), name=operator.name)


@on(KStream, "flatMapValues")
def flat_map_values(_maker: DslMaker, operator: Operator, stream: KStream[Any, Any]) -> Any:
    method = stream.flat_map_values_with_key if operator.with_key else stream.flat_map_values
    function = operator.with_or_without_key(FLAT_VALUES.get(operator["f"]))
    return method(function, name=operator.name)


@on(KStream, "split")
def split(maker: DslMaker, operator: Operator, stream: KStream[Any, Any]) -> None:
    branched = stream.split(name=operator.name)
    for branch in operator["branches"]:
        before = branched.no_default_branch()
        branched.branch(PREDICATES.get(branch["f"]), name=branch.get("name"))
        maker.variables[branch["out"]] = _added(before, branched.no_default_branch())
    default = operator.get("defaultBranch")
    if default is not None:
        before = branched.no_default_branch()
        maker.variables[default["out"]] = _added(before, branched.default_branch(name=default.get("name")))


def _added(before: dict[str, KStream[Any, Any]], after: dict[str, KStream[Any, Any]]) -> KStream[Any, Any]:
    (name,) = set(after) - set(before)
    return after[name]


@on(KStream, "to")
def to(_maker: DslMaker, operator: Operator, stream: KStream[Any, Any]) -> None:
    stream.to(operator.topic_or_extractor(), **operator.serdes, name=operator.name)


@on(KStream, "toTable")
def to_table(maker: DslMaker, operator: Operator, stream: KStream[Any, Any]) -> Any:
    option = maker.materialized(operator)
    return stream.to_table(store=option.store, **option.serdes, name=operator.name)


@on(KStream, "process")
def process(maker: DslMaker, operator: Operator, stream: KStream[Any, Any]) -> Any:
    stores = operator.get("stores", [])
    supplier = processor_supplier(operator["processor"], stores, maker.case, maker.without_metadata)
    connected = [] if operator.get("globalStore") else stores
    return stream.process(supplier, stores=connected, name=operator.name)


@on(KStream, "join", "leftJoin", "outerJoin")
def join_stream(maker: DslMaker, operator: Operator, stream: KStream[Any, Any], other: Any) -> Any:
    if isinstance(other, KStream):
        return join_streams(operator, stream, other)
    if isinstance(other, GlobalKTable):
        by_table = stream.join if operator.kind == "join" else stream.left_join
        selector = KEYS.get(operator["keySelector"])
        return by_table(other, operator.joiner(), key_selector=selector, with_key=True, name=operator.name)
    if not isinstance(other, KTable):
        raise NotKnown(f"{operator.kind} of streams")
    operator.pass_over("otherValueSerde")  # Kafka does not use it
    method = stream.join if operator.kind == "join" else stream.left_join
    more = {"grace_ms": operator.get("grace_ms"), "name": operator.name, **operator.serdes}
    return method(other, operator.joiner(), with_key=True, **more)


# of a grouped stream, with windows or without


Grouped = KGroupedStream[Any, Any] | TimeWindowedKStream[Any, Any]


@on(KGroupedStream, "count")
@on(TimeWindowedKStream, "count")
def count(maker: DslMaker, operator: Operator, grouped: Grouped) -> Any:
    counted = grouped.count(store=maker.materialized(operator).store, name=operator.name)
    maker.initial_values[counted.name] = 0
    return counted


@on(KGroupedStream, "reduce")
@on(TimeWindowedKStream, "reduce")
def reduce(maker: DslMaker, operator: Operator, grouped: Grouped) -> Any:
    store = maker.materialized(operator).store
    reduced = grouped.reduce(operator.reducer("reducer"), store=store, name=operator.name)
    maker.initial_values[reduced.name] = None
    return reduced


@on(KGroupedStream, "aggregate")
@on(TimeWindowedKStream, "aggregate")
def aggregate(maker: DslMaker, operator: Operator, grouped: Grouped) -> Any:
    option = maker.materialized(operator)
    initial = operator.get("initializer")
    aggregated = grouped.aggregate(
        partial(same, initial),
        AGGREGATORS.get(operator["aggregator"]),
        value_serde=option.value_serde,  # type: ignore[arg-type]  # None: the default serde
        store=option.store,
        name=operator.name,
    )
    maker.initial_values[aggregated.name] = initial
    return aggregated


# of a table


@on(KTable, "filter", "filterNot")
def filter_table(maker: DslMaker, operator: Operator, table: KTable[Any, Any]) -> Any:
    option = maker.materialized(operator)
    method = table.filter if operator.kind == "filter" else table.filter_not
    return method(PREDICATES.get(operator["f"]), **option.serdes, store=option.store_if_given, name=operator.name)


@on(KTable, "mapValues")
def map_table_values(maker: DslMaker, operator: Operator, table: KTable[Any, Any]) -> Any:
    option = maker.materialized(operator)
    method = table.map_values_with_key if operator.with_key else table.map_values
    return method(operator.value_function(), **option.serdes, store=option.store_if_given, name=operator.name)


@on(KTable, "toStream")
def to_stream(_maker: DslMaker, operator: Operator, table: KTable[Any, Any]) -> Any:
    selector = KEYS.get(operator["f"]) if "f" in operator else None
    return table.to_stream(selector, name=operator.name)


@on(KTable, "groupBy")
def group_table(_maker: DslMaker, operator: Operator, table: KTable[Any, Any]) -> Any:
    selector = pair_function(operator["f"])
    return table.group_by(selector, **operator.serdes, name=operator.name)


@on(KTable, "join", "leftJoin", "outerJoin")
def join_table(maker: DslMaker, operator: Operator, table: KTable[Any, Any], other: KTable[Any, Any]) -> Any:
    option = maker.materialized(operator)
    if "foreignKey" in operator:
        return foreign_key_join(operator, option, table, other)
    joiner = operator.joiner_without_key()
    method = {"join": table.join, "leftJoin": table.left_join, "outerJoin": table.outer_join}[operator.kind]
    return method(other, joiner, **option.serdes, store=option.store_if_given, name=operator.name)


# of a grouped table


@on(KGroupedTable, "count")
def count_table(maker: DslMaker, operator: Operator, grouped: KGroupedTable[Any, Any]) -> Any:
    return grouped.count(store=maker.materialized(operator).store, name=operator.name)


@on(KGroupedTable, "reduce")
def reduce_table(maker: DslMaker, operator: Operator, grouped: KGroupedTable[Any, Any]) -> Any:
    store = maker.materialized(operator).store
    adder, subtractor = operator.reducer("adder"), operator.reducer("subtractor")
    return grouped.reduce(adder, subtractor, store=store, name=operator.name)


@on(KGroupedTable, "aggregate")
def aggregate_table(maker: DslMaker, operator: Operator, grouped: KGroupedTable[Any, Any]) -> Any:
    option = maker.materialized(operator)
    return grouped.aggregate(
        partial(same, operator.get("initializer")),
        AGGREGATORS.get(operator["adder"]),
        AGGREGATORS.get(operator["subtractor"]),
        value_serde=option.value_serde,  # type: ignore[arg-type]  # None: the default serde
        store=option.store,
        name=operator.name,
    )
