"""What the driver says of instances that do not get going, and what follows when one fails.

No slot, no executor, no way to the coordinator: all of these look the same from outside, nothing happens. Each is
printed once, and again when it has changed.

An instance that fails is started again, by Spark or by the process that started it. One that is lost with its executor,
or whose process was killed, is expected, and started again any number of times. An error that comes at each start, such
as a module that executors lack, would be repeated for ever: the fourth in a row is the last.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from assignor.errors import AssignorFault

SLOTS_AFTER_S = 15.0
JOINED_AFTER_S = 30.0
START_FAILURES = 4
AT_START_MS = 60_000
GIVEN_UP = "it failed at each of the last starts and is given up"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where instances run. `ui`: of the Spark application, None without one."""

    master: str
    ui: str | None
    coordinator_url: str


class BeginningsWatch:
    """`instances`: how many there should be."""

    def __init__(self, instances: int, surroundings: Surroundings) -> None:
        self._instances = instances
        self._surroundings = surroundings
        self._last: tuple[int, int] | None = None
        self._since_s = 0.0
        self._last_line: str | None = None

    def look(self, running: int, joined: int, now_s: float) -> str | None:
        """What to say now, if anything. `running`: instances that have a slot. `joined`: members of the group. `now_s`:
        of a clock that never goes back.
        """
        if (running, joined) != self._last:
            self._last, self._since_s = (running, joined), now_s
        line = self._advice(running, joined, now_s - self._since_s)
        if line is None or line == self._last_line:
            return None
        self._last_line = line
        return line

    def _advice(self, running: int, joined: int, elapsed_s: float) -> str | None:
        place = self._surroundings
        if running < self._instances and elapsed_s >= SLOTS_AFTER_S:
            where = f"; see {place.ui}" if place.ui else ""
            return (
                f"{self._instances - running} of {self._instances} instances wait for a free executor of "
                f"{place.master}: it has no more cores or memory, or executors do not start{where}"
            )
        if running and not joined and elapsed_s >= JOINED_AFTER_S:
            return (
                f"{running} of {self._instances} instances run and none has joined the group: "
                f"can they reach the coordinator at {place.coordinator_url}, and the log?"
            )
        return None


class WorkersFailed(AssignorFault):
    """The instances cannot go on, or did not end in time. The message has the reason, on Spark Spark's own."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """`place`: where it ran. `duration_ms`: how long. `is_loss`: its executor or its process died; otherwise it failed
    by itself.
    """

    partition: int
    place: str
    reason: str
    duration_ms: int
    is_loss: bool

    def __str__(self) -> str:
        what = "was lost with" if self.is_loss else "failed in"
        return f"instance {self.partition} {what} {self.place}: {self.reason}"


class StartFailures:
    """Counts the failures of each instance that came one after the other, each soon after its start."""

    def __init__(self) -> None:
        self._in_a_row: Counter[int] = Counter()

    def is_last(self, failure: FailedAttempt) -> bool:
        """Note the failure. Whether the next attempt would fail the same way."""
        if failure.is_loss:
            return False
        if failure.duration_ms > AT_START_MS:
            self._in_a_row[failure.partition] = 0
        self._in_a_row[failure.partition] += 1
        return self._in_a_row[failure.partition] >= START_FAILURES
