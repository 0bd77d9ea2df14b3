"""The timer of a group: due once, when its clock says so."""

from __future__ import annotations

import asyncio
import time

from coordinator_api.clock import GroupTimer, ServiceClock


class HeldClock(ServiceClock):
    """`behind_ms`: for how long it stood still, as a clock does that counts only the time in which somebody listens."""

    behind_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() - self.behind_ms


class WatchedTimer:
    """A timer on a clock that may stand still; `due_ms`: when it was due by that clock, after its start."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        began_ms = self.clock.now_ms()
        self.due_ms: list[int] = []
        self.timer = GroupTimer(self.clock, lambda: self.due_ms.append(self.clock.now_ms() - began_ms))

    def set_in(self, ms: int) -> None:
        now_ms = self.clock.now_ms()
        self.timer.set(now_ms + ms, now_ms)

    async def until_due(self) -> int:
        while not self.due_ms:
            assert self.timer.is_set
            await asyncio.sleep(0.002)
        return self.due_ms[0]


async def test_should_stay_with_the_earlier_of_two_times() -> None:
    earlier_first, later_first = WatchedTimer(), WatchedTimer()
    earlier_first.set_in(20)
    earlier_first.set_in(100_000)
    later_first.set_in(100_000)
    later_first.set_in(20)

    assert await earlier_first.until_due() >= 20
    assert await later_first.until_due() >= 20
    assert not earlier_first.timer.is_set
    assert not later_first.timer.is_set


async def test_should_be_due_at_once_when_the_time_has_passed() -> None:
    watched = WatchedTimer()
    watched.set_in(-100_000)

    await watched.until_due()


async def test_should_never_be_due_after_none_or_a_stop() -> None:
    cancelled, stopped = WatchedTimer(), WatchedTimer()
    cancelled.set_in(20)
    cancelled.timer.set(None, cancelled.clock.now_ms())
    stopped.set_in(20)
    stopped.timer.stop()
    stopped.set_in(20)

    assert not cancelled.timer.is_set
    assert not stopped.timer.is_set


async def test_should_wait_as_much_longer_as_its_clock_stood_still() -> None:
    watched = WatchedTimer()
    began_s = time.monotonic()
    watched.set_in(20)
    watched.clock.behind_ms = 50

    assert await watched.until_due() >= 20 - 50
    assert time.monotonic() - began_s >= 0.065
