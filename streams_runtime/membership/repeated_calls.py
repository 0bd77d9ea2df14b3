"""When a call that had no answer is repeated."""

from __future__ import annotations

FIRST_PAUSE_MS = 50
LONGEST_PAUSE_MS = 500


def pause_before_repetition_ms(failures: int, retry_after_ms: int | None, chance: float) -> int:
    """The first time at once, then after pauses that grow and that chance spreads.

    `failures`: of this call so far, at least 1. `retry_after_ms`: the pause that the coordinator asked for; chance
    makes it longer, never shorter. `chance`: from 0 to 1.
    """
    if retry_after_ms is not None:
        return round(retry_after_ms * (1 + chance))
    if failures == 1:
        return 0
    return round(min(FIRST_PAUSE_MS * (1 << min(failures - 2, 10)), LONGEST_PAUSE_MS) * (1 + chance) / 2)
