"""The time that members are judged by: it stands still while nobody listens, and comes level again slowly. The timer of
a group: due once, when its clock says so.
"""

import asyncio
import socket
import time

from coordinator_api.clock import (
    CATCH_UP,
    MOST_BETWEEN_SAMPLES_MS,
    SAMPLE_MS,
    GroupTimer,
    LoopMonitor,
    ServiceClock,
    sockets_read,
)


class WatchedClock:
    """A service clock on a time that the test sets. `passed_ms`: by that clock, since the start."""

    def __init__(self) -> None:
        self.machine_ns = 10**15
        self.clock = ServiceClock(lambda: self.machine_ns)
        self.clock.sample()
        self._began_ms = self.clock.now_ms()

    @property
    def passed_ms(self) -> int:
        return self.clock.now_ms() - self._began_ms

    def passes(self, ms: int) -> None:
        self.machine_ns += ms * 1_000_000

    def sampled_after(self, ms: int) -> None:
        self.passes(ms)
        self.clock.sample()


def test_should_go_with_the_machine_while_the_loop_turns() -> None:
    watched = WatchedClock()
    for _ in range(100):
        watched.sampled_after(SAMPLE_MS)

    assert watched.passed_ms == 100 * SAMPLE_MS
    assert watched.clock.behind_ms == 0


def test_should_stand_still_until_the_loop_turns_again() -> None:
    watched = WatchedClock()
    watched.passes(60_000)
    before_the_sample = watched.passed_ms
    watched.clock.sample()

    assert before_the_sample == MOST_BETWEEN_SAMPLES_MS, "also for a timer that runs before the sample"
    assert watched.passed_ms == MOST_BETWEEN_SAMPLES_MS
    assert watched.clock.behind_ms == 60_000 - MOST_BETWEEN_SAMPLES_MS


def test_should_go_slower_under_steady_overload_and_never_stop_for_good() -> None:
    watched = WatchedClock()
    for _ in range(100):
        watched.sampled_after(500)

    assert watched.passed_ms == 100 * MOST_BETWEEN_SAMPLES_MS


def test_should_come_level_with_the_machine_again_and_never_go_back() -> None:
    watched = WatchedClock()
    watched.sampled_after(2_000)
    lost_ms = watched.clock.behind_ms
    last_ms = watched.passed_ms
    for _ in range(CATCH_UP * lost_ms // SAMPLE_MS):
        watched.sampled_after(SAMPLE_MS)
        assert SAMPLE_MS <= watched.passed_ms - last_ms <= SAMPLE_MS + SAMPLE_MS // CATCH_UP + 1
        last_ms = watched.passed_ms

    assert watched.clock.behind_ms == 0


def test_should_not_be_held_up_without_samples() -> None:
    watched = WatchedClock()
    watched.clock.release()
    watched.passes(60_000)

    assert watched.passed_ms == 60_000


async def test_should_have_read_what_had_arrived_when_the_sockets_are_read() -> None:
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    near.setblocking(False)
    heard: list[bytes] = []
    loop.add_reader(near, lambda: heard.append(near.recv(100)))
    try:
        far.send(b"a heartbeat")
        await sockets_read()
        assert heard == [b"a heartbeat"]
    finally:
        loop.remove_reader(near)
        near.close()
        far.close()


async def test_should_tell_how_late_the_loop_is() -> None:
    late: list[float] = []
    beaten = asyncio.Event()

    def told(late_s: float) -> None:
        late.append(late_s)
        beaten.set()

    clock = ServiceClock()
    monitor = LoopMonitor(clock, told)
    monitor.start()
    try:
        await beaten.wait()
        beaten.clear()
        time.sleep(0.4)  # what is tested: the loop does not turn
        await beaten.wait()
    finally:
        monitor.stop()

    assert max(late) >= 0.3
    assert monitor.lag_ms >= 0.3 * 300
    assert clock.behind_ms >= 300


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
