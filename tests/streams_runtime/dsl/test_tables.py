"""Tables: what they keep, what they remove, and which changes they send."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from assignor.errors import StreamsError, TopologyError
from streams_runtime import BYTES, DOUBLE, JSON, LONG, STRING, KTable, StreamsBuilder, TopologyTestDriver
from streams_runtime.dsl.change import Change
from streams_runtime.dsl.materialized import Materialized, StoreFactory
from streams_runtime.dsl.table_aggregates import COUNT, KTableAggregate, KTableRepartitionMap
from streams_runtime.dsl.windows import TimeWindows
from streams_runtime.processors.context import CurrentNode, NodeContext, Operator, ignore
from streams_runtime.state_stores.builders import key_value_store, timestamped_key_value_store
from streams_runtime.state_stores.state_store import ValueAndTimestamp
from tests.streams_runtime.dsl.driven import driven
from tests.streams_runtime.processors.recording_runtime import PassOn, RecordingRuntime


def table(builder: StreamsBuilder, store: str | None = None) -> KTable[str, str]:
    return builder.table("in", STRING, STRING, store=store)


@pytest.mark.parametrize("store", [None, "kept"])
def test_should_leave_out_records_without_key(store: str | None, caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    table(builder, store).to_stream().to("out")
    with driven(builder) as run, caplog.at_level(logging.WARNING, "streams_runtime.dsl"):
        run.pipe("in", (None, "1", 1), ("a", "2", 2))
        assert run.read("out") == [("a", "2", 2)]
    assert [record.getMessage() for record in caplog.records] == [
        "Skipping record due to null key. topic=[in] partition=[0] offset=[0]"
    ]


def test_should_follow_the_order_of_the_topic_when_timestamps_go_back(caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    table(builder, "kept").to_stream().to("out")
    with driven(builder) as run, caplog.at_level(logging.WARNING, "streams_runtime.dsl"):
        run.pipe("in", ("a", "later", 9), ("a", "earlier", 3))
        assert run.read("out") == [("a", "later", 9), ("a", "earlier", 3)]
        assert run.driver.get_key_value_store("kept").get("a") == ValueAndTimestamp("earlier", 3)
    assert [record.getMessage()[:85] for record in caplog.records] == [
        "Detected out-of-order KTable update for kept, old timestamp=[9] new timestamp=[3]. re"
    ]


@pytest.mark.parametrize(
    ("first", "second"), [(1, True), (True, 1), (1, 1.0), (False, 0), (0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
)
@pytest.mark.parametrize("serde", [JSON, None])
@pytest.mark.parametrize("store", [None, "rows"])
def test_should_move_a_row_between_groups_equal_only_in_python(
    first: Any, second: Any, serde: Any, store: str | None
) -> None:
    """They are two keys on the log and in a store. `serde` None: the default one."""
    builder = StreamsBuilder()
    rows = builder.table("rows", STRING, JSON, store=store)
    groups = rows.group_by(lambda k, v: (v["group"], v["number"]), key_serde=serde, value_serde=JSON)
    groups.reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream().to("sums", key_serde=serde)
    with TopologyTestDriver(builder.build(), {"default.key.serde": JSON}) as driver:
        topic, sums = driver.create_input_topic("rows", STRING, JSON), driver.create_output_topic("sums", BYTES, JSON)
        topic.pipe_input("a", {"group": first, "number": 1}, 0)
        topic.pipe_input("a", {"group": second, "number": 5}, 1)
        assert sums.read_key_values_to_map() == {JSON.serialize(first): 0, JSON.serialize(second): 5}


def test_should_let_both_values_of_a_group_travel_together_when_only_python_tells_their_keys_apart() -> None:
    builder = StreamsBuilder()
    groups = builder.table("rows", STRING, STRING).group_by(
        lambda k, v: (float("nan"), v), key_serde=DOUBLE, value_serde=STRING
    )
    groups.count().to_stream().to("counts")
    with driven(builder) as run:
        run.pipe("rows", ("a", "x", 0), ("a", "y", 1))
        assert [value for _, value, _ in run.read("counts", LONG, BYTES)] == [1, 1]


def test_should_begin_a_group_again_when_the_subtractor_leaves_nothing() -> None:
    def subtract(_key: str, _value: str, _so_far: str) -> Any:
        return None

    builder = StreamsBuilder()
    groups = table(builder).group_by(lambda _key, value: ("all", value), key_serde=STRING, value_serde=STRING)
    added = groups.aggregate(str, lambda _key, value, so_far: so_far + value, subtract, value_serde=STRING)
    added.to_stream().to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("in", ("a", "x", 1), ("b", "y", 2), ("a", "z", 3))
        assert [value for _, value, _ in run.read("out")] == ["x", "xy", "z"]


def test_should_know_the_old_aggregate_of_a_table_that_a_function_changes_in_place() -> None:
    def add(_key: str, value: str, so_far: list[str]) -> list[str]:
        so_far.append(value)
        return so_far

    builder = StreamsBuilder()
    groups = table(builder).group_by(lambda k, v: (v[0], v), key_serde=STRING, value_serde=STRING)
    uncached = Materialized("lists", caching=False)
    lists = groups.aggregate(list, add, lambda k, v, so_far: so_far, value_serde=JSON, store=uncached)
    sizes = lists.group_by(lambda k, v: ("all", len(v)), key_serde=STRING, value_serde=LONG)
    sizes.reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream().to("out")
    with driven(builder) as run:
        run.pipe("in", ("a", "x1", 1), ("b", "x2", 2))
        assert run.read("out", LONG) == [("all", 1, 1), ("all", 2, 2)]


@pytest.mark.parametrize(
    "operator",
    [
        KTableRepartitionMap(lambda k, v: (v, k), "groups", STRING),
        KTableAggregate(StoreFactory("s", STRING, LONG, Materialized()), COUNT),
    ],
)
def test_should_fail_on_a_change_without_key(operator: Operator) -> None:
    context = NodeContext("node", frozenset({"s"}), CurrentNode())
    store: Any = timestamped_key_value_store("s", STRING, LONG, changelog=None).build()
    context.open(RecordingRuntime(stores={"s": store}))
    receiver = operator.connect(ignore, context)
    with pytest.raises(StreamsError, match="should not be null"):
        receiver(None, Change("v"), 1, ())


def _count(builder: StreamsBuilder, store: str) -> None:
    builder.stream("in", STRING, STRING).group_by_key().count(store=store)


def _count_windows(builder: StreamsBuilder, store: str) -> None:
    builder.stream("in", STRING, STRING).group_by_key().windowed_by(TimeWindows(10)).count(store=store)


def _to_table(builder: StreamsBuilder, store: str) -> None:
    builder.stream("in", STRING, STRING).to_table(store=Materialized(store))


def _read_table(builder: StreamsBuilder, store: str) -> None:
    builder.table("other", STRING, STRING, store=store)


def _filter_table(builder: StreamsBuilder, store: str) -> None:
    builder.table("third", STRING, STRING).filter(lambda k, v: True, store=store)


def _group_table(builder: StreamsBuilder, store: str) -> None:
    builder.table("fourth", STRING, STRING).group_by(lambda k, v: (v, k), key_serde=STRING, value_serde=STRING).reduce(
        max, min, store=store
    )


def _join_tables(builder: StreamsBuilder, store: str) -> None:
    left, right = builder.table("left", STRING, STRING), builder.table("right", STRING, STRING)
    left.join(right, lambda a, b: a + b, value_serde=STRING, store=store)


def _own_store(builder: StreamsBuilder, store: str) -> None:
    builder.add_state_store(key_value_store(store, STRING, STRING))


_KINDS = [_count, _count_windows, _to_table, _read_table, _filter_table, _group_table, _join_tables, _own_store]
_PAIRS = list(zip(_KINDS, _KINDS[1:] + _KINDS[:1], strict=True))
_PAIRS += [(_count, one) for one in _KINDS[:-1]]


@pytest.mark.parametrize(("one", "other"), _PAIRS)
def test_should_refuse_two_stores_of_one_name(
    one: Callable[[StreamsBuilder, str], None], other: Callable[[StreamsBuilder, str], None]
) -> None:
    """Even if both are alike: two tables would overwrite each other's entries."""
    builder = StreamsBuilder()
    one(builder, "same")
    other(builder, "same")

    with pytest.raises(TopologyError) as refused:
        builder.build()

    assert str(refused.value) == "Invalid topology: A different StateStore has already been added with the name same."


