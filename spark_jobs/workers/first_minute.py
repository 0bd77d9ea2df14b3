"""What the driver says while instances do not get going: no slot, no executor, no way to the coordinator.

All of these look the same from outside: nothing happens. Each is printed once, and again when it has changed.
"""

from __future__ import annotations

from dataclasses import dataclass

SLOTS_AFTER_S = 15.0
JOINED_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class Beginnings:
    """`running`: instances that have a slot; `joined`: members of the group; `elapsed_s`: since the last change."""

    instances: int
    running: int
    joined: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where instances run. `ui`: of the Spark application, None without one."""

    master: str
    ui: str | None
    coordinator_url: str


def advice(seen: Beginnings, surroundings: Surroundings) -> str | None:
    """One line, or None when there is nothing to say."""
    if seen.running < seen.instances and seen.elapsed_s >= SLOTS_AFTER_S:
        where = f"; see {surroundings.ui}" if surroundings.ui else ""
        waiting = seen.instances - seen.running
        return (
            f"{waiting} of {seen.instances} instances wait for a free executor of {surroundings.master}: "
            f"it has no more cores or memory, or executors do not start{where}"
        )
    if seen.running and not seen.joined and seen.elapsed_s >= JOINED_AFTER_S:
        return (
            f"{seen.running} of {seen.instances} instances run and none has joined the group: "
            f"can they reach the coordinator at {surroundings.coordinator_url}, and the log?"
        )
    return None


class BeginningsWatch:
    """Turns looks into lines."""

    def __init__(self, instances: int) -> None:
        self._instances = instances
        self._last: tuple[int, int] | None = None
        self._since_s = 0.0
        self._last_line: str | None = None

    def look(self, running: int, joined: int, now_s: float, surroundings: Surroundings) -> str | None:
        """What to say now. `now_s`: of a clock that never goes back."""
        if (running, joined) != self._last:
            self._last, self._since_s = (running, joined), now_s
        seen = Beginnings(self._instances, running, joined, now_s - self._since_s)
        line = advice(seen, surroundings)
        if line is None or line == self._last_line:
            return None
        self._last_line = line
        return line
