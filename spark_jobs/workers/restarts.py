"""What follows when an instance fails: it is started again, by Spark or by the process that started it.

An instance that is lost with its executor, or whose process was killed, is expected, and started again any number of
times. An error that comes at each start, such as a module that executors lack, would be repeated for ever: the fourth
in a row is the last.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from assignor.errors import AssignorFault

START_FAILURES = 4
AT_START_MS = 60_000
GIVEN_UP = "it failed at each of the last starts and is given up"


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
