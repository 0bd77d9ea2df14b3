"""What the members of a fleet saw, by their own clocks, and what must be true of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.workers.ownership_history import Overlap, gaps, overlaps, ownership_intervals
from spark_jobs.workers.ownership_log import OwnershipEvent, OwnershipLine


@dataclass(frozen=True, slots=True)
class Eviction:
    """A member that lives was told that nobody knows it.

    `silent_ms`: since it sent what was last answered; for `starved_ms` of it the whole fleet got no processor.
    `allowed_ms`: a member that is silent for longer is rightly evicted.
    """

    thread: str
    member_id: str
    call: str
    at_ms: float
    silent_ms: float
    starved_ms: float
    allowed_ms: float

    @property
    def starved(self) -> bool:
        """Whether the machine alone is why it was silent for too long: then nothing was wrong with the service."""
        return self.silent_ms - self.starved_ms <= self.allowed_ms < self.silent_ms


def now_ms() -> float:
    return time.time() * 1000


class Starvation:
    """For how long in all the event loop of the fleet did not turn when it was due: no member could speak then."""

    BEAT_S = 0.05
    USUALLY_LATE_S = 0.025

    def __init__(self) -> None:
        self.total_ms = 0.0

    async def measure(self) -> None:
        """Until it is cancelled."""
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(self.BEAT_S)
            self.total_ms += 1000 * max(0.0, time.monotonic() - began_s - self.BEAT_S - self.USUALLY_LATE_S)


class Witness:
    """Members write here what happens to them; the test reads it in the end.

    `evictions`: those for which the service is to blame. `starved`: those that the fleet, on a busy machine, brought
    upon itself.
    """

    def __init__(self) -> None:
        self.evictions: list[Eviction] = []
        self.starved: list[Eviction] = []
        self.starvation = Starvation()
        self.surprises: list[str] = []
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.slowest_s: dict[str, float] = {}
        self.deaths: dict[int, float] = {}
        self.changed = asyncio.Event()
        """Set whenever a member was answered or its tasks changed; who waits for more clears it."""
        self._lines: list[OwnershipLine] = []

    def owns(
        self,
        process: int,
        thread: str,
        member_id: str | None,
        generation_id: int,
        active: Iterable[int],
        at_ms: float | None = None,
    ) -> None:
        """From now on, or from `at_ms`, this thread owns exactly the tasks of these partitions."""
        self.changed.set()
        self._lines.append(
            OwnershipLine(
                at_ms=now_ms() if at_ms is None else at_ms,
                event=OwnershipEvent.ASSIGNED,
                instance=str(process),
                thread=thread,
                executor="",
                pid=process,
                jvm_pid=None,
                generation_id=generation_id,
                member_id=member_id,
                active=tuple(f"0_{partition}" for partition in sorted(active)),
            )
        )

    def answered(self, call: str, status: int, seconds: float) -> None:
        """A member's call was answered; `slowest_s` keeps the longest time for each kind of call."""
        self.statuses[call, status] += 1
        self.slowest_s[call] = max(self.slowest_s.get(call, 0.0), seconds)
        self.changed.set()

    def evicted(self, eviction: Eviction) -> None:
        (self.starved if eviction.starved else self.evictions).append(eviction)

    def died(self, process: int) -> None:
        """The process owns nothing any more, and cannot say so."""
        self.deaths[process] = now_ms()

    def owned_twice(self) -> list[Overlap]:
        """But for the tasks of members that were starved: others have them until these are told that they lost them."""
        lost = {(eviction.thread, eviction.at_ms) for eviction in self.starved}
        found = overlaps(ownership_intervals(self._lines, self.deaths))
        return [each for each in found if lost.isdisjoint({(of.thread, of.end_ms) for of in (each.first, each.second)})]

    def ownerless(self) -> list[str]:
        """Tasks that had an owner once and have none now."""
        intervals = ownership_intervals(self._lines, self.deaths)
        return [gap.task for gap in gaps(intervals) if gap.end_ms is None]

    def ever_owned(self) -> set[str]:
        return set(ownership_intervals(self._lines, self.deaths))