def test_should_take_the_same_store_twice() -> None:
    builder, store = StreamsBuilder(), key_value_store("own", STRING, STRING)
    builder.add_state_store(store).add_state_store(store)
    builder.stream("in", STRING, STRING).process(PassOn, stores=["own"])

    assert [each.name for each in builder.build().group_topology("app").subtopologies[0].stores] == ["own"]


def test_should_keep_a_filtered_table_with_serdes_of_its_own() -> None:
    """`map_values` leaves no serde of the values behind, and the filter's store needs one."""
    builder = StreamsBuilder()
    lengths = builder.table("in", STRING, STRING).map_values(len)
    lengths.filter(lambda k, v: v > 1, key_serde=STRING, value_serde=LONG, store="long").to_stream().to("long")
    lengths.filter_not(lambda k, v: v > 1, value_serde=LONG, store="short").to_stream().to("short")
    with driven(builder) as run:
        run.pipe("in", ("a", "xx", 0), ("b", "y", 1))
        assert run.read("long", LONG) == [("a", 2, 0)]
        assert list(run.driver.get_key_value_store("long").all()) == [("a", ValueAndTimestamp(2, 0))]
        assert list(run.driver.get_key_value_store("short").all()) == [("b", ValueAndTimestamp(1, 1))]


def test_should_keep_tables_under_key_serdes_of_their_own() -> None:
    builder = StreamsBuilder()
    left, right = builder.table("in", STRING, STRING), builder.table("other", STRING, STRING)
    left.map_values(len, key_serde=JSON, value_serde=LONG, store="mapped").to_stream().to("mapped")
    left.map_values_with_key(lambda k, v: k, key_serde=JSON, value_serde=STRING, store="keyed")
    left.join(right, lambda a, b: a + b, key_serde=JSON, value_serde=STRING, store="joined").to_stream().to("joined")
    left.left_join(right, lambda a, b: a, key_serde=JSON, value_serde=STRING, store="left")
    with driven(builder) as run:
        run.pipe("in", ("a", "x", 0))
        run.pipe("other", ("a", "y", 1))
        assert run.read("mapped", LONG, BYTES) == [(b'"a"', 1, 0)]
        assert run.read("joined", STRING, BYTES) == [(b'"a"', "xy", 1)]
        for store in ("mapped", "keyed", "joined", "left"):
            assert [key for key, _ in run.driver.get_key_value_store(store).all()] == ["a"]
