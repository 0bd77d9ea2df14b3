"""What the members of a fleet saw, by their own clocks, and what must be true of it."""

import asyncio
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.ownership.ownership_history import Overlap, gaps, overlaps, ownership_intervals
from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine


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


class Service:
    """When a group had no service: from the first call that was not answered to the first one that was.

    A call that may be held is missed when its answer is due, or when its connection breaks, if that is sooner.
    """

    def __init__(self) -> None:
        self._missed: list[float] = []
        self._answered: list[float] = []

    def missed(self, at_ms: float) -> None:
        """A call was not answered, or with an answer of no use. `at_ms`: may be in the past."""
        self._missed.append(at_ms)

    def answered(self, at_ms: float) -> None:
        self._answered.append(at_ms)

    def longest_away_ms(self, since_ms: float, now_ms: float) -> float:
        """Since then. What is away still counts until now."""
        answered = [at_ms for at_ms in self._answered if at_ms >= since_ms]
        found = 0.0
        for missed_ms in self._missed:
            if missed_ms >= since_ms:
                place = bisect_right(answered, missed_ms)
                found = max(found, (answered[place] if place < len(answered) else now_ms) - missed_ms)
        return found

    def forget(self) -> None:
        """What was before now."""
        self._missed.clear()
        self._answered.clear()


class Witness:
    """Members write here what happens to them; the test reads it in the end.

    `evictions`: those for which the service is to blame. `starved`: those that the fleet, on a busy machine, brought
    upon itself. `refusals`: by Kafka's name of the error. `taken_back`: answers that contradict earlier ones.
    `heartbeats_ms`: of each heartbeat that cannot be held, the time from its first try to its answer.
    """

    def __init__(self) -> None:
        self.evictions: list[Eviction] = []
        self.starved: list[Eviction] = []
        self.starvation = Starvation()
        self.surprises: list[str] = []
        self.service = Service()
        self.taken_back: list[str] = []
        self.heartbeats_ms: list[float] = []
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.refusals: Counter[str] = Counter()
        self.slowest_s: dict[str, float] = {}
        self.deaths: dict[int, float] = {}
        self.changed = asyncio.Event()
        """Set whenever a member was answered or its tasks changed; who waits for more clears it."""
        self.lines: list[OwnershipLine] = []
        self._newest: dict[tuple[str, str], int] = {}
        self._assignments: dict[tuple[str, int], frozenset[int]] = {}

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
        self.lines.append(
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

    def told(self, call: str, member_id: str, generation_id: int, active: frozenset[int] | None = None) -> None:
        """A member's call named a generation, and perhaps its tasks in it. Neither may ever go back or change."""
        newest = self._newest.get((call, member_id), 0)
        if generation_id < newest:
            self.taken_back.append(f"{call} of {member_id}: generation {generation_id} after {newest}")
        self._newest[call, member_id] = max(newest, generation_id)
        if active is not None:
            before = self._assignments.setdefault((member_id, generation_id), active)
            if before != active:
                self.taken_back.append(
                    f"{call} of {member_id}: {sorted(active)} after {sorted(before)} in generation {generation_id}"
                )

    def heard(self, generation_id: int) -> None:
        """A heartbeat was told that the group is in this generation."""

    def fetched(self, generation_id: int, size: int) -> None:
        """A member has fetched an assignment of so many bytes."""

    def heartbeat(self, began_s: float, *, held_s: float | None = None, every_s: float = 0.0) -> None:
        """A heartbeat was answered, which was first tried at `began_s` of the monotonic clock. `held_s`: for how long
        the service might keep it, None for one that cannot be held; `every_s`: how often that is due.
        """
        if held_s is None:
            self.heartbeats_ms.append(1_000 * (time.monotonic() - began_s))

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
        found = overlaps(ownership_intervals(self.lines, self.deaths))
        return [each for each in found if lost.isdisjoint({(of.thread, of.end_ms) for of in (each.first, each.second)})]

    def ownerless(self) -> list[str]:
        """Tasks that had an owner once and have none now."""
        intervals = ownership_intervals(self.lines, self.deaths)
        return [gap.task for gap in gaps(intervals) if gap.end_ms is None]

    def ever_owned(self) -> set[str]:
        return set(ownership_intervals(self.lines, self.deaths))
