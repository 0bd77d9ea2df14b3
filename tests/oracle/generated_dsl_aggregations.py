"""Operators that make tables of streams in random chains: tables, aggregates, windows, cogroups."""

from dataclasses import replace

from tests.oracle.generated_dsl_functions import (
    LONG,
    STRING,
    any_aggregator,
    any_initial_value,
    any_key,
    any_merger,
    any_reducer,
)
from tests.oracle.generated_dsl_variables import Chain, Op, Variable, on


@on("stream", 1.5)
def to_table(chain: Chain, stream: Variable) -> list[Variable]:
    store = chain.materialized(stream.key, stream.value)
    history_ms = chain.perhaps_versioned(store)
    result = replace(chain.table_of(stream), history_ms=history_ms)
    chain.add("toTable", [stream], result, materialized=store)
    return [result]


@on("stream", 4)
def aggregate(chain: Chain, stream: Variable) -> list[Variable]:
    return [_aggregated(chain, _grouped(chain, stream))]


@on("stream", 5)
def aggregate_in_windows(chain: Chain, stream: Variable) -> list[Variable]:
    return [_aggregated(chain, _windowed(chain, _grouped(chain, stream)))]


@on("stream", 2)
def cogroup(chain: Chain, stream: Variable) -> list[Variable]:
    others = [chain.other("stream", stream.key) for _ in range(chain.random.choice((0, 1, 1, 2)))]
    groups = [_grouped(chain, each) for each in (stream, *others) if each is not None]
    groups = [each for each in groups if each.key == groups[0].key]
    value = chain.random.choice((STRING, LONG))
    drawn = (["concat"], ["keyed"], ["minus"]) if value == STRING else (["sum"], ["count"], ["subtract"])
    cogrouped = chain.result("cogrouped", groups[0], value=value)
    chain.add("cogroup", groups, cogrouped, aggregators=[chain.random.choice(drawn) for _ in groups])
    if chain.chance(0.6):
        cogrouped = _windowed(chain, cogrouped)
    merger = any_merger(chain.random, value) if cogrouped.windows and cogrouped.windows["type"] == "session" else None
    table = replace(chain.table_of(cogrouped), joinable=cogrouped.windows is None)
    store = _retaining(chain, chain.materialized(groups[0].key, value), cogrouped)
    chain.add("aggregate", [cogrouped], table, merger=merger, materialized=store)
    chain.ops[-1]["initializer"] = any_initial_value(chain.random, value)
    return [table]


def _grouped(chain: Chain, stream: Variable) -> Variable:
    name = chain.new_name("group") if chain.chance(0.15) else None
    if chain.chance(0.55):
        result = chain.result("grouped", stream, windows=None)
        chain.add("groupByKey", [stream], result, keySerde=stream.key, valueSerde=stream.value, name=name)
        return result
    result = chain.result("grouped", stream, windows=None, key=STRING)
    function = any_key(chain.random, stream.key)
    chain.add("groupBy", [stream], result, f=function, keySerde=STRING, valueSerde=stream.value, name=name)
    return result


def _windowed(chain: Chain, grouped: Variable) -> Variable:
    if grouped.key != STRING:
        return grouped  # no serde of a case has windows in windows
    windows = any_windows(chain)
    size = {"time": windows.get("size_ms"), "sliding": windows.get("difference_ms"), "unlimited": 2**63 - 1}
    kind = windows["type"]
    key = "sessionWindowed:string" if kind == "session" else f"timeWindowed:string:{size[kind]}"
    result = chain.result("windowed", grouped, key=key, windows=windows)
    emits = None
    if grouped.kind == "grouped" and kind != "unlimited" and chain.chance(0.25):
        emits = chain.random.choice(("onWindowClose", "onWindowClose", "onWindowUpdate"))
    chain.add("windowedBy", [grouped], result, windows=windows, emitStrategy=emits)
    return result


def any_windows(chain: Chain) -> Op:
    random, unit = chain.random, chain.unit_ms
    match random.choice(("tumbling", "hopping", "sliding", "session", "session", "unlimited")):
        case "tumbling":
            windows: Op = {"type": "time", "size_ms": random.choice((unit, unit, 2 * unit, 3 * unit))}
        case "hopping":
            size_ms = random.choice((2 * unit, 3 * unit, unit * 5 // 2))
            advance_ms = random.choice((unit, max(1, unit // 2), max(1, unit * 2 // 3), size_ms))
            windows = {"type": "time", "size_ms": size_ms, "advance_ms": advance_ms}
        case "sliding":
            windows = {"type": "sliding", "difference_ms": random.choice((unit, unit // 2, 2 * unit))}
        case "session":
            windows = {"type": "session", "gap_ms": random.choice((unit, unit // 2, 2 * unit))}
        case _:
            return {"type": "unlimited", "start_ms": random.choice((0, unit, 10 * unit))}
    grace_ms = chain.grace(*(windows.get(length, 0) for length in ("size_ms", "difference_ms", "gap_ms")))
    return windows if grace_ms is None else {**windows, "grace_ms": grace_ms}


def _retaining(chain: Chain, store: Op, grouped: Variable) -> Op:
    """Sometimes the store of windows has a retention of its own, which may be just long enough."""
    windows = grouped.windows
    if grouped.kind == "windowed" and windows and windows["type"] != "unlimited" and chain.chance(0.2):
        size_ms = windows.get("size_ms") or windows.get("gap_ms") or 2 * windows["difference_ms"]
        longer_ms = chain.random.choice((0, 1, chain.unit_ms, 120_000))
        store["retention_ms"] = size_ms + windows.get("grace_ms", 0) + longer_ms
    return store


def _aggregated(chain: Chain, grouped: Variable) -> Variable:
    key = STRING if grouped.kind == "windowed" else grouped.key
    is_session = grouped.windows is not None and grouped.windows["type"] == "session" and grouped.kind == "windowed"
    history_ms = None
    match chain.random.choice(("count", "reduce", "aggregate", "aggregate")):
        case "count":
            result, options = chain.table_of(grouped, value=LONG), {}
            kind = "count"
        case "reduce":
            result, options = chain.table_of(grouped), {"reducer": any_reducer(chain.random, grouped.value)}
            kind = "reduce"
        case _:
            function, value = any_aggregator(chain.random, grouped.value)
            result, options = chain.table_of(grouped, value=value), {"aggregator": function}
            kind = "aggregate"
            if is_session:
                options["merger"] = any_merger(chain.random, value)
    store = _retaining(chain, chain.materialized(key, result.value), grouped)
    is_sliding = grouped.windows is not None and grouped.windows["type"] == "sliding"
    if is_sliding and "nullAtSum" in (*options.get("reducer", ()), *options.get("aggregator", ())):
        # Kafka's cached window store, read backward, may return deleted entries: without a value, or with an old one.
        store["caching"] = False
    if grouped.kind == "grouped":
        history_ms = chain.perhaps_versioned(store, 0.06)
    chain.add(kind, [grouped], result, materialized=store, **options)
    if kind == "aggregate":
        chain.ops[-1]["initializer"] = any_initial_value(chain.random, result.value)
    return replace(result, history_ms=history_ms)
