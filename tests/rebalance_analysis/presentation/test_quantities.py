"""Times, durations, counts, lags and lists of names in words."""

import pytest

from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, TaskId
from rebalance_analysis.presentation.quantities import (
    counted,
    duration_text,
    lag_text,
    listed,
    task_ranges,
    time_left_ms,
    time_left_text,
    time_text,
    utc,
    utc_iso,
)


@pytest.mark.parametrize(
    "ms, text",
    [
        (0, "0 ms"),
        (0.2, "1 ms"),
        (999, "999 ms"),
        (999.7, "1 s"),
        (1000, "1 s"),
        (1234, "1.2 s"),
        (-1_500, "-1.5 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min"),
        (65_000, "1 min 5 s"),
        (3_599_600, "1 h"),
        (28_200_000, "7 h 50 min"),
        (86_400_000, "1 d"),
        (266_400_000, "3 d 2 h"),
    ],
)
def test_should_say_how_long_in_two_units(ms: float, text: str) -> None:
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    "records, per_s, left_ms, text",
    [
        (0, 10.0, 0, "about 0 ms"),
        (1, 3.0, 334, "about 1 s"),
        (1_200, 100.0, 12_000, "about 12 s"),
        (1_201, 100.0, 12_010, "about 13 s"),
        (425, 1.0, 425_000, "about 7 min 5 s"),
        (1, 0.0, None, ""),
        (10**9, 1.0, None, ""),
    ],
)
def test_should_tell_the_time_that_is_left(records: int, per_s: float, left_ms: int | None, text: str) -> None:
    assert time_left_ms(records, per_s) == left_ms
    assert time_left_text(left_ms) == text


def test_should_say_a_time_in_utc() -> None:
    assert time_text(0) == "1970-01-01 00:00:00.000Z"
    assert utc(1_700_000_000_000) == "2023-11-14 22:13:20 UTC"
    assert utc_iso(1_700_000_000_000) == "2023-11-14T22:13:20Z"


def test_should_say_a_time_that_no_calendar_has() -> None:
    assert time_text(2**62) == f"{2**62} ms"
    assert utc_iso(10**20) == "1970-01-01T00:00:00Z"


def test_should_say_a_noun_as_often_as_it_is_counted() -> None:
    assert [counted(number, "task") for number in (0, 1, 1_234)] == ["0 tasks", "1 task", "1,234 tasks"]
    assert counted(2, "process", "processes") == "2 processes"


@pytest.mark.parametrize("lag, text", [(None, ""), (0, "lag 0"), (1_282, "lag 1,282"), (LATEST_OFFSET, "running it")])
def test_should_say_how_far_a_copy_is_behind(lag: int | None, text: str) -> None:
    assert lag_text(lag) == text


def test_should_say_that_a_lag_is_unknown() -> None:
    assert lag_text(UNKNOWN_OFFSET_SUM) == "lag unknown"


def test_should_name_the_first_of_many() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(["a", "b", "c", "d", "e", "f"]) == "a, b, c, d and 2 more"


@pytest.mark.parametrize(
    "partitions, text",
    [
        ((), ""),
        ((0,), "0_0"),
        ((0, 1), "0_0, 0_1"),
        ((2, 0, 1), "0_0 to 0_2"),
        ((0, 1, 2, 4), "0_0 to 0_2, 0_4"),
        (range(0, 28, 2), "0_0, 0_2, 0_4, 0_6, 0_8, 0_10, 0_12, 0_14, 0_16, 0_18, 0_20, 0_22 and 2 more"),
    ],
)
def test_should_name_three_tasks_in_a_row_as_a_range(partitions: tuple[int, ...], text: str) -> None:
    assert task_ranges([TaskId(0, partition) for partition in partitions]) == text
