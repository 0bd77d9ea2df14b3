"""Topologies written in the DSL, each as it was also written with Kafka's own `StreamsBuilder` (4.3.1).

`described_by_kafka/<name>.txt` is what `Topology#describe` printed for it. `topics.json` has the topics and stores of
each.
"""

from collections.abc import Callable

from streams_runtime import (
    LONG,
    STRING,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Processor,
    StreamsBuilder,
    TimeWindows,
)
from streams_runtime.state_stores.builders import key_value_store

Case = Callable[[StreamsBuilder], None]

CASES: dict[str, Case] = {}
OPTIMIZED: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def optimized(function: Case) -> Case:
    OPTIMIZED[f"{function.__name__}_optimized"] = function
    return function


def stream(builder: StreamsBuilder, *topics: str) -> KStream[str, str]:
    return builder.stream(topics, STRING, STRING)


def table(builder: StreamsBuilder, topic: str) -> KTable[str, str]:
    return builder.table(topic, STRING, STRING)


def both(first: object, second: object) -> str:
    return f"{first}{second}"


def first_of(first: str, second: str) -> str:
    return first


def swapped(key: str, value: str) -> tuple[str, str]:
    return value, key


def same(key: str, value: str) -> tuple[str, str]:
    return key, value


def value_of(key: str, value: str) -> str:
    return value


def value_twice(key: str, value: str) -> tuple[str, str]:
    return value, value


def always(key: str, value: str) -> bool:
    return True


def never(key: str, value: str) -> bool:
    return False


def itself(value: str) -> str:
    return value


def ignore(key: object, value: object) -> None:
    return None


def kept_aggregate(key: str, value: str, aggregate: str) -> str:
    return aggregate


class Silent(Processor[str, str]):
    pass


@case
def stateless_operations(b: StreamsBuilder) -> None:
    x = stream(b, "input")
    y = x.filter(always).filter_not(never).map_values(itself).map_values_with_key(value_of)
    y = y.flat_map_values(lambda v: [v]).flat_map_values_with_key(lambda k, v: [v])
    y = y.peek(ignore).map(same).select_key(lambda k, v: k).flat_map(lambda k, v: [(k, v)])
    y.to("output", key_serde=STRING, value_serde=STRING)
    x.for_each(ignore)
    x.to("copy")


@case
def stateless_operations_named(b: StreamsBuilder) -> None:
    x = b.stream("input", STRING, STRING, name="in")
    y = x.filter(always, name="f").filter_not(never, name="fn").map_values(itself, name="mv")
    y = y.flat_map_values(lambda v: [v], name="fmv").peek(ignore, name="p").map(same, name="m")
    z = y.select_key(lambda k, v: k, name="sk").flat_map(lambda k, v: [(k, v)], name="fm")
    z.to("output", key_serde=STRING, value_serde=STRING, name="out")
    x.for_each(ignore, name="fe")
    x.map_values(itself).to("copy", value_serde=STRING)


@case
def word_count(b: StreamsBuilder) -> None:
    words = stream(b, "lines").flat_map_values(str.split)
    counts = words.group_by(value_of, key_serde=STRING, value_serde=STRING).count()
    counts.to_stream().to("counts")


@case
def word_count_named_store(b: StreamsBuilder) -> None:
    words = stream(b, "lines").flat_map_values(str.split)
    counts = words.group_by(value_of, key_serde=STRING, value_serde=STRING).count(store="counts-store")
    counts.to_stream().to("counts")


@case
def word_count_all_named(b: StreamsBuilder) -> None:
    words = b.stream("lines", STRING, STRING, name="lines-source").flat_map_values(str.split, name="words")
    grouped = words.group_by(value_of, key_serde=STRING, value_serde=STRING, name="by-word")
    counts = grouped.count(store="counts-store", name="counting")
    counts.to_stream(name="changes").to("counts", name="counts-sink")


@case
def count_by_unchanged_key(b: StreamsBuilder) -> None:
    stream(b, "input").group_by_key().count()


@case
def count_with_settings_but_no_name(b: StreamsBuilder) -> None:
    stream(b, "input").group_by_key().count(store=Materialized()).to_stream().to("out")


