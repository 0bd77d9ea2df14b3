"""Reads the machine's time, compares it with the coordinator's, and formats durations. Only this module reads the
machine's time. Tests replace the clock by their own clock.

Source: `Time`, `MockTime`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Returns the wall-clock time in milliseconds since the epoch."""

    def monotonic_ms(self) -> int:
        """Returns the milliseconds since an arbitrary moment. Used for deadlines and rates. The monotonic clock never
        goes back.
        """


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


TOLERANCE_MS = 5_000
"""Clocks that differ by less agree: a call takes time, and the date of an answer is up to two seconds old."""


def difference_text(date_ms: int, asked_ms: int, answered_ms: int) -> str | None:
    """Returns how this machine's clock differs from the coordinator's clock; None if both agree. `date_ms`: the time of
    the coordinator's clock when it answered a call. `asked_ms`, `answered_ms`: this machine's times of the call and of
    its answer.
    """
    ahead_ms, behind_ms = asked_ms - date_ms, date_ms - answered_ms
    if max(ahead_ms, behind_ms) <= TOLERANCE_MS:
        return None
    # without milliseconds, because the date has none
    side = "ahead of" if ahead_ms > 0 else "behind"
    duration = duration_text(max(ahead_ms, behind_ms) // 1_000 * 1_000)
    return f"the clock of this instance is {duration} {side} the clock of the coordinator"


def duration_text(duration_ms: int) -> str:
    """Formats a duration as `2 days, 3:04:05`.

    The duration may have any length. `timedelta` is not used, because the difference of two timestamps may be longer
    than its limit of 999,999,999 days.
    """
    seconds, left_ms = divmod(duration_ms, 1_000)
    days, seconds = divmod(seconds, 86_400)
    text = f"{seconds // 3_600}:{seconds // 60 % 60:02}:{seconds % 60:02}" + (f".{left_ms:03}" if left_ms else "")
    return text if days == 0 else f"{days} day{'' if days == 1 else 's'}, {text}"
