"""Joins of a stream with a table, and of two tables."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from streams_runtime.dsl import KTable, StreamsBuilder
from streams_runtime.serdes import STRING
from streams_runtime.state_stores.base import ValueAndTimestamp
from tests.streams_runtime.dsl.driven import driven


def both(first: str | None, second: str | None) -> str:
    return f"{first}+{second}"


def test_should_join_records_with_the_present_value_of_their_key_and_leave_out_the_others() -> None:
    builder = StreamsBuilder()
    table = builder.table("table", STRING, STRING)
    builder.stream("stream", STRING, STRING).join(table, both).to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("stream", ("a", "too early", 1))
        run.pipe("table", ("a", "A", 9))
        run.pipe("stream", ("a", "1", 2), ("b", "2", 3))
        run.pipe("table", ("a", "B", 4), ("a", "C", 5))
        run.pipe("stream", ("a", "3", 6))
        run.pipe("table", ("a", None, 7))
        run.pipe("stream", ("a", "gone", 8))
        assert run.read("out") == [("a", "1+A", 2), ("a", "3+C", 6)]


def test_should_keep_records_without_match_or_key_in_a_left_join() -> None:
    builder = StreamsBuilder()
    table = builder.table("table", STRING, STRING)
    builder.stream("stream", STRING, STRING).left_join(table, both).to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("table", ("a", "A", 1))
        run.pipe("stream", ("a", "1", 2), ("b", "2", 3), (None, "3", 4), ("a", None, 5))
        assert run.read("out") == [("a", "1+A", 2), ("b", "2+None", 3), (None, "3+None", 4)]


def test_should_leave_out_records_without_key_or_value_and_say_where_they_were(
    caplog: pytest.LogCaptureFixture,
) -> None:
    builder = StreamsBuilder()
    table = builder.table("table", STRING, STRING)
    builder.stream("stream", STRING, STRING).join(table, both).to("out", value_serde=STRING)
    with driven(builder) as run, caplog.at_level(logging.WARNING, "streams_runtime.dsl"):
        run.pipe("table", ("a", "A", 1))
        run.pipe("stream", (None, "1", 2), ("a", None, 3), ("a", "2", 4))
        assert run.read("out") == [("a", "2+A", 4)]
    skipped = "Skipping record due to null join key or value. topic=[stream] partition=[0] offset=[%d]"
    assert [record.getMessage() for record in caplog.records] == [skipped % 0, skipped % 1]


def test_should_repartition_a_stream_whose_key_may_have_changed_before_joining_it() -> None:
    builder = StreamsBuilder()
    table = builder.table("table", STRING, STRING)
    by_value = builder.stream("stream", STRING, STRING).select_key(lambda k, v: v)
    by_value.join(table, both, key_serde=STRING, name="enrich").to("out", value_serde=STRING)
    topology = builder.build().group_topology("app")
    assert [sorted(group) for group in topology.copartition_groups] == [["app-enrich-repartition", "table"]]
    with driven(builder) as run:
        run.pipe("table", ("x", "X", 1))
        run.pipe("stream", ("a", "x", 2), ("b", "y", 3))
        assert run.read("out") == [("x", "x+X", 2)]


def test_should_not_repartition_after_operations_that_keep_the_key() -> None:
    builder = StreamsBuilder()
    table = builder.table("table", STRING, STRING)
    stream = builder.stream("stream", STRING, STRING).map_values(str.upper).filter(lambda k, v: True)
    stream.peek(lambda k, v: None).flat_map_values(str.split).join(table, both).to("out", value_serde=STRING)
    (only,) = builder.build().group_topology("app").subtopologies
    assert sorted(only.source_topics) == ["stream", "table"]


def test_should_let_records_without_key_reach_a_left_join_through_a_repartition_topic() -> None:
    builder = StreamsBuilder()
    table = builder.table("table", STRING, STRING)
    unkeyed = builder.stream("stream", STRING, STRING).map(lambda k, v: (k, v))
    unkeyed.left_join(table, both, key_serde=STRING, value_serde=STRING).to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("stream", (None, "1", 1))
        assert run.read("out") == [(None, "1+None", 1)]


def kept(table: KTable[str, str]) -> KTable[str, str]:
    return table.filter(lambda k, v: v > "B", store="f").map_values(str.lower, value_serde=STRING, store="m")


def not_kept(table: KTable[str, str]) -> KTable[str, str]:
    return table.filter(lambda k, v: v > "B").map_values(str.lower)


@pytest.mark.parametrize("derived", [kept, not_kept])
def test_should_read_a_derived_table_from_its_store_or_from_the_one_above(
    derived: Callable[[KTable[str, str]], KTable[str, str]],
) -> None:
    builder = StreamsBuilder()
    table = derived(builder.table("table", STRING, STRING))
    builder.stream("stream", STRING, STRING).join(table, both).to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("table", ("a", "A", 1), ("c", "C", 2))
        run.pipe("stream", ("a", "1", 3), ("c", "2", 4))
        assert run.read("out") == [("c", "2+c", 4)]


def test_should_join_two_tables_where_both_have_the_key() -> None:
    builder = StreamsBuilder()
    joined = builder.table("left", STRING, STRING).join(
        builder.table("right", STRING, STRING), both, value_serde=STRING, store="joined"
    )
    joined.to_stream().to("out")
    with driven(builder) as run:
        run.pipe("left", ("a", "1", 5), ("b", "2", 1))
        run.pipe("right", ("a", "A", 3), ("a", "B", 9), ("c", "C", 1))
        run.pipe("left", ("a", "3", 4))
        assert run.read("out") == [("a", "1+A", 5), ("a", "1+B", 9), ("a", "3+B", 9)]
        store = run.driver.get_key_value_store("joined")
        assert list(store.all()) == [("a", ValueAndTimestamp("3+B", 9))]
        run.pipe("right", ("a", None, 10), ("c", None, 11))
        assert run.read("out") == [("a", None, 10)]
        assert list(store.all()) == []


def test_should_left_join_two_tables_and_miss_only_the_right_value() -> None:
    builder = StreamsBuilder()
    joined = builder.table("left", STRING, STRING).left_join(builder.table("right", STRING, STRING), both)
    joined.to_stream().to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("left", ("a", "1", 1), ("b", None, 1))
        run.pipe("right", ("a", "A", 2), ("c", "C", 3), ("a", None, 4))
        run.pipe("left", ("a", None, 5))
        assert run.read("out") == [("a", "1+None", 1), ("a", "1+A", 2), ("a", "1+None", 4), ("a", None, 5)]


@pytest.mark.parametrize("left_join, expected", [(False, ["1+A", "2+A"]), (True, ["1+A", "2+A", "3+None"])])
def test_should_read_a_join_of_tables_that_is_not_kept_from_both_sides(left_join: bool, expected: list[str]) -> None:
    builder = StreamsBuilder()
    left, right = builder.table("left", STRING, STRING), builder.table("right", STRING, STRING)
    joined = left.left_join(right, both) if left_join else left.join(right, both)
    builder.stream("stream", STRING, STRING).join(joined, lambda value, found: found).to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("right", ("a", "A", 1))
        run.pipe("left", ("a", "1", 2))
        run.pipe("stream", ("a", "", 3), ("b", "", 4))
        run.pipe("left", ("a", "2", 5), ("b", "3", 6))
        run.pipe("stream", ("a", "", 7), ("b", "", 8))
        assert [value for _, value, _ in run.read("out")] == expected


def test_should_group_a_join_of_tables_with_the_old_values_of_both() -> None:
    builder = StreamsBuilder()
    joined = builder.table("left", STRING, STRING).join(builder.table("right", STRING, STRING), both)
    groups = joined.group_by(lambda k, v: (v, k), key_serde=STRING, value_serde=STRING)
    groups.reduce(lambda a, b: a + b, lambda a, b: a.replace(b, "")).to_stream().to("out")
    with driven(builder) as run:
        run.pipe("left", ("k", "1", 1))
        run.pipe("right", ("k", "A", 2), ("k", "B", 3))
        run.pipe("left", ("k", "2", 4))
        assert run.read("out") == [
            ("1+A", "k", 2),
            ("1+A", "", 3),
            ("1+B", "k", 3),
            ("1+B", "", 4),
            ("2+B", "k", 4),
        ]
