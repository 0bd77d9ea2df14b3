"""The time of one stream thread: that of its process, and what slow disks and logs have cost it on top of that.

A pass of a simulated thread happens at one moment. What it waited for is added to its own clock, and whoever runs it
gives it nothing to do until its process has come to that time.
"""

from __future__ import annotations

from streams_runtime.common.clock import Clock


class ThreadClock:
    """A `Clock`. `clock`: of the process."""

    __slots__ = ("_clock", "_until_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = 0

    def now_ms(self) -> int:
        return self._clock.now_ms() + self.ahead_ms

    def monotonic_ms(self) -> int:
        return max(self._clock.monotonic_ms(), self._until_ms)

    @property
    def ahead_ms(self) -> int:
        """How long it still waits."""
        return max(0, self._until_ms - self._clock.monotonic_ms())

    def spend(self, ms: int) -> None:
        self._until_ms = self.monotonic_ms() + ms


class Pauses:
    """What a process waits for, waits the thread that acts now. `acting`: its clock; None for what has no thread."""

    __slots__ = ("acting",)

    def __init__(self) -> None:
        self.acting: ThreadClock | None = None

    def spend(self, ms: int) -> None:
        if self.acting is not None:
            self.acting.spend(ms)
