"""When the housekeeping has which work, without waiting for it."""

from __future__ import annotations

import pytest

from streams_runtime.threads.housekeeping_times import HousekeepingTimes


@pytest.mark.parametrize(
    ("cleanup_delay_ms", "log_interval_ms", "pauses", "cleanups"),
    [
        (600, 5_000, [1_000, 1_000, 1_000], [True, True, True]),  # never more often than once a second
        (12_000, 5_000, [5_000, 5_000, 2_000, 5_000], [False, False, True, False]),
        (5_000, 5_000, [5_000, 5_000], [True, True]),
    ],
)
def test_should_maintain_the_log_at_each_pause_and_look_for_obsolete_state_once_in_the_delay(
    cleanup_delay_ms: int, log_interval_ms: int, pauses: list[int], cleanups: list[bool]
) -> None:
    times = HousekeepingTimes(cleanup_delay_ms, log_interval_ms)
    seen = [(times.pause_ms, times.passed()) for _ in pauses]
    assert seen == list(zip(pauses, cleanups, strict=True))
