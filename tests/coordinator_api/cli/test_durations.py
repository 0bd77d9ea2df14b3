"""Durations as people type them."""

from __future__ import annotations

import pytest

from assignor.errors import InputError
from coordinator_api.cli.calls import duration_ms


@pytest.mark.parametrize(
    "text, expected",
    [("500ms", 500), ("60s", 60_000), ("10m", 600_000), ("1h30m", 5_400_000), ("2h", 7_200_000), ("1m30s", 90_000)],
)
def test_should_read_a_duration(text: str, expected: int) -> None:
    assert duration_ms(text, "DURATION") == expected


@pytest.mark.parametrize("text", ["", "60", "s", "1s1m", "-5s", "1.5s", " 5s", "5s ", "1d", "9999999s"])
def test_should_refuse_what_is_no_duration(text: str) -> None:
    with pytest.raises(InputError, match="such as 60s, 10m or 1h30m"):
        duration_ms(text, "DURATION")