@case
def aggregates_of_one_unnamed_group(b: StreamsBuilder) -> None:
    g = stream(b, "input").map(same).group_by_key(key_serde=STRING, value_serde=STRING)
    g.count()
    g.reduce(first_of)
    g.aggregate(str, kept_aggregate, value_serde=STRING)


@case
def aggregates_of_one_named_group(b: StreamsBuilder) -> None:
    g = stream(b, "input").map(same).group_by_key(key_serde=STRING, value_serde=STRING, name="grouped")
    g.count(store="count-store", name="n")
    g.reduce(first_of)
    g.aggregate(str, kept_aggregate, value_serde=STRING, name="agg")


@case
def windowed_aggregates(b: StreamsBuilder) -> None:
    g = stream(b, "input").group_by_key()
    g.windowed_by(TimeWindows(100, grace_ms=10)).count().to_stream().for_each(ignore)
    g.windowed_by(TimeWindows(100, 50, 10)).reduce(first_of, store="reduce-store", name="reducing")
    g.windowed_by(TimeWindows(100, grace_ms=10)).aggregate(str, kept_aggregate, value_serde=STRING)
    other = stream(b, "other").select_key(value_of).group_by_key(key_serde=STRING, value_serde=STRING)
    other.windowed_by(TimeWindows(100, grace_ms=10)).count(store=Materialized())


@case
def stream_table_join(b: StreamsBuilder) -> None:
    stream(b, "stream").join(table(b, "table"), both).to("joined", value_serde=STRING)


@case
def stream_table_left_join_named(b: StreamsBuilder) -> None:
    s = stream(b, "stream")
    t = b.table("table", STRING, STRING, store="table-store", name="tab")
    s.left_join(t, both, name="enrich").to("joined", value_serde=STRING)


@case
def join_after_key_change(b: StreamsBuilder) -> None:
    s = stream(b, "stream").select_key(value_of)
    s.join(table(b, "table"), both, key_serde=STRING).to("joined", value_serde=STRING)


@case
def join_after_key_change_named(b: StreamsBuilder) -> None:
    s = stream(b, "stream").map(value_twice)
    s.join(table(b, "table"), both, key_serde=STRING, value_serde=STRING, name="enrich").to(
        "joined", value_serde=STRING
    )


@case
def two_joins_share_a_repartition_topic(b: StreamsBuilder) -> None:
    s = stream(b, "stream").select_key(value_of)
    s.join(table(b, "table-a"), both, key_serde=STRING).to("out-a", value_serde=STRING)
    s.left_join(table(b, "table-b"), both, key_serde=STRING).to("out-b", value_serde=STRING)


@case
def join_with_a_derived_table(b: StreamsBuilder) -> None:
    s = stream(b, "stream")
    s.join(table(b, "table").filter(always).map_values(itself), both).to("joined", value_serde=STRING)


@case
def join_with_a_kept_derived_table(b: StreamsBuilder) -> None:
    s = stream(b, "stream")
    t = table(b, "table").filter(always).map_values(itself, value_serde=STRING, store="mapped-store")
    s.join(t, both).to("joined", value_serde=STRING)


@case
def join_with_an_aggregate(b: StreamsBuilder) -> None:
    counts = stream(b, "events").group_by(value_of, key_serde=STRING).count()
    stream(b, "stream").join(counts, both).to("joined", value_serde=STRING)


@case
def repartitions(b: StreamsBuilder) -> None:
    x = stream(b, "input")
    x.repartition().to("out-a")
    x.select_key(value_of).repartition(name="named", partitions=5, key_serde=STRING).group_by_key().count()


@case
def to_table(b: StreamsBuilder) -> None:
    x = stream(b, "input")
    x.to_table().to_stream().to("out-a")
    x.to_table(store="kept", name="named-table").to_stream().to("out-b")
    x.select_key(value_of).to_table(key_serde=STRING).to_stream().to("out-c")
    x.select_key(value_of).to_table(key_serde=STRING, name="moved-table")


