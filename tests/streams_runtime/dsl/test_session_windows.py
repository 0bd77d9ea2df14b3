"""Aggregates in sessions and sliding windows, and results that are forwarded when a window closes."""

from typing import Any

import pytest

from assignor.errors import IllegalArgumentError, TopologyError
from assignor.topology.group_topology import ChangelogType
from streams_runtime import (
    LONG,
    STRING,
    EmitStrategy,
    Materialized,
    SessionWindowedSerde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindowedSerde,
    TimeWindows,
    UnlimitedWindows,
    Windowed,
)
from streams_runtime.dsl.windows import default_partitioner
from streams_runtime.logs.partitioner import partition_of
from tests.streams_runtime.dsl.driven import driven

SESSIONS = SessionWindowedSerde(STRING)


def grouped(builder: StreamsBuilder) -> Any:
    return builder.stream("in", STRING, STRING).group_by_key()


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_should_merge_sessions_and_forward_their_removal(caching: bool, persistent: bool) -> None:
    builder = StreamsBuilder()
    store = Materialized("counts", caching=caching, persistent=persistent)
    grouped(builder).windowed_by(SessionWindows(10, grace_ms=20)).count(store=store).to_stream().to("out")
    with driven(builder) as run:
        run.pipe("in", ("a", "x", 1), ("a", "x", 21), ("a", "x", 11), (None, "x", 12))
        assert run.read("out", LONG, SESSIONS) == [
            (Windowed("a", 1, 1), 1, 1),
            (Windowed("a", 21, 21), 1, 21),
            (Windowed("a", 1, 1), None, 1),
            (Windowed("a", 21, 21), None, 21),
            (Windowed("a", 1, 21), 3, 21),
        ]
        assert list(run.driver.get_session_store("counts").fetch("a")) == [(Windowed("a", 1, 21), 3)]
        assert run.driver.dropped_records() == {"null-key": 1}


def test_should_drop_a_record_that_is_late_for_its_session() -> None:
    builder = StreamsBuilder()
    grouped(builder).windowed_by(SessionWindows(10, grace_ms=5)).reduce(str.__add__).to_stream().to("out")
    with driven(builder) as run:
        run.pipe("in", ("a", "x", 30), ("b", "y", 15), ("b", "late", 4))
        assert run.read("out", STRING, SESSIONS) == [(Windowed("a", 30, 30), "x", 30), (Windowed("b", 15, 15), "y", 15)]
        assert run.driver.dropped_records() == {"late": 1}


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize(
    "windows, expected",
    [
        (TimeWindows(10), [(Windowed("a", 0, 10), "xy", 9), (Windowed("b", 0, 10), "z", 1)]),
        (
            SlidingWindows(2),
            [(Windowed("b", 0, 2), "z", 1), (Windowed("a", 5, 7), "x", 7), (Windowed("a", 7, 9), "xy", 9)],
        ),
        (SessionWindows(5), [(Windowed("b", 1, 1), "z", 1)]),
    ],
)
def test_should_forward_each_window_once_when_it_closes(windows: Any, expected: list[Any], persistent: bool) -> None:
    builder = StreamsBuilder()
    windowed = grouped(builder).windowed_by(windows).emit_strategy(EmitStrategy.ON_WINDOW_CLOSE)
    store = Materialized("s", persistent=persistent, retention_ms=1_000)
    windowed.reduce(str.__add__, store=store).to_stream().to("out")
    with driven(builder) as run:
        run.pipe("in", ("b", "z", 1), ("a", "x", 7), ("a", "y", 9), ("c", "w", 10), ("c", "w", 10))
        serde = SESSIONS if isinstance(windows, SessionWindows) else TimeWindowedSerde(STRING, windows.size_ms)
        assert run.read("out", STRING, serde) == expected


def test_should_refuse_a_choice_that_cannot_be() -> None:
    windowed = grouped(StreamsBuilder()).windowed_by(UnlimitedWindows())
    assert windowed.emit_strategy(EmitStrategy.ON_WINDOW_UPDATE) is not None
    with pytest.raises(IllegalArgumentError, match="cannot be used for UnlimitedWindows"):
        windowed.emit_strategy(EmitStrategy.ON_WINDOW_CLOSE)
    with pytest.raises(TopologyError, match="takes a EmitStrategy, not a str"):
        windowed.emit_strategy("on_window_close")


@pytest.mark.parametrize(
    "make",
    [
        lambda: SessionWindows(0),
        lambda: SessionWindows(1, -1),
        lambda: SlidingWindows(-1),
        lambda: SlidingWindows(1, -1),
        lambda: UnlimitedWindows(-1),
    ],
)
def test_should_refuse_windows_that_cannot_be(make: Any) -> None:
    with pytest.raises(IllegalArgumentError):
        make()


@pytest.mark.parametrize(
    "windows, least_ms, name",
    [(SessionWindows(10, 5), 15, "session store"), (SlidingWindows(10, 5), 25, "window store")],
)
def test_should_refuse_a_retention_that_is_too_short(windows: Any, least_ms: int, name: str) -> None:
    with pytest.raises(IllegalArgumentError, match=f"The retention period of the {name} s must be no smaller than"):
        grouped(StreamsBuilder()).windowed_by(windows).count(store=Materialized("s", retention_ms=least_ms - 1))
    builder = StreamsBuilder()
    grouped(builder).windowed_by(windows).count(store="s")
    changelog = builder.build().definition().stores["s"].changelog
    assert changelog is not None
    assert (changelog.type, changelog.retention_ms) == (ChangelogType.WINDOWED, least_ms)


def test_should_send_all_sessions_of_a_key_to_the_partition_of_the_key() -> None:
    session = Windowed("a", 5, 90)
    assert SESSIONS.deserialize(SESSIONS.serialize(session)) == session
    partitioner = default_partitioner(SESSIONS)
    assert partitioner is not None
    assert partitioner(session, None, 7) == partition_of(b"a", 7)
    assert SESSIONS.serialize(session)[: -partitioner.unhashed_suffix_bytes] == b"a"
