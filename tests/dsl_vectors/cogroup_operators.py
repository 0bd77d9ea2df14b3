"""`cogroup` of grouped streams, with windows or without."""

from functools import partial
from typing import Any

from streams_runtime import CogroupedKStream, KGroupedStream, TimeWindows
from streams_runtime.dsl import TimeWindowedCogroupedKStream
from tests.dsl_vectors.cases import NotKnown
from tests.dsl_vectors.dsl_operators import DslMaker, on
from tests.dsl_vectors.functions import AGGREGATORS
from tests.dsl_vectors.operators import Operator


@on(KGroupedStream, "cogroup")
def cogroup(_maker: DslMaker, operator: Operator, first: KGroupedStream[Any, Any], *others: Any) -> Any:
    written, *more = operator["aggregators"]
    cogrouped: CogroupedKStream[Any, Any] = first.cogroup(AGGREGATORS.get(written))
    for other, aggregator in zip(others, more, strict=True):
        cogrouped = cogrouped.cogroup(other, AGGREGATORS.get(aggregator))
    return cogrouped


@on(CogroupedKStream, "windowedBy")
def window_cogrouped(_maker: DslMaker, operator: Operator, cogrouped: CogroupedKStream[Any, Any]) -> Any:
    windows = operator["windows"]
    if windows["type"] != "time":
        raise NotKnown(f"{windows['type']} windows of a cogrouped stream")
    return cogrouped.windowed_by(TimeWindows(windows["size_ms"], windows.get("advance_ms"), windows.get("grace_ms", 0)))


@on(CogroupedKStream, "aggregate")
@on(TimeWindowedCogroupedKStream, "aggregate")
def aggregate_cogrouped(maker: DslMaker, operator: Operator, cogrouped: Any) -> Any:
    option = maker.materialized(operator, uses_default_type=False)
    initial = operator.get("initializer")
    aggregated = cogrouped.aggregate(partial(_same, initial), **option.serdes, store=option.store, name=operator.name)
    for node in aggregated._stage.node.parents:  # the aggregators; the node of the table only merges them
        maker.initial_values[node.name] = initial
    return aggregated


def _same(value: Any) -> Any:
    return value
