"""The one place that asks the machine for the time. Tests pass their own clock. Source: `Time`, `MockTime`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time, milliseconds since the epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start, for deadlines and rates. It never goes back."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
