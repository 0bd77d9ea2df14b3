"""The clocks of simulated machines: simulated time, some way off. A wall clock may jump, a monotonic one never does."""

from __future__ import annotations

from coordinator_api.clock import ServiceClock
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
