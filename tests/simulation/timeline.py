"""Simulated time: what is to happen later, in order, and what goes wrong by chance. One seed gives one history."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random

LINES_KEPT = 400

Action = Callable[[], None]


class Timeline:
    """`now_ms` moves from action to action. `lines`: the last things that happened, for people."""

    def __init__(self, seed: int) -> None:
        self.now_ms = 0
        self.chance = Random(seed)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._actions: list[tuple[int, int, Action]] = []
        self._numbers = 0

    def fresh(self) -> int:
        """A number that was never given before."""
        self._numbers += 1
        return self._numbers

    def after(self, delay_ms: float, action: Action) -> None:
        heapq.heappush(self._actions, (self.now_ms + round(delay_ms), self.fresh(), action))

    def happens(self, chance: float) -> bool:
        return self.chance.random() < chance

    def say(self, what: str) -> None:
        self.lines.append(f"{self.now_ms:>7} {what}")

    def run_until(self, end_ms: int, enough: Callable[[], bool] = lambda: False) -> bool:
        """Whether it was `enough` before the end."""
        while self._actions and self._actions[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(self._actions)
            action()
            if enough():
                return True
        self.now_ms = end_ms
        return False