@case
def split_and_merge(b: StreamsBuilder) -> None:
    branches = stream(b, "input").split().branch(always).branch(never, name="named").default_branch()
    one, named, zero = branches.values()
    one.merge(named).merge(zero, name="all").to("output", key_serde=STRING, value_serde=STRING)
    other = stream(b, "other").split(name="parts-").branch(always, name="a").no_default_branch()
    other["parts-a"].to("part")


@case
def table_operations(b: StreamsBuilder) -> None:
    x = table(b, "table")
    x.filter(always).filter_not(never).map_values(itself).to_stream().to("out-a", value_serde=STRING)
    y = x.filter(always, name="f").map_values_with_key(value_of, name="mv")
    y.to_stream(name="ts").to("out-b", value_serde=STRING)


@case
def table_operations_kept(b: StreamsBuilder) -> None:
    x = b.table("table", STRING, STRING, store="source-store")
    y = x.filter(always, store="filter-store").filter_not(never, store="filter-not-store", name="fn")
    y.map_values(itself, value_serde=STRING, store="map-store").to_stream().to("out")
    x.map_values(itself, value_serde=STRING).filter(always, store=Materialized()).to_stream().to("out-b")


@case
def grouped_tables(b: StreamsBuilder) -> None:
    g = table(b, "table").filter(always).group_by(swapped, key_serde=STRING, value_serde=STRING)
    g.count().to_stream().to("out-a")
    g.reduce(first_of, first_of)
    g.aggregate(str, kept_aggregate, kept_aggregate, value_serde=STRING, store="agg-store")


@case
def grouped_tables_named(b: StreamsBuilder) -> None:
    g = table(b, "table").group_by(swapped, key_serde=STRING, value_serde=STRING, name="by-value")
    g.count(store="count-store", name="counting").to_stream().to("out-a")
    g.reduce(first_of, first_of, store="reduce-store", name="reducing")


@case
def group_the_counts_again(b: StreamsBuilder) -> None:
    counts = stream(b, "input").group_by_key().count()
    counts.group_by(lambda word, count: (count, word), key_serde=LONG, value_serde=STRING).count()


@case
def table_table_joins(b: StreamsBuilder) -> None:
    left, right = table(b, "left"), table(b, "right")
    left.join(right, both).to_stream().to("out-a", value_serde=STRING)
    left.left_join(right, both).to_stream().to("out-b", value_serde=STRING)


@case
def table_table_joins_named_and_kept(b: StreamsBuilder) -> None:
    left, right = table(b, "left"), table(b, "right")
    joined = left.join(right, both, value_serde=STRING, store="both-store", name="both")
    stream(b, "stream").join(joined, both).to("out-a", value_serde=STRING)
    kept = left.left_join(right.map_values(itself), both, value_serde=STRING)
    kept.group_by(swapped, key_serde=STRING, value_serde=STRING).count()


@case
def foreign_key_join(b: StreamsBuilder) -> None:
    joined = table(b, "left").foreign_key_join(table(b, "right"), value_of, both, value_serde=STRING)
    joined.to_stream().to("out-a")


@case
def foreign_key_joins_named(b: StreamsBuilder) -> None:
    left, right = table(b, "left"), table(b, "right")
    joined = left.foreign_key_left_join(right, value_of, both, value_serde=STRING, store="both-store", name="both")
    of_itself = joined.foreign_key_join(joined, value_of, both, value_serde=STRING, name="self")
    joined.outer_join(of_itself, both).to_stream().to("out-a", value_serde=STRING)


@case
def join_with_a_table_join(b: StreamsBuilder) -> None:
    joined = table(b, "left").join(table(b, "right").filter(always), both)
    stream(b, "stream").left_join(joined, both).to("out-a", value_serde=STRING)


@case
def process_with_stores(b: StreamsBuilder) -> None:
    b.add_state_store(key_value_store("own-store", STRING, STRING))
    x = stream(b, "input")
    x.process(Silent, stores=["own-store"]).group_by_key(key_serde=STRING, value_serde=STRING).count()
    x.process(Silent, stores=["own-store"], name="mine").to("output", key_serde=STRING, value_serde=STRING)
    x.process(Silent).to("output-b", key_serde=STRING, value_serde=STRING)


