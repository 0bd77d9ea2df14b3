"""The clocks of simulated machines: simulated time, some way off. A wall clock may jump, a monotonic one never does.

A pass of a simulated thread happens at one moment. What it waited for, at a slow disk or log, is added to the clock of
the thread, and whoever runs it gives it nothing to do until its process has come to that time.
"""

from coordinator_api.clock import ServiceClock
from streams_runtime.common.clock import Clock
from tests.simulation.timeline import Timeline

EPOCH_MS = 1_700_000_000_000
MOST_APART_MS = 2_000
"""How far the wall clocks of two machines are apart before one jumps."""

MS = 1_000_000


class MachineClock:
    """Of one machine. A `Clock` of `streams_runtime`."""

    def __init__(self, timeline: Timeline, name: str) -> None:
        chance = timeline.chance(f"clock of {name}")
        self._timeline = timeline
        self._skew_ms = EPOCH_MS + chance.randint(-MOST_APART_MS, MOST_APART_MS)
        self._booted_ms = chance.randint(0, 100_000_000)

    def now_ms(self) -> int:
        return self._timeline.now_ms + self._skew_ms

    def monotonic_ms(self) -> int:
        return self._timeline.now_ms + self._booted_ms

    def jump(self, by_ms: int) -> None:
        """Somebody set the wall clock."""
        self._skew_ms += by_ms


def coordinator_clock(machine: MachineClock) -> ServiceClock:
    """Of a coordinator that starts on this machine now. Call `sample` when it freezes and when it thaws, never else."""
    return ServiceClock(lambda: machine.monotonic_ms() * MS, lambda: machine.now_ms() * MS)


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
