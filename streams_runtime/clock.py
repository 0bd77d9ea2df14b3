"""The one place that asks the machine for the time; tests hand in a clock of their own. Source: `Time`, `MockTime`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time, milliseconds since the epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from some start; never goes back. For deadlines and rates."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
