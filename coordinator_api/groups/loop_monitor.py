"""Watches the event loop: how late it is. The clock of the groups and the shedding of load follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator_api.groups.attentive_clock import BEAT_MS, AttentiveClock

LONG_STALL_MS = 1_000
"""A beat that is later than this is worth a line in the log: the service stood still."""

MOST_COUNTED_MS = 2_000
"""One beat counts at most so much into `lag_ms`: a process that was stopped once is not overloaded."""

WEIGHT = 0.3
"""Of the last beat in `lag_ms`."""


class LoopMonitor:
    """Beats on the running loop from `start` to `stop`. `late`: told how late each beat was, in milliseconds."""

    def __init__(self, clock: AttentiveClock, late: Callable[[float], None]) -> None:
        self._clock = clock
        self._late = late
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self.lag_ms = 0.0

    def start(self) -> None:
        self._clock.beat()
        self._next(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._clock.release()

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_s = loop.time() + BEAT_MS / 1000
        self._timer = loop.call_at(self._due_s, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._clock.beat()
        late_ms = max(0.0, (loop.time() - self._due_s) * 1000)
        self.lag_ms += WEIGHT * (min(late_ms, MOST_COUNTED_MS) - self.lag_ms)
        self._late(late_ms)
        self._next(loop)
