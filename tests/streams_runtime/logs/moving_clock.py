"""A clock that only moves when a test moves it."""

from __future__ import annotations


class MovingClock:
    def __init__(self, now_ms: int = 1_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        self._now_ms += by_ms
