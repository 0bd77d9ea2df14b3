"""The one clock of the service: milliseconds since the epoch, and never fewer than before.

It starts at the machine's time and follows the monotonic clock from there, so that a correction of the wall clock
neither expires sessions nor delays a probing rebalance.
"""

from __future__ import annotations

import time


class SteadyClock:
    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000
