"""When a call that had no answer is repeated. Chance comes in as a number from 0 to 1, and spreads callers."""

from __future__ import annotations

FIRST_PAUSE_MS = 50
LONGEST_PAUSE_MS = 500
FIRST_HEARTBEAT_PAUSE_MS = 20


def pause_before_repetition_ms(failures: int, retry_after_ms: int | None, chance: float) -> int:
    """Of a member's call: the first time at once, then after pauses that grow.

    `failures`: of this call so far, at least 1. `retry_after_ms`: the pause that the coordinator asked for; chance
    makes it longer, never shorter.
    """
    if retry_after_ms is not None:
        return round(retry_after_ms * (1 + chance))
    if failures == 1:
        return 0
    return round(min(FIRST_PAUSE_MS * (1 << min(failures - 2, 10)), LONGEST_PAUSE_MS) * (1 + chance) / 2)


def pause_between_heartbeats_ms(times: int, retry_after_ms: int | None, chance: float, interval_ms: int) -> int:
    """Before a heartbeat that follows others too soon: pauses that grow, never so long that a session could end.

    `times`: so many came before, at least 1. `interval_ms`: heartbeat.interval.ms, which is the longest pause.
    """
    growing_ms = min(FIRST_HEARTBEAT_PAUSE_MS * (1 << min(times - 1, 10)), LONGEST_PAUSE_MS) / 2
    return round(min(max(growing_ms, retry_after_ms or 0) * (1 + chance), interval_ms))


def pause_of_a_patient_call_ms(failures: int, retry_after_ms: int | None, chance: float) -> int:
    """Of a call that its caller wants repeated for a while: any pause up to a longest one, which grows.

    `failures`, `retry_after_ms`: as above.
    """
    if retry_after_ms is not None:
        return round(retry_after_ms * (1 + chance))
    return round(min(FIRST_PAUSE_MS * (1 << min(failures - 1, 10)), LONGEST_PAUSE_MS) * chance)


def is_patience_over(waited_ms: float, patience_ms: float) -> bool:
    """Whether a call that has failed is not repeated any more. Without patience it is made once."""
    return waited_ms >= patience_ms
