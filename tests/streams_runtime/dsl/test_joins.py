"""Joins of a stream with a table, and of two tables."""

import logging
from typing import Any

import pytest

from streams_runtime import STRING, StreamsBuilder
from tests.streams_runtime.dsl.driven import driven


def both(first: str | None, second: str | None) -> str:
    return f"{first}+{second}"


def test_should_leave_out_records_without_key_or_value_and_say_where(caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    table = builder.table("table", STRING, STRING)
    builder.stream("stream", STRING, STRING).join(table, both).to("out", value_serde=STRING)
    with driven(builder) as run, caplog.at_level(logging.WARNING, "streams_runtime.dsl"):
        run.pipe("table", ("a", "A", 1))
        run.pipe("stream", (None, "1", 2), ("a", None, 3), ("a", "2", 4))
        assert run.read("out") == [("a", "2+A", 4)]
    skipped = "Skipping record due to null join key or value. topic=[stream] partition=[0] offset=[%d]"
    assert [record.getMessage() for record in caplog.records] == [skipped % 0, skipped % 1]


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


@pytest.mark.parametrize(("left_join", "expected"), [(False, ["1+A", "2+A"]), (True, ["1+A", "2+A", "3+None"])])
def test_should_read_a_join_of_tables_that_is_not_kept_from_both_sides(left_join: bool, expected: list[str]) -> None:
    builder = StreamsBuilder()
    left, right = builder.table("left", STRING, STRING), builder.table("right", STRING, STRING)
    joined = left.left_join(right, both) if left_join else left.join(right, both)
    builder.stream("stream", STRING, STRING).join(joined, lambda _value, found: found).to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("right", ("a", "A", 1))
        run.pipe("left", ("a", "1", 2))
        run.pipe("stream", ("a", "", 3), ("b", "", 4))
        run.pipe("left", ("a", "2", 5), ("b", "3", 6))
        run.pipe("stream", ("a", "", 7), ("b", "", 8))
        assert [value for _, value, _ in run.read("out")] == expected


def test_should_read_a_row_of_a_join_with_the_later_of_its_two_times() -> None:
    builder = StreamsBuilder()
    left, right = builder.table("left", STRING, STRING), builder.table("right", STRING, STRING)
    joined = builder.table("third", STRING, STRING).join(left.join(right, both), both)
    joined.to_stream().to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("left", ("a", "1", 2))
        run.pipe("right", ("a", "A", 9))
        run.pipe("third", ("a", "x", 5))
        assert run.read("out") == [("a", "x+1+A", 9)]


def test_should_read_an_outer_join_that_is_not_kept_from_either_side() -> None:
    builder = StreamsBuilder()
    joined = builder.table("left", STRING, STRING).outer_join(builder.table("right", STRING, STRING), both)
    builder.stream("stream", STRING, STRING).join(joined, lambda _value, found: found).to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("left", ("a", "1", 1), ("c", "3", 2))
        run.pipe("right", ("b", "B", 3), ("c", "C", 4))
        run.pipe("stream", ("a", "", 5), ("b", "", 6), ("c", "", 7), ("d", "", 8))
        assert [value for _, value, _ in run.read("out")] == ["1+None", "None+B", "3+C"]


def test_should_remove_a_row_of_an_outer_join_with_its_last_side() -> None:
    builder = StreamsBuilder()
    left, right = builder.table("left", STRING, STRING), builder.table("right", STRING, STRING)
    left.outer_join(right, both, store="joined", value_serde=STRING).to_stream().to("out")
    with driven(builder) as run:
        run.pipe("left", ("k", "1", 1))
        run.pipe("right", ("k", "A", 2))
        run.pipe("left", ("k", None, 3), ("k", None, 4))
        run.pipe("right", ("k", None, 5), ("k", None, 6))
        assert run.read("out") == [
            ("k", "1+None", 1),
            ("k", "1+A", 2),
            ("k", "None+A", 3),
            ("k", None, 5),
        ]
        assert list(run.driver.get_key_value_store("joined").all()) == []


def test_should_keep_records_without_key_before_the_repartition_topic_of_a_left_join_alone() -> None:
    builder = StreamsBuilder()
    without_key: Any = builder.stream("stream", STRING, STRING).select_key(lambda _key, _value: None)
    found = builder.table("table", STRING, STRING)
    without_key.left_join(found, both, key_serde=STRING, value_serde=STRING).to("left", value_serde=STRING)
    without_key.join(found, both, key_serde=STRING, value_serde=STRING).to("inner", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("stream", ("k", "v", 1))
        assert (run.read("left"), run.read("inner")) == ([(None, "v+None", 1)], [])


def test_should_give_a_joiner_the_key_first_if_the_join_asks_for_it() -> None:
    builder = StreamsBuilder()
    left, right = builder.table("left", STRING, STRING), builder.table("right", STRING, STRING)
    stream = builder.stream("stream", STRING, STRING)
    stream.join(left, "{}:{}+{}".format, with_key=True).to("a", value_serde=STRING)
    stream.left_join(left, "{}:{}+{}".format, with_key=True).to("b", value_serde=STRING)
    left.join(right, "{}:{}+{}".format, with_key=True).to_stream().to("c", value_serde=STRING)
    left.left_join(right, "{}:{}+{}".format, with_key=True).to_stream().to("d", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("left", ("k", "L", 1))
        run.pipe("right", ("k", "R", 1))
        run.pipe("stream", ("k", "S", 2), (None, "T", 2))
        assert [value for _, value, _ in run.read("a")] == ["k:S+L"]
        assert [value for _, value, _ in run.read("b")] == ["k:S+L", "None:T+None"]
        assert [value for _, value, _ in run.read("c")] == ["k:L+R"]
        assert [value for _, value, _ in run.read("d")] == ["k:L+None", "k:L+R"]
