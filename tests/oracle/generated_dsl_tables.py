"""Operators of tables in random chains."""

from dataclasses import replace

from tests.oracle.generated_dsl_functions import (
    LONG,
    STRING,
    any_foreign_key,
    any_initial_value,
    any_joiner,
    any_key,
    any_mapper,
    any_predicate,
)
from tests.oracle.generated_dsl_variables import Chain, Op, Variable, on


@on("table", 3)
def filter_table(chain: Chain, table: Variable) -> list[Variable]:
    store = chain.perhaps_materialized(table, table.value)
    history_ms = chain.perhaps_versioned(store, 0.05)
    has_serdes = table.has_serdes or store is not None
    result = replace(chain.table_of(table, store), history_ms=history_ms, has_serdes=has_serdes)
    kind = chain.random.choice(("filter", "filterNot"))
    chain.add(kind, [table], result, f=any_predicate(chain.random), materialized=store)
    return [result]


@on("table", 3)
def map_table_values(chain: Chain, table: Variable) -> list[Variable]:
    with_key = chain.chance(0.4)
    function, value = any_mapper(chain.random, table.value, with_key=with_key)
    store = chain.perhaps_materialized(table, value)
    history_ms = chain.perhaps_versioned(store, 0.05)
    result = chain.table_of(table, store, value=value, has_serdes=store is not None)
    result = replace(result, history_ms=history_ms)
    chain.add("mapValues", [table], result, f=function, withKey=with_key or None, materialized=store)
    return [result]


@on("table", 1.5)
def transform_values(chain: Chain, table: Variable) -> list[Variable]:
    stores = None
    if chain.chance(0.5):
        function, value = any_mapper(chain.random, table.value, with_key=True)
        written: list[object] = ["value", function]
    else:
        written, value = ["countAndValue"], STRING
        stores = [chain.new_store("keyValue", table.key, LONG)]
    store = chain.perhaps_materialized(table, value)
    result = chain.table_of(table, store, value=value, has_serdes=store is not None)
    chain.add("transformValues", [table], result, transformer=written, stores=stores, materialized=store)
    return [result]


@on("table", 5)
def to_stream(chain: Chain, table: Variable) -> list[Variable]:
    """With a function, the keys of windows become text, or others change."""
    function = any_key(chain.random, table.key) if chain.chance(0.35) else None
    result = chain.stream_of(table) if function is None else chain.with_new_keys(table, key=STRING)
    chain.add("toStream", [table], result, f=function)
    return [result]


@on("table", 4)
def aggregate_table(chain: Chain, table: Variable) -> list[Variable]:
    random = chain.random
    function, value = any_mapper(random, table.value, with_key=True)
    grouped = chain.result("grouped table", table, key=STRING, value=value, windows=None)
    pair = ["pair", any_key(random, table.key), function]
    name = chain.new_name("group") if chain.chance(0.15) else None
    chain.add("groupBy", [table], grouped, f=pair, keySerde=STRING, valueSerde=value, name=name)
    kind = random.choice(("count", "reduce", "aggregate"))
    options: Op = {}
    if kind == "count":
        value = LONG
    else:
        value = value if kind == "reduce" else random.choice((STRING, LONG))
        to_text = random.choice(((["concat"], ["minus"]), (["concat"], ["minus"]), (["keepLongest"], ["first"])))
        adder, subtractor = to_text if value == STRING else (["sum"], ["subtract"])
        options = {"adder": adder, "subtractor": subtractor}
    result = chain.table_of(grouped, value=value)
    store = chain.materialized(STRING, value)
    history_ms = chain.perhaps_versioned(store, 0.05)
    chain.add(kind, [grouped], result, materialized=store, **options)
    if kind == "aggregate":
        chain.ops[-1]["initializer"] = any_initial_value(random, value)
    return [replace(result, history_ms=history_ms)]


@on("table", 5)
def join_tables(chain: Chain, table: Variable) -> list[Variable] | None:
    other = chain.other("table", table.key)
    if other is None or not table.joinable:
        return None
    joiner, value = any_joiner(chain.random, table.value, other.value)
    store = chain.perhaps_materialized(table, value)
    history_ms = chain.perhaps_versioned(store, 0.05)
    result = chain.table_of(table, store, value=value, has_serdes=store is not None)
    result = replace(result, history_ms=history_ms)
    kind = chain.random.choice(("join", "leftJoin", "outerJoin"))
    chain.add(kind, [table, other], result, joiner=joiner, materialized=store)
    return [result]


@on("table", 4)
def join_by_foreign_key(chain: Chain, table: Variable) -> list[Variable] | None:
    other = chain.other("table", STRING)
    if other is None or not table.joinable or not chain.may_need_serdes(table, other):
        return None
    joiner, value = any_joiner(chain.random, table.value, other.value)
    result = chain.table_of(table, value=value)
    extractor = any_foreign_key(chain.random, table.value)
    store = chain.materialized(table.key, value)
    kind = chain.random.choice(("join", "leftJoin"))
    chain.add(kind, [table, other], result, joiner=joiner, foreignKey=extractor, materialized=store)
    return [result]


@on("table", 2)
def suppress_until_time_limit(chain: Chain, table: Variable) -> list[Variable] | None:
    if not chain.may_need_serdes(table):
        return None
    random, unit = chain.random, chain.unit_ms
    buffer = random.choice(
        (
            {},
            {},
            {"maxRecords": random.choice((1, 2, 3)), "full": "emitEarly"},
            {"maxBytes": random.choice((50, 120, 300)), "full": "emitEarly"},
            {"maxRecords": 2, "maxBytes": 200, "full": "emitEarly"},
            {"maxRecords": 3, "full": "shutDown"},
        )
    )
    result = chain.table_of(table, has_serdes=table.has_serdes)
    time_ms = random.choice((0, unit // 2, unit, 3 * unit))
    chain.add("suppress", [table], result, until="timeLimit", time_ms=time_ms, buffer=buffer)
    return [result]


@on("table", 3)
def suppress_until_window_closes(chain: Chain, table: Variable) -> list[Variable] | None:
    if table.windows is None or table.windows["type"] == "unlimited" or not chain.may_need_serdes(table):
        return None
    buffer: Op = {}
    if chain.chance(0.15):
        buffer = {"maxRecords": chain.random.choice((1, 2, 3, 100)), "full": "shutDown"}
    result = chain.table_of(table, has_serdes=table.has_serdes)
    chain.add("suppress", [table], result, until="windowCloses", buffer=buffer)
    return [result]
