"""What `/metrics` asks of one group beyond its state: since when tasks have no owner, and how often it rebalances.

It follows the committed records. What takes long is worked out in a thread, and what comes after it waits meanwhile, so
that a large group does not keep others waiting. Nothing here is durable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from coordinator_api.background_tasks import BackgroundTasks
from coordinator_api.group.image import GroupImage
from coordinator_api.group.ownerless_tasks import OwnerlessTasks, takes_long
from coordinator_api.group.records import CoordinatorRecord, RebalanceCompleted
from coordinator_api.group.states import GroupState
from coordinator_api.metrics import GroupMeasures

HOUR_MS = 3_600_000

MOST_REBALANCES_KNOWN = 1_000
"""A group that rebalances more often than this in an hour is shown with so many."""


class GroupStanding:
    """`passed`: told the seconds that tasks have been without an owner, of all of them together, as they pass."""

    def __init__(self, image: GroupImage, now_ms: int, tasks: BackgroundTasks, passed: Callable[[float], None]) -> None:
        self._tasks = tasks
        self._passed = passed
        self._owners = OwnerlessTasks(image, now_ms)
        self._warm_ups = _warm_ups(image)
        self._completed_at_ms: deque[int] = deque(maxlen=MOST_REBALANCES_KNOWN)
        self._to_take: deque[tuple[CoordinatorRecord, int] | tuple[GroupImage, int]] = deque()
        self._thread: asyncio.Task[None] | None = None

    def committed(self, records: Iterable[CoordinatorRecord], now_ms: int) -> None:
        for record in records:
            if isinstance(record, RebalanceCompleted):
                self._completed_at_ms.append(now_ms)
                self._warm_ups = sum(map(len, record.warm_ups.values()))
            self._to_take.append((record, now_ms))
        self._take()

    def read_again(self, image: GroupImage, now_ms: int) -> None:
        """The group was read from the store anew: what was followed may not have been written."""
        self._warm_ups = _warm_ups(image)
        self._to_take.append((image, now_ms))
        self._take()

    def measures(self, group_id: str, image: GroupImage, now_ms: int) -> GroupMeasures:
        """`image`: as committed."""
        if self._thread is None:
            self._count(now_ms)
        since_ms = self._owners.without_owner_since_ms
        while self._completed_at_ms and self._completed_at_ms[0] <= now_ms - HOUR_MS:
            self._completed_at_ms.popleft()
        end = image.last_rebalance.end if image.last_rebalance and image.state is GroupState.STABLE else None
        probing_at_ms = None if end is None else end.probing_rebalance_at_ms
        return GroupMeasures(
            group_id=group_id,
            members=len(image.members),
            tasks_without_owner=len(since_ms),
            without_owner_s=_seconds(now_ms - min(since_ms.values(), default=now_ms)),
            held_s=0.0 if image.held is None else _seconds(now_ms - image.held.since_ms),
            warm_ups=self._warm_ups if image.members else 0,
            probing_in_s=None if probing_at_ms is None else _seconds(probing_at_ms - now_ms),
            rebalances_per_hour=len(self._completed_at_ms),
        )

    def _take(self) -> None:
        while self._thread is None and self._to_take:
            what, at_ms = self._to_take.popleft()
            self._count(at_ms)
            if isinstance(what, GroupImage):
                self._owners.read_again(what, at_ms)
            elif takes_long(what):
                self._thread = self._tasks.start(self._take_in_thread(what, at_ms))
            else:
                self._owners.take(what, at_ms)

    async def _take_in_thread(self, record: CoordinatorRecord, at_ms: int) -> None:
        try:
            await asyncio.to_thread(self._owners.take, record, at_ms)
        finally:
            self._thread = None
            self._take()

    def _count(self, now_ms: int) -> None:
        self._passed(self._owners.passed_ms(now_ms) / 1000)


def _warm_ups(image: GroupImage) -> int:
    return sum(len(member.last_assignment.warm_ups) for member in image.members.values())


def _seconds(ms: int) -> float:
    return max(ms, 0) / 1000
