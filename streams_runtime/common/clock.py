"""Reads the machine's time, and formats durations. Only this module reads the machine's time. Tests replace the clock
by their own clock.

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


def duration_text(duration_ms: int) -> str:
    """Formats a duration as `2 days, 3:04:05`.

    The duration may have any length. `timedelta` is not used, because the difference of two timestamps may be longer
    than its limit of 999,999,999 days.
    """
    seconds, left_ms = divmod(duration_ms, 1_000)
    days, seconds = divmod(seconds, 86_400)
    text = f"{seconds // 3_600}:{seconds // 60 % 60:02}:{seconds % 60:02}" + (f".{left_ms:03}" if left_ms else "")
    return text if days == 0 else f"{days} day{'' if days == 1 else 's'}, {text}"
