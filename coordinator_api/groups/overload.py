"""What is refused when the service cannot keep up, in which order: computations, then describes, then joins.

A heartbeat is never refused: it is the cheapest request, and without it a member would lose its tasks, and everybody
would have to rejoin. What is refused is tried again by its sender after `Retry-After`, so the load comes back later and
thinner. The measure is the lag of the event loop, which is what every request waits for, and for joins also the number
of events that wait for their commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from coordinator_api.errors import TooManyRequests

Kind = Literal["computation", "describe", "join"]

MOST_LAG_MS: dict[Kind, float] = {"computation": 250, "describe": 500, "join": 1_000}
"""From this lag of the loop on, in milliseconds, requests of this kind are refused."""

MOST_EVENTS_WAITING = 10_000
"""From so many events that wait for their commit on, joins are refused."""


class Overload:
    """`lag_ms`: of the event loop, lately. `waiting`: events of all groups. `shed`: told of each refusal."""

    def __init__(self, lag_ms: Callable[[], float], waiting: Callable[[], int], shed: Callable[[Kind], None]) -> None:
        self._lag_ms = lag_ms
        self._waiting = waiting
        self._shed = shed

    def admit(self, kind: Kind) -> None:
        """Raises TooManyRequests when a request of this kind has to wait for better times."""
        lag_ms = self._lag_ms()
        if lag_ms >= MOST_LAG_MS[kind]:
            self._shed(kind)
            raise TooManyRequests(
                f"the service is overloaded: it is {lag_ms:.0f} ms behind, and refuses each {kind} from "
                f"{MOST_LAG_MS[kind]:.0f} ms on; try again later",
                retry_after_s=max(1, round(2 * lag_ms / 1000)),
            )
        if kind == "join" and self._waiting() >= MOST_EVENTS_WAITING:
            self._shed(kind)
            raise TooManyRequests(f"the service is overloaded: {self._waiting()} events wait; try again later")
