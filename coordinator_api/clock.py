"""The clock of the service: milliseconds since the epoch, and never fewer than before.

A `ServiceClock` starts at the machine's time and follows the monotonic clock from there, so that a correction of the
wall clock neither expires sessions nor delays a probing rebalance. It advances only while the service reads requests:
nobody is removed because the service was slow. A member is silent when it sends nothing, not when nobody reads the
requests that it sent. So three things hold together:

1. Time stands still while the event loop does not turn. A `LoopMonitor` samples the clock every `SAMPLE_MS`; between
   two samples the clock advances by `MOST_BETWEEN_SAMPLES_MS` at most. A process that was stopped (SIGSTOP), that got
   no processor, or whose loop was busy for long, gives the rest of the time back to every session, grace and wait at
   once. Under steady overload the clock goes slower, just as much as the loop is late: the same overload delays the
   answers that members wait for before they send again. A dead member is removed all the same, after its timeout by
   this clock.
2. A deadline that has passed is acted on only after the loop has gone round its sockets a few times more
   (`sockets_read`). The requests that had arrived by the deadline have then been read, parsed and noted.
3. Signs of life are noted when a request arrives, before it waits for anything (`GroupRuntime`).

Why not add the lateness to each deadline: a stall of ten seconds would then also delay the removal of a member that
died long after it. Here only members whose requests could not be read meanwhile get the time back.

What was lost is caught up slowly (`CATCH_UP`), as NTP slews a clock, so that the times in recordings and of probing
rebalances come back to the machine's. Source of the idea: the broker purges delayed operations by a timer of its own
thread, and so has none of this; Differs from Kafka.

A group has one timer (`GroupTimer`), which says by that clock when the group's next `Tick` is due.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

ReadNs = Callable[[], int]
"""One of the machine's clocks, in nanoseconds."""

_COUNTS_ALWAYS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot_ms() -> float:
    """Never less than before. It goes on while the process is stopped, and, where there is such a clock, while the
    machine sleeps: for what others count as well.
    """
    return time.clock_gettime(_COUNTS_ALWAYS) * 1000


SAMPLE_MS = 50
"""How often the loop shows that it turns."""

MOST_BETWEEN_SAMPLES_MS = 75
"""How far the clock advances from one sample to the next: a sample may be a little late on any machine."""

CATCH_UP = 20
"""The clock goes faster by one part in so many until it is level with the machine's."""

TURNS = 10
"""Turns of the loop from bytes in a socket to the group: accept, read, parse, start the request, read its body."""


class ServiceClock:
    """Milliseconds since the epoch, never fewer than before. Before the first `sample` it is never held up.
    `monotonic_ns`, `wall_ns`: the machine's clocks.
    """

    def __init__(self, monotonic_ns: ReadNs = time.monotonic_ns, wall_ns: ReadNs = time.time_ns) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()
        self._last_sample_ns: int | None = None
        self._lost_ns = 0

    @property
    def behind_ms(self) -> int:
        """How far it is behind the machine's clock."""
        return self._lost_ns // 1_000_000

    def now_ms(self) -> int:
        return (self._counted_ns(self._monotonic_ns()) - self._lost_ns + self._offset_ns) // 1_000_000

    def sample(self) -> None:
        """The loop has just turned."""
        now_ns = self._monotonic_ns()
        if self._last_sample_ns is not None:
            uncounted_ns = now_ns - self._counted_ns(now_ns)
            caught_up_ns = 0 if uncounted_ns else min(self._lost_ns, (now_ns - self._last_sample_ns) // CATCH_UP)
            self._lost_ns += uncounted_ns - caught_up_ns
        self._last_sample_ns = now_ns

    def release(self) -> None:
        """No more samples come: do not stop."""
        self.sample()
        self._last_sample_ns = None

    def _counted_ns(self, now_ns: int) -> int:
        if self._last_sample_ns is None:
            return now_ns
        return min(now_ns, self._last_sample_ns + MOST_BETWEEN_SAMPLES_MS * 1_000_000)


async def sockets_read() -> None:
    """Returns when every request that had arrived before the call has been read and noted."""
    for _ in range(TURNS):
        await asyncio.sleep(0)  # the loop polls its sockets in every turn


LONG_STALL_MS = 1_000
"""A sample that is later than this is worth a line in the log: the service stood still."""

MOST_COUNTED_MS = 2_000
"""One sample counts at most so much into `lag_ms`: a process that was stopped once is not overloaded."""

WEIGHT = 0.3
"""Of the last sample in `lag_ms`."""


class LoopMonitor:
    """Samples the clock on the running loop from `start` to `stop`. `late`: called with the lateness of each sample, in
    seconds. `lag_ms`: how late the loop was lately.
    """

    def __init__(self, clock: ServiceClock, late: Callable[[float], None]) -> None:
        self.clock = clock
        self.lag_ms = 0.0
        self._late = late
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0

    def start(self) -> None:
        self.clock.sample()
        self._next(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.clock.release()

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_s = loop.time() + SAMPLE_MS / 1000
        self._timer = loop.call_at(self._due_s, self._sample, loop)

    def _sample(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock.sample()
        late_ms = max(0.0, (loop.time() - self._due_s) * 1000)
        self.lag_ms += WEIGHT * (min(late_ms, MOST_COUNTED_MS) - self.lag_ms)
        self._late(late_ms / 1000)
        if late_ms >= LONG_STALL_MS:
            structlog.get_logger("coordinator_api").warning("service_stood_still", late_ms=round(late_ms))
        self._next(loop)


class GroupTimer:
    """`due` is called on the event loop, once for each time that was set and reached by `clock`, never earlier."""

    def __init__(self, clock: ServiceClock, due: Callable[[], object]) -> None:
        self._clock = clock
        self._due = due
        self._handle: asyncio.TimerHandle | None = None
        self._at_ms = 0
        self._stopped = False

    @property
    def is_set(self) -> bool:
        return self._handle is not None

    def set(self, at_ms: int | None, now_ms: int) -> None:
        """Be due at `at_ms`; None for never. `now_ms`: by the clock.

        A time that was set before and comes earlier stays: an early tick is harmless and sets the next time.
        """
        if self._handle is not None:
            if at_ms is not None and self._at_ms <= at_ms:
                return
            self._handle.cancel()
            self._handle = None
        if at_ms is not None and not self._stopped:
            self._at_ms = max(at_ms, now_ms + 1)
            self._wait(now_ms)

    def stop(self) -> None:
        """Never be due again."""
        self._stopped = True
        self.set(None, self._clock.now_ms())

    def _wait(self, now_ms: int) -> None:
        self._handle = asyncio.get_running_loop().call_later((self._at_ms - now_ms) / 1000, self._fire)

    def _fire(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._at_ms:  # the clock stood still for a while
            self._wait(now_ms)
            return
        self._handle = None
        self._due()
