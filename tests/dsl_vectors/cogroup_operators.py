"""`cogroup` of grouped streams, with windows or without."""

from functools import partial
from typing import Any

from streams_runtime import CogroupedKStream, KGroupedStream
from streams_runtime.dsl.streams import SessionWindowedCogroupedKStream, TimeWindowedCogroupedKStream
from tests.dsl_vectors.dsl_operators import DslMaker, on
from tests.dsl_vectors.functions import AGGREGATORS, MERGERS
from tests.dsl_vectors.operators import Operator
from tests.dsl_vectors.window_operators import windows_of


@on(KGroupedStream, "cogroup")
def cogroup(_maker: DslMaker, operator: Operator, first: KGroupedStream[Any, Any], *others: Any) -> Any:
    written, *more = operator["aggregators"]
    cogrouped: CogroupedKStream[Any, Any] = first.cogroup(AGGREGATORS.get(written))
    for other, aggregator in zip(others, more, strict=True):
        cogrouped = cogrouped.cogroup(other, AGGREGATORS.get(aggregator))
    return cogrouped


@on(CogroupedKStream, "windowedBy")
def window_cogrouped(_maker: DslMaker, operator: Operator, cogrouped: CogroupedKStream[Any, Any]) -> Any:
    return cogrouped.windowed_by(windows_of(operator["windows"]))


@on(CogroupedKStream, "aggregate")
@on(TimeWindowedCogroupedKStream, "aggregate")
@on(SessionWindowedCogroupedKStream, "aggregate")
def aggregate_cogrouped(maker: DslMaker, operator: Operator, cogrouped: Any) -> Any:
    option = maker.materialized(operator)
    initial = operator.get("initializer")
    mergers = [MERGERS.get(operator["merger"])] if isinstance(cogrouped, SessionWindowedCogroupedKStream) else []
    aggregated = cogrouped.aggregate(
        partial(_same, initial), *mergers, **option.serdes, store=option.store, name=operator.name
    )
    for node in aggregated._stage.node.parents:  # the aggregators; the node of the table only merges them
        maker.initial_values[node.name] = initial
    return aggregated


def _same(value: Any) -> Any:
    return value