@case
def topics_read_together_and_again(b: StreamsBuilder) -> None:
    stream(b, "a", "b").to("out-a")
    stream(b, "c").map_values(itself).to("out-b", value_serde=STRING)
    stream(b, "a", "b").filter(always).to("out-c")
    stream(b, "c").join(table(b, "t"), both).to("out-d", value_serde=STRING)


@case
def demo_of_the_readme(b: StreamsBuilder) -> None:
    words = stream(b, "lines").flat_map_values(str.split)
    counts = words.group_by(value_of, key_serde=STRING, value_serde=STRING, name="words").count(store="counts")
    counts.to_stream().join(table(b, "kinds"), both).to("output", value_serde=STRING)


@case
@optimized
def source_tables(b: StreamsBuilder) -> None:
    b.table("kept", STRING, STRING, store="kept-store")
    read, plain = table(b, "read"), table(b, "plain")
    stream(b, "stream").join(read, both).to("joined", value_serde=STRING)
    plain.to_stream().to("copy")


@case
@optimized
def several_repartitions(b: StreamsBuilder) -> None:
    k = stream(b, "input").select_key(value_of)
    k.group_by_key(key_serde=STRING).count().to_stream().to("counts")
    k.filter(always).group_by_key(key_serde=STRING).reduce(first_of).to_stream().to("reduced")
    k.map_values(itself).group_by_key(key_serde=STRING, value_serde=STRING).count(store="behind-values")
    k.join(table(b, "table"), both, key_serde=STRING).to("joined", value_serde=STRING)


@case
@optimized
def repartitions_behind_a_merge(b: StreamsBuilder) -> None:
    merged = stream(b, "a").select_key(value_of).merge(stream(b, "b").map(value_twice))
    merged.group_by_key(key_serde=STRING, value_serde=STRING).count()
    merged.filter(always).group_by_key(key_serde=STRING, value_serde=STRING).reduce(first_of)


@optimized
def one_repartition(b: StreamsBuilder) -> None:
    stream(b, "input").group_by(value_of, key_serde=STRING, name="by-value").count()


@case
def repartitions_behind_one_branch(b: StreamsBuilder) -> None:
    f = stream(b, "input").select_key(value_of).filter(always)
    f.group_by_key(key_serde=STRING).count()
    f.group_by_key(key_serde=STRING).reduce(first_of)


WINDOWS = JoinWindows(10, 20, grace_ms=5)


@case
@optimized
def joins_of_two_streams(b: StreamsBuilder) -> None:
    left, right = stream(b, "left"), stream(b, "right")
    joined = (
        left.join(right, both, WINDOWS),
        left.left_join(right, both, WINDOWS),
        left.outer_join(right, both, WINDOWS),
    )
    for each in joined:
        each.to("out", value_serde=STRING)


@case
@optimized
def joins_of_two_streams_named(b: StreamsBuilder) -> None:
    left, right = stream(b, "left"), stream(b, "right")
    inner = left.join(right, both, WINDOWS, name="inner")
    kept_left = left.left_join(right, both, WINDOWS, name="kept-left", store="left-store")
    outer = left.outer_join(right, both, WINDOWS, name="outer", store="outer-store")
    for each in (inner, kept_left, outer):
        each.to("out", value_serde=STRING)


@case
@optimized
def joins_of_two_streams_after_key_change(b: StreamsBuilder) -> None:
    left, right = stream(b, "left").select_key(value_of), stream(b, "right")
    by_value = right.select_key(value_of)
    inner = left.join(by_value, both, WINDOWS, key_serde=STRING, name="inner")
    kept_left = left.left_join(right, both, WINDOWS, key_serde=STRING)
    outer = left.outer_join(by_value, both, WINDOWS, key_serde=STRING)
    for each in (inner, kept_left, outer):
        each.to("out", value_serde=STRING)


@case
@optimized
def self_joins(b: StreamsBuilder) -> None:
    read, by_value = stream(b, "input"), stream(b, "input").select_key(value_of)
    inner, outer = read.join(read, both, WINDOWS), read.outer_join(read, both, WINDOWS, name="outer")
    for each in (inner, outer, by_value.left_join(by_value, both, WINDOWS, key_serde=STRING)):
        each.to("out", value_serde=STRING)
