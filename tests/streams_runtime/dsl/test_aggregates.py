"""Streams aggregated into tables."""

import logging
from typing import Any

import pytest

from streams_runtime import JSON, LONG, STRING, KGroupedStream, Materialized, StreamsBuilder
from streams_runtime.state_stores.state_store import ValueAndTimestamp
from tests.streams_runtime.dsl.driven import driven


def grouped(builder: StreamsBuilder) -> KGroupedStream[str, str]:
    return builder.stream("in", STRING, STRING).group_by_key()


def test_should_leave_out_records_without_key_or_value_and_say_where(caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    g = grouped(builder)
    g.count().to_stream().to("count")
    g.reduce(lambda a, b: a + b).to_stream().to("reduce")
    with driven(builder) as run, caplog.at_level(logging.WARNING, "streams_runtime.dsl"):
        run.pipe("in", ("a", "x", 1), (None, "x", 2), ("a", None, 3))
        assert (run.read("count", LONG), run.read("reduce")) == ([("a", 1, 1)], [("a", "x", 1)])
    skipped = "Skipping record due to null key or value. topic=[in] partition=[0] offset=[%d]"
    assert [record.getMessage() for record in caplog.records] == [skipped % at for at in (1, 1, 2, 2)]


@pytest.mark.parametrize("persistent", [True, False])
def test_should_make_the_store_that_was_asked_for(persistent: bool) -> None:
    builder = StreamsBuilder()
    grouped(builder).count(store=Materialized("mine", persistent=persistent, changelog=None))
    (subtopology,) = builder.build().group_topology("app").subtopologies
    assert [(store.name, store.changelog_topic) for store in subtopology.stores] == [("mine", None)]
    with driven(builder) as run:
        run.pipe("in", ("a", "x", 1))
        store = run.driver.get_key_value_store("mine")
        assert (store.get("a"), store.persistent) == (ValueAndTimestamp(1, 1), persistent)


def test_should_count_records_without_key_before_a_repartition_topic_apart_from_dropped_ones() -> None:
    """Kafka's `dropped-records-total` has only the record without value here."""
    builder = StreamsBuilder()
    words = builder.stream("in", STRING, STRING)
    keys: dict[str | None, Any] = {"a": "a", "none": None, None: "a"}
    by_word = words.group_by(lambda _key, word: keys[word], key_serde=STRING, value_serde=STRING)
    by_word.count().to_stream().to("out")
    with driven(builder) as run:
        run.pipe("in", ("1", "a", 1), ("2", "none", 2), ("3", None, 3))
        assert run.read("out", LONG) == [("a", 1, 1)]
        assert run.driver.dropped_records() == {"null-key-or-value": 1}
        assert run.driver.filtered_null_keys() == 1


@pytest.mark.parametrize("caching", [False, True])
def test_should_subtract_from_a_group_of_a_table_only_what_was_added_to_it(caching: bool) -> None:
    """Kafka without a cache subtracts the initializer's value for each new key: it finds nobody with the sum 0."""
    builder = StreamsBuilder()
    sums = grouped(builder).aggregate(
        lambda: 0,
        lambda _key, value, so_far: so_far + len(value),
        value_serde=LONG,
        store=Materialized("sums", caching=caching),
    )
    by_sum = sums.group_by(lambda key, total: (str(total), key), key_serde=STRING, value_serde=STRING)
    by_sum.count(store="how-many")
    with driven(builder) as run:
        run.pipe("in", ("a", "", 1), ("b", "xy", 2), ("c", "xy", 3), ("c", "z", 4))
        counts = {key: count.value for key, count in run.driver.get_key_value_store("how-many").all()}
        assert counts == {"0": 1, "2": 1, "3": 1}


@pytest.mark.parametrize("caching", [False, True])
def test_should_send_no_removal_of_a_new_key_that_a_filter_leaves_out(caching: bool) -> None:
    """Kafka without a cache sends one if the filter would have let the initializer's value pass."""
    builder = StreamsBuilder()
    counts = grouped(builder).count(store=Materialized("counts", caching=caching))
    counts.filter(lambda _key, count: count != 1).to_stream().to("out")
    with driven(builder) as run:
        run.pipe("in", ("a", "x", 1), ("a", "x", 2))
        assert run.read("out", LONG) == [("a", 2, 2)]


@pytest.mark.parametrize("caching", [False, True])
def test_should_send_the_old_aggregate_when_the_function_changes_it_and_returns_a_copy(caching: bool) -> None:
    builder = StreamsBuilder()

    def collect(_key: str, value: str, so_far: list[str]) -> list[str]:
        so_far.append(value)
        return list(so_far)

    lists = grouped(builder).aggregate(list, collect, value_serde=JSON, store=Materialized("all", caching=caching))
    lengths = lists.group_by(lambda _key, values: (str(len(values)), values), key_serde=STRING, value_serde=JSON)
    lengths.count(store=Materialized("keys_by_length", caching=caching))
    with driven(builder) as run:
        run.pipe("in", ("a", "x", 1), ("b", "x", 2), ("a", "y", 3))
        assert [(key, found.value) for key, found in run.driver.get_key_value_store("keys_by_length").all()] == [
            ("1", 1),
            ("2", 1),
        ]
