"""The operators of windowed streams by the names of cases."""

from functools import partial
from typing import Any

from streams_runtime import EmitStrategy, KGroupedStream, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from streams_runtime.dsl.streams import SessionWindowedKStream
from tests.dsl_vectors.cases import NotKnown
from tests.dsl_vectors.dsl_operators import DslMaker, count, on, reduce, same
from tests.dsl_vectors.functions import AGGREGATORS, MERGERS
from tests.dsl_vectors.operators import Operator

_STRATEGIES = {
    None: EmitStrategy.ON_WINDOW_UPDATE,
    "onWindowUpdate": EmitStrategy.ON_WINDOW_UPDATE,
    "onWindowClose": EmitStrategy.ON_WINDOW_CLOSE,
}


def windows_of(written: dict[str, Any]) -> TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows:
    """Raises NotKnown."""
    grace_ms = written.get("grace_ms") or 0
    match written["type"]:
        case "time":
            return TimeWindows(written["size_ms"], written.get("advance_ms"), grace_ms)
        case "sliding":
            return SlidingWindows(written["difference_ms"], grace_ms)
        case "session":
            return SessionWindows(written["gap_ms"], grace_ms)
        case "unlimited":
            return UnlimitedWindows(written.get("start_ms") or 0)
    raise NotKnown(f"{written['type']} windows")


@on(KGroupedStream, "windowedBy")
def windowed_by(_maker: DslMaker, operator: Operator, grouped: KGroupedStream[Any, Any]) -> Any:
    windowed = grouped.windowed_by(windows_of(operator["windows"]))
    return windowed.emit_strategy(_STRATEGIES[operator.get("emitStrategy")])


on(SessionWindowedKStream, "count")(count)
on(SessionWindowedKStream, "reduce")(reduce)


@on(SessionWindowedKStream, "aggregate")
def aggregate_sessions(maker: DslMaker, operator: Operator, windowed: SessionWindowedKStream[Any, Any]) -> Any:
    option = maker.materialized(operator)
    return windowed.aggregate(
        partial(same, operator.get("initializer")),
        AGGREGATORS.get(operator["aggregator"]),
        MERGERS.get(operator["merger"]),
        value_serde=option.value_serde,  # type: ignore[arg-type]  # None: the default serde
        store=option.store,
        name=operator.name,
    )
