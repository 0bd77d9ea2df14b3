"""Simulated time: what is to happen later, in order, and what chance decides. One seed gives one history.

Chance comes in streams with names. What draws from one stream does not shift what another one draws, so that a history
from which a fault is taken away stays as it was elsewhere.
"""

import heapq
from collections import deque
from collections.abc import Callable
from random import Random

LINES_KEPT = 600

Action = Callable[[], None]


class Due:
    """One action to come. Once it has been called off, it never happens."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action = action

    def call_off(self) -> None:
        self.action = _nothing


class Timeline:
    """`now_ms` moves from action to action. `events`: how many have happened. `digest`: of when each happened and what
    had brought it about; equal for equal histories.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_ms = 0
        self.events = 0
        self.digest = 0
        self._said: deque[tuple[int, str, tuple[object, ...]]] = deque(maxlen=LINES_KEPT)
        self._streams: dict[str, Random] = {}
        self._actions: list[tuple[int, int, Due]] = []
        self._numbers = 0

    def chance(self, name: str) -> Random:
        """The stream of this name."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = Random(f"{self.seed} {name}")
        return stream

    def fresh(self) -> int:
        """A number that was never given before."""
        self._numbers += 1
        return self._numbers

    def after(self, delay_ms: float, action: Action) -> Due:
        at_ms = self.now_ms + max(0, round(delay_ms))
        self._numbers = number = self._numbers + 1
        due = Due(action)
        heapq.heappush(self._actions, (at_ms, number, due))
        return due

    def say(self, what: str, *about: object) -> None:
        """For the history; it is put into words when somebody reads it. `what`: with a `{}` for each of `about`."""
        self._said.append((self.now_ms, what, about))

    def lines(self) -> list[str]:
        """The last things that happened, for people."""
        return [f"{at_ms:>7} {what.format(*about)[:300] if about else what}" for at_ms, what, about in self._said]

    def run_until(self, end_ms: int, enough: Callable[[], bool] = lambda: False) -> bool:
        """Whether it was `enough` before the end. It is asked after each event."""
        actions = self._actions
        while actions and actions[0][0] <= end_ms:
            at_ms, number, due = heapq.heappop(actions)
            action = due.action
            if action is _nothing:
                continue
            due.action = _nothing
            self.now_ms = at_ms
            self.events += 1
            self.digest = hash((self.digest, at_ms, number))
            action()
            if enough():
                return True
        self.now_ms = end_ms
        return False


def _nothing() -> None:
    pass
