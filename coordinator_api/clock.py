"""The one clock of the service: milliseconds since the epoch, and never fewer than before.

It starts at the machine's time and follows the monotonic clock from there, so that a correction of the wall clock
neither expires sessions nor delays a probing rebalance.
"""

from __future__ import annotations

import time
from collections.abc import Callable

ReadNs = Callable[[], int]
"""One of the machine's clocks, in nanoseconds."""

_COUNTS_ALWAYS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot_ms() -> float:
    """Never less than before. It goes on while the process is stopped, and, where there is such a clock, while the
    machine sleeps: for what others count as well.
    """
    return time.clock_gettime(_COUNTS_ALWAYS) * 1000


class SteadyClock:
    """`monotonic_ns`, `wall_ns`: the machine's clocks."""

    def __init__(self, monotonic_ns: ReadNs = time.monotonic_ns, wall_ns: ReadNs = time.time_ns) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()

    def now_ms(self) -> int:
        return (self._monotonic_ns() + self._offset_ns) // 1_000_000
