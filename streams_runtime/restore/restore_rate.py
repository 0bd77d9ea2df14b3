"""Records per second over the last ten seconds or so, for people who watch a restore."""

from __future__ import annotations

from collections import deque

from streams_runtime.clock import Clock

_WINDOW_MS = 10_000
_STEP_MS = 250


class RestoreRate:
    """Counts go into steps of a quarter of a second, so that it stays small however many batches there are."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_ms: int | None = None
        self._steps: deque[tuple[int, int]] = deque()

    def start(self) -> None:
        """Time counts from here, if it does not already."""
        if self._started_ms is None:
            self._started_ms = self._clock.monotonic_ms()

    def add(self, records: int) -> None:
        self.start()
        step = self._clock.monotonic_ms() // _STEP_MS
        if self._steps and self._steps[-1][0] == step:
            records += self._steps.pop()[1]
        self._steps.append((step, records))

    def per_second(self) -> float:
        """0 before the first record, and when none came for the whole window."""
        now_ms = self._clock.monotonic_ms()
        while self._steps and (self._steps[0][0] + 1) * _STEP_MS <= now_ms - _WINDOW_MS:
            self._steps.popleft()
        if not self._steps or self._started_ms is None:
            return 0.0
        took_ms = min(max(now_ms - self._started_ms, _STEP_MS), _WINDOW_MS)
        return sum(count for _, count in self._steps) * 1_000 / took_ms
