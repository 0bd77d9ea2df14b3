"""Aggregates in windows of time."""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import IllegalArgumentError
from assignor.topology.definition import SinkNode
from assignor.topology.group_topology import ChangelogType
from streams_runtime.dsl.materialized import Materialized
from streams_runtime.dsl.streams import TimeWindowedKStream
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.dsl.suppression import Suppressed
from streams_runtime.dsl.windows import (
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindowedSerde,
    TimeWindows,
    UnlimitedWindows,
    WindowedStreamPartitioner,
)
from streams_runtime.processors.runtime import SinkSettings
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import versioned_key_value_store, window_store
from streams_runtime.state_stores.state_store import Windowed
from tests.streams_runtime.dsl.driven import driven

KEYS = TimeWindowedSerde(STRING, 10)


def windowed(builder: StreamsBuilder, windows: TimeWindows) -> TimeWindowedKStream[str, str]:
    return builder.stream("in", STRING, STRING).group_by_key().windowed_by(windows)


def at(key: str, start_ms: int) -> Windowed[str]:
    return Windowed(key, start_ms, start_ms + 10)


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 500))
def test_should_start_at_multiples_of_the_advance_and_hold_the_timestamp(size: int, advance: int, time: int) -> None:
    advance = min(size, advance)
    starts = list(TimeWindows(size, advance).starts_for(time))
    assert starts == [start for start in range(0, time + 1, advance) if start <= time < start + size]


@pytest.mark.parametrize("wrong", [timedelta(minutes=5), 5.5, "5m"])
def test_should_refuse_a_time_that_is_no_whole_number_of_milliseconds(wrong: Any) -> None:
    calls: dict[str, Callable[[], object]] = {
        "size_ms": lambda: TimeWindows(wrong),
        "advance_ms": lambda: TimeWindows(10, advance_ms=wrong),
        "time_difference_ms": lambda: SlidingWindows(wrong),
        "gap_ms": lambda: SessionWindows(wrong),
        "before_ms": lambda: JoinWindows(wrong, grace_ms=0),
        "grace_ms": lambda: JoinWindows(5, grace_ms=wrong),
        "start_ms": lambda: UnlimitedWindows(wrong),
        "wait_ms": lambda: Suppressed.until_time_limit(wrong),
        "store w: retention": lambda: window_store("w", STRING, STRING, retention_ms=wrong, window_size_ms=1),
        "store w: window size": lambda: window_store("w", STRING, STRING, retention_ms=9, window_size_ms=wrong),
        "history_retention_ms": lambda: versioned_key_value_store("v", STRING, STRING, history_retention_ms=wrong),
    }
    for name, call in calls.items():
        with pytest.raises(IllegalArgumentError, match=f"^{name} must be a whole number of milliseconds"):
            call()


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 500))
def test_should_know_which_timestamps_have_the_same_windows(size: int, advance: int, time: int) -> None:
    windows = TimeWindows(size, min(size, advance))
    starts = windows.starts_for(time)
    first, end = windows.timestamp_range_of(time)
    same = [each for each in range(time + 2 * size) if windows.starts_for(each) == starts]
    assert list(range(first, end)) == same


@pytest.mark.parametrize("size, advance, grace", [(0, 1, 0), (-1, None, 0), (10, 0, 0), (10, 11, 0), (10, 10, -1)])
def test_should_refuse_windows_that_cannot_be(size: int, advance: int | None, grace: int) -> None:
    with pytest.raises(IllegalArgumentError):
        TimeWindows(size, advance, grace)


def test_should_take_late_records_within_the_grace_and_drop_them_after_it(caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    windowed(builder, TimeWindows(10, grace_ms=5)).count().to_stream().to("out")
    with driven(builder) as run, caplog.at_level(logging.WARNING, "streams_runtime.dsl"):
        run.pipe("in", ("a", "x", 1), ("b", "x", 14), ("a", "late", 2), ("b", "x", 15), ("a", "too late", 3))
        assert run.read("out", LONG, KEYS) == [
            (at("a", 0), 1, 1),
            (at("b", 10), 1, 14),
            (at("a", 0), 2, 2),
            (at("b", 10), 2, 15),
        ]
    assert [record.getMessage() for record in caplog.records] == [
        "Skipping record due to expired window [0,10): its timestamp is 3 and windows that end by 10 are closed. "
        "topic=[in] partition=[0] offset=[4]"
    ]


def test_should_join_a_stream_of_windowed_keys_with_a_windowed_table() -> None:
    builder = StreamsBuilder()
    counts = windowed(builder, TimeWindows(10)).count()
    windows = builder.stream("windows", KEYS, STRING)
    windows.join(counts, lambda word, count: f"{word}{count}").to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("in", ("a", "x", 1))
        asked = run.driver.create_input_topic("windows", KEYS, STRING)
        asked.pipe_input(at("a", 0), "count ", 5)
        asked.pipe_input(at("a", 10), "count ", 15)
        assert run.read("out", STRING, KEYS) == [(at("a", 0), "count 1", 5)]


def test_should_keep_windows_for_size_and_grace_or_as_long_as_was_asked() -> None:
    builder = StreamsBuilder()
    group = builder.stream("in", STRING, STRING).group_by_key()
    group.windowed_by(TimeWindows(10, grace_ms=5)).count(store="least")
    group.windowed_by(TimeWindows(10, grace_ms=5)).count(store=Materialized("longer", retention_ms=99))
    (subtopology,) = builder.build().group_topology("app").subtopologies
    changelogs = {store.name: store.changelog for store in subtopology.stores}
    assert {name: (config.type, config.retention_ms) for name, config in changelogs.items() if config} == {
        "least": (ChangelogType.WINDOWED, 15),
        "longer": (ChangelogType.WINDOWED, 99),
    }


def test_should_refuse_a_retention_under_size_plus_grace() -> None:
    group = StreamsBuilder().stream("in", STRING, STRING).group_by_key()
    with pytest.raises(IllegalArgumentError, match="no smaller than its window size plus the grace period"):
        group.windowed_by(TimeWindows(10, grace_ms=5)).count(store=Materialized("short", retention_ms=14))


def test_should_partition_a_sink_of_windowed_keys_by_the_key_alone() -> None:
    builder = StreamsBuilder()
    counts = windowed(builder, TimeWindows(10)).count().to_stream()
    counts.to("out")
    counts.to("chosen", partitioner=always_first)
    nodes = builder.build().definition().nodes.values()
    sinks = {node.topic: node.supplier for node in nodes if isinstance(node, SinkNode)}
    assert sinks == {
        "out": SinkSettings(KEYS, LONG, WindowedStreamPartitioner(STRING)),
        "chosen": SinkSettings(KEYS, LONG, always_first),
    }


def always_first(key: Windowed[str], value: int, partitions: int) -> int:
    return 0
