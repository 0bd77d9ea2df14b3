"""Lags and their sentinels."""

import pytest

from assignor.clients.client_state import compute_task_lags, is_caught_up
from assignor.errors import IllegalStateError
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, TaskId

TASK, UNREPORTED, STATELESS = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)


@pytest.mark.parametrize(
    ("offset_sum", "end", "lag"),
    [
        (40, 100, 60),
        (100, 100, 0),
        (0, 100, 100),
        (101, 100, 100),
        (LATEST_OFFSET, 100, LATEST_OFFSET),
        (UNKNOWN_OFFSET_SUM, 100, UNKNOWN_OFFSET_SUM),
        (5, UNKNOWN_OFFSET_SUM, UNKNOWN_OFFSET_SUM),
        (0, JAVA_LONG_MAX, JAVA_LONG_MAX),
        (-100, JAVA_LONG_MAX, -(2**63) + 99),
    ],
)
def test_should_compute_the_lag_as_javas_long_arithmetic_does(offset_sum: int, end: int, lag: int) -> None:
    assert compute_task_lags({TASK: offset_sum}, {TASK: end}).lag_for(TASK) == lag


def test_should_have_a_lag_for_every_stateful_task_and_for_no_other() -> None:
    lags = compute_task_lags({TASK: 1, STATELESS: 5}, {TASK: 10, UNREPORTED: 20})
    assert {task: lags.lag_for(task) for task in lags} == {TASK: 9, UNREPORTED: 20}
    assert STATELESS not in lags
    with pytest.raises(IllegalStateError, match="unknown task 1_0"):
        lags.lag_for(STATELESS)


@pytest.mark.parametrize(
    ("lag", "acceptable", "expected"),
    [
        (0, 0, True),
        (10, 10, True),
        (11, 10, False),
        (LATEST_OFFSET, 0, True),
        (UNKNOWN_OFFSET_SUM, 10_000, False),
        (UNKNOWN_OFFSET_SUM, JAVA_LONG_MAX, True),
        (JAVA_LONG_MAX, JAVA_LONG_MAX, True),
    ],
)
def test_should_call_a_client_caught_up_within_the_acceptable_lag(lag: int, acceptable: int, expected: bool) -> None:
    assert is_caught_up(lag, acceptable) is expected
