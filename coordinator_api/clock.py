"""The clock of the service: milliseconds since the epoch, which never decrease.

A `ServiceClock` starts at the machine's wall-clock time and then follows the monotonic clock. Because of this, a
correction of the wall clock does not expire sessions or delay a probing rebalance. The clock advances only while the
service reads requests. So a member is not removed if its request has arrived but has not been read yet. The service
follows three rules:

1. Time stands still while the event loop is blocked. A `LoopMonitor` samples the clock every `SAMPLE_MS`. Between two
   samples the clock advances by `MOST_BETWEEN_SAMPLES_MS` at most. The loop may pause for longer, for example after
   SIGSTOP or without a free processor. For sessions, grace periods and waits, such a pause is only
   `MOST_BETWEEN_SAMPLES_MS` long. Under steady overload, each sample is late, and the clock does not count the delays.
   Overload delays the answers, and members wait for an answer before they send the next request. So sessions have to
   last longer under overload. A failed member is removed when this clock has advanced by the member's timeout.
2. After a deadline, the service waits until the loop has polled its sockets a few more times (`sockets_read`). In the
   extra polls, the service reads and handles the requests that arrived before the deadline.
3. A request restarts the member's session when it arrives, before the request waits for anything (`GroupRuntime`).

An alternative would be to add the lateness of the loop to each deadline. With longer deadlines, a stall of ten seconds
would also delay the removal of members that fail much later. Because the clock stands still, a stall extends only the
sessions that run during the stall.

After a stall, the clock slowly returns to the machine's time (`CATCH_UP`), as NTP slews a clock. When the clock has
caught up, the times in recordings and the times of probing rebalances are right again. Differs from Kafka: the clock of
a broker does not stop. A broker runs the timer for delayed operations in a separate thread.

Each group has one timer (`GroupTimer`), which fires when this clock has reached the time of the group's next `Tick`.
"""

import asyncio
import time
from collections.abc import Callable

import structlog

ReadNs = Callable[[], int]
"""A function that reads one of the machine's clocks, in nanoseconds."""

_COUNTS_ALWAYS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot_ms() -> float:
    """Returns a monotonic time in milliseconds. Use this time for a period that several machines measure, each with its
    own clock. The time also advances while the process is stopped. On a machine with CLOCK_BOOTTIME, the time also
    advances while the machine sleeps.
    """
    return time.clock_gettime(_COUNTS_ALWAYS) * 1000


SAMPLE_MS = 50
"""The interval of the samples."""

MOST_BETWEEN_SAMPLES_MS = 75
"""The largest step of the clock between two samples. `MOST_BETWEEN_SAMPLES_MS` is longer than `SAMPLE_MS`, because a
sample may be a little late on any machine.
"""

CATCH_UP = 20
"""While the service's clock is behind the machine's clock, it gains one millisecond in every CATCH_UP milliseconds."""

TURNS = 10
"""A request needs this number of event-loop turns on its way from the socket to its group. In these turns, the loop
accepts the connection, reads and parses the request, starts the handler, and reads the body.
"""


class ServiceClock:
    """A clock of milliseconds since the epoch, which never decrease. Before the first `sample`, the clock never stands
    still. `monotonic_ns`, `wall_ns`: functions that read the machine's two clocks.
    """

    def __init__(self, monotonic_ns: ReadNs = time.monotonic_ns, wall_ns: ReadNs = time.time_ns) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()
        self._last_sample_ns: int | None = None
        self._lost_ns = 0

    @property
    def behind_ms(self) -> int:
        """The time by which this clock is behind the machine's clock because of stalls."""
        return self._lost_ns // 1_000_000

    def now_ms(self) -> int:
        return (self._counted_ns(self._monotonic_ns()) - self._lost_ns + self._offset_ns) // 1_000_000

    def sample(self) -> None:
        """Take a sample. Call `sample` on the event loop, at least every MOST_BETWEEN_SAMPLES_MS."""
        now_ns = self._monotonic_ns()
        if self._last_sample_ns is not None:
            uncounted_ns = now_ns - self._counted_ns(now_ns)
            caught_up_ns = 0 if uncounted_ns else min(self._lost_ns, (now_ns - self._last_sample_ns) // CATCH_UP)
            self._lost_ns += uncounted_ns - caught_up_ns
        self._last_sample_ns = now_ns

    def release(self) -> None:
        """End the sampling. After this call, the clock advances without samples."""
        self.sample()
        self._last_sample_ns = None

    def _counted_ns(self, now_ns: int) -> int:
        if self._last_sample_ns is None:
            return now_ns
        return min(now_ns, self._last_sample_ns + MOST_BETWEEN_SAMPLES_MS * 1_000_000)


async def sockets_read() -> None:
    """Waits until all requests that have already arrived are read. When this function returns, these requests have
    restarted the sessions of their members.
    """
    for _ in range(TURNS):
        await asyncio.sleep(0)  # the loop polls its sockets in every turn


LONG_STALL_MS = 1_000
"""If a sample is late by at least this time, the service logs a warning that the service stood still."""

MOST_COUNTED_MS = 2_000
"""The largest lateness that one sample adds to `lag_ms`. Because of this limit, one long stop of the process (SIGSTOP)
does not look like overload.
"""

WEIGHT = 0.3
"""The weight of the last sample in `lag_ms`, a moving average."""


class LoopMonitor:
    """Samples the clock on the running loop from `start` to `stop`. `late`: a function that is called with the lateness
    of each sample, in seconds. `lag_ms`: the recent lateness of the loop, as a moving average.
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
    """A timer of one group. The timer calls `due` on the event loop when `clock` has reached the time that was set."""

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
        """Set the time at which to call `due`; None for never. `now_ms`: the time of `clock`.

        If an earlier time is already set, the timer keeps the earlier time. An early call of `due` is harmless, because
        the caller then sets the time of the next call.
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
        """Stop the timer for good."""
        self._stopped = True
        self.set(None, self._clock.now_ms())

    def _wait(self, now_ms: int) -> None:
        self._handle = asyncio.get_running_loop().call_later((self._at_ms - now_ms) / 1000, self._fire)

    def _fire(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._at_ms:  # The clock stood still for a while, so it has not reached the set time yet.
            self._wait(now_ms)
            return
        self._handle = None
        self._due()
