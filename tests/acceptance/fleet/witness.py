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
    """A member that lives was told that nobody knows it. `silent_ms`: since it sent what was last answered."""

    member_id: str
    call: str
    silent_ms: float


def now_ms() -> float:
    return time.time() * 1000


class Witness:
    """Members write here what happens to them; the test reads it in the end."""

    def __init__(self) -> None:
        self.evictions: list[Eviction] = []
        self.surprises: list[str] = []
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.slowest_s: dict[str, float] = {}
        self.deaths: dict[int, float] = {}
        self.changed = asyncio.Event()
        """Set whenever a member was answered or its tasks changed; who waits for more clears it."""
        self._lines: list[OwnershipLine] = []

    def owns(self, process: int, thread: str, member_id: str | None, generation_id: int, active: Iterable[int]) -> None:
        """From now on this thread owns exactly the tasks of these partitions."""
        self.changed.set()
        self._lines.append(
            OwnershipLine(
                at_ms=now_ms(),
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

    def died(self, process: int) -> None:
        """The process owns nothing any more, and cannot say so."""
        self.deaths[process] = now_ms()

    def owned_twice(self) -> list[Overlap]:
        return overlaps(ownership_intervals(self._lines, self.deaths))

    def ownerless(self) -> list[str]:
        """Tasks that had an owner once and have none now."""
        intervals = ownership_intervals(self._lines, self.deaths)
        return [gap.task for gap in gaps(intervals) if gap.end_ms is None]

    def ever_owned(self) -> set[str]:
        return set(ownership_intervals(self._lines, self.deaths))
