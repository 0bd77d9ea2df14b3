"""Makes messages about instances that do not start or do not join the group. Also limits the number of failed starts.

Without messages, a user would not see why instances do not run. Spark may have no free slot or no executor, or
instances cannot reach the coordinator. So the driver prints a message about the likely reason. The driver prints
another message only when the reason changes.

An instance that ended without an `InstanceResult` is started again, by Spark or by the process that started it. If the
instance ended because its executor died or its process was killed, the number of new starts is not limited. If the
instance itself fails at four starts in a row, it is not started again. A further start would probably fail with the
same error, such as a missing module.
"""

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
    """Data for the messages about instances. `ui`: the address of the UI of the Spark application; None if the
    application has no UI.
    """

    master: str
    ui: str | None
    coordinator_url: str


class BeginningsWatch:
    """Makes the messages about instances that do not start or do not join the group. `instances`: the number of
    instances that should run.
    """

    def __init__(self, instances: int, surroundings: Surroundings) -> None:
        self._instances = instances
        self._surroundings = surroundings
        self._last: tuple[int, int] | None = None
        self._since_s = 0.0
        self._last_line: str | None = None

    def poll(self, running: int, joined: int, now_s: float) -> str | None:
        """Returns the message to print now; None if there is nothing to print. `running`: the number of instances that
        have a slot. `joined`: the number of members of the group. `now_s`: the time of a monotonic clock, in seconds.
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
    """Raised if the instances cannot continue, or did not end in time. The message has the reason. With Spark, the
    reason is the text of Spark's error.
    """


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt to run an instance. `place`: the executor or process that ran the instance. `duration_ms`: the
    time between the start of the attempt and its failure. `is_loss`: True if the executor or process died; False if the
    instance itself failed.
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
    """Counts, for each instance, how many of its last starts failed in a row."""

    def __init__(self) -> None:
        self._in_a_row: Counter[int] = Counter()

    def is_last(self, failure: FailedAttempt) -> bool:
        """Adds a failure to the count of its instance. Returns True if the instance must not be started again."""
        if failure.is_loss:
            return False
        if failure.duration_ms > AT_START_MS:
            self._in_a_row[failure.partition] = 0
        self._in_a_row[failure.partition] += 1
        return self._in_a_row[failure.partition] >= START_FAILURES
