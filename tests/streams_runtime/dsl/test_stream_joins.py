"""Joins of two streams: misuse, internal topics, and failures of the joiner."""

from typing import Any

import pytest

from assignor.errors import IllegalArgumentError, TopologyError
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from streams_runtime import (
    STRING,
    JoinWindows,
    KStream,
    Materialized,
    StreamsBuilder,
    TopologyTestDriver,
    log_and_continue,
)
from tests.streams_runtime.dsl.driven import driven

WINDOWS = JoinWindows(10, grace_ms=5)


def both(first: str | None, second: str | None) -> str:
    return f"{first}+{second}"


def streams() -> tuple[StreamsBuilder, KStream[str, str], KStream[str, str]]:
    builder = StreamsBuilder()
    return builder, builder.stream("left", STRING, STRING), builder.stream("right", STRING, STRING)


def changelogs(builder: StreamsBuilder) -> dict[str, ChangelogConfig | None]:
    """By name of the store."""
    (subtopology,) = builder.build().group_topology("app").subtopologies
    return {store.name: store.changelog for store in subtopology.stores}


def test_should_keep_a_record_without_partner_until_its_window_is_closed() -> None:
    builder, left, right = streams()
    left.left_join(right, both, WINDOWS).to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("left", ("a", "1", 100), ("b", "2", 115))
        assert run.read("out") == []
        run.pipe("left", ("b", "3", 116))
        assert run.read("out") == [("a", "1+None", 100)]
        run.pipe("right", ("b", "x", 120))
        assert run.read("out") == [("b", "2+x", 120), ("b", "3+x", 120)]


def test_should_join_records_after_a_failure_of_the_joiner() -> None:
    def joiner(first: str | None, second: str | None) -> str:
        if second == "bad":
            raise ValueError("bad")
        return both(first, second)

    builder, left, right = streams()
    left.outer_join(right, joiner, WINDOWS).to("out", value_serde=STRING)
    with TopologyTestDriver(builder.build(), processing_exception_handler=log_and_continue) as driver:
        inputs = {topic: driver.create_input_topic(topic, STRING, STRING) for topic in ("left", "right")}
        output = driver.create_output_topic("out", STRING, STRING)
        inputs["right"].pipe_input("a", "bad", 100)
        inputs["left"].pipe_input("a", "1", 101)
        inputs["right"].pipe_input("a", "good", 102)
        assert output.read_key_values() == [("a", "1+good")]
        assert driver.dropped_records()["processing-error"] == 1


def test_should_delete_records_in_the_changelogs_of_the_windows_and_compact_the_shared_one() -> None:
    builder, left, right = streams()
    configs = ChangelogConfig(configs={"segment.bytes": "1000"})
    left.outer_join(right, both, WINDOWS, store=Materialized("joined", changelog=configs))
    windowed = ChangelogConfig(
        ChangelogType.WINDOWED, {"segment.bytes": "1000", "cleanup.policy": "delete"}, retention_ms=25
    )
    assert changelogs(builder) == {
        "joined-outer-this-join-store": windowed,
        "joined-outer-other-join-store": windowed,
        "joined-outer-shared-join-store": configs,
    }


def test_should_log_nothing_without_a_changelog() -> None:
    builder, left, right = streams()
    left.left_join(right, both, WINDOWS, store=Materialized(changelog=None))
    assert set(changelogs(builder).values()) == {None}


def test_should_use_the_serdes_of_the_streams() -> None:
    builder, left, right = streams()
    joined = left.join(right, lambda first, second: len(first + second), WINDOWS)
    joined.map_values(str).group_by_key(value_serde=STRING).count().to_stream().map_values(str)
    with driven(builder) as run:
        run.pipe("left", ("a", "1", 1))
        run.pipe("right", ("a", "22", 1))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: JoinWindows(10), "JoinWindows needs a grace period: give grace_ms"),
        (lambda: JoinWindows(10, grace_ms=-1), "Grace period must not be negative"),
        (lambda: JoinWindows(-10, 5, grace_ms=0), r"Window interval .* must not be negative"),
    ],
)
def test_should_refuse_windows(make: Any, reason: str) -> None:
    with pytest.raises(IllegalArgumentError, match=reason):
        make()


def test_should_take_the_records_of_one_side_only() -> None:
    """A negative time excludes the near records."""
    builder, left, right = streams()
    left.join(right, both, JoinWindows(-5, 10, grace_ms=0)).to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("left", ("a", "1", 100))
        run.pipe("right", *(("a", str(now_ms), now_ms) for now_ms in (100, 104, 105, 110, 111)))
        assert [value for _, value, _ in run.read("out")] == ["1+105", "1+110"]


@pytest.mark.parametrize(
    ("join", "error", "reason"),
    [
        (lambda left, right, _: left.join(right, both), TopologyError, r"needs JoinWindows\(before_ms, after_ms"),
        (lambda left, right, _: left.left_join(right, both, 5), TopologyError, "needs JoinWindows.*, not 5"),
        (
            lambda left, _, table: left.join(table, both, WINDOWS),
            TopologyError,
            "windows only with a stream, not with a table",
        ),
        (lambda left, _, table: left.outer_join(table, both, WINDOWS), TopologyError, "takes a KStream, not a KTable"),
        (lambda left, right, _: left.join(right, None, WINDOWS), TopologyError, "joiner"),
        (
            lambda left, right, _: left.join(right, both, WINDOWS, store=Materialized(retention_ms=26)),
            IllegalArgumentError,
            "This is 25 ms, not 26 ms",
        ),
    ],
)
def test_should_refuse_arguments_that_do_not_fit(join: Any, error: type[Exception], reason: str) -> None:
    builder, left, right = streams()
    with pytest.raises(error, match=reason):
        join(left, right, builder.table("table", STRING, STRING))
