"""The time that groups are judged by: it passes only while the service listens. Here is the whole rule of eviction.

Nobody is removed because the service was slow. A member is silent when it sends nothing, not when nobody reads what it
sent. So three things hold together:

1. Time stands still while the event loop does not turn. A `LoopMonitor` beats every `BEAT_MS`; between two beats the
   clock passes at most `MOST_A_BEAT_MS`. A process that was stopped (SIGSTOP), that got no processor, or whose loop was
   busy for long, gives all the rest back to every session, grace and wait at once. Under steady overload the clock goes
   slower, just as much as the loop is late: the same overload delays the answers that members wait for before they
   send again. A member that is really dead is removed all the same, after its timeout in this time.
2. A deadline that has passed is acted on only after the loop has gone round its sockets a few times more
   (`sockets_heard`). What had arrived by the deadline has then been read, parsed and heard.
3. Signs of life are noted when a request arrives, before it waits for anything (`GroupRuntime`).

Why not add the lateness to each deadline: a stall of ten seconds would then also delay the removal of a member that
died long after it. Here only those who could not be heard meanwhile get the time back.

What was lost is caught up slowly (`CATCH_UP`), as NTP slews a clock, so that the times in recordings and of probing
rebalances come back to the machine's. Source of the idea: the broker purges delayed operations by a timer of its own
thread, and so has none of this; Differs from Kafka.
"""

from __future__ import annotations

import asyncio
import time

from coordinator_api.clock import ReadNs, SteadyClock

BEAT_MS = 50
"""How often the loop shows that it turns."""

MOST_A_BEAT_MS = 75
"""How far the clock goes from one beat to the next: a beat may be a little late on any machine."""

CATCH_UP = 20
"""The clock goes faster by one part in so many until it is level with the machine's."""

TURNS = 10
"""Turns of the loop from bytes in a socket to the group: accept, read, parse, start the request, read its body."""


class AttentiveClock(SteadyClock):
    """Milliseconds since the epoch, never fewer than before. Before the first `beat` it is never held up."""

    def __init__(self, monotonic_ns: ReadNs = time.monotonic_ns, wall_ns: ReadNs = time.time_ns) -> None:
        super().__init__(monotonic_ns, wall_ns)
        self._last_beat_ns: int | None = None
        self._lost_ns = 0

    @property
    def behind_ms(self) -> int:
        """How far it is behind the machine's clock."""
        return self._lost_ns // 1_000_000

    def now_ms(self) -> int:
        return (self._counted_ns(self._monotonic_ns()) - self._lost_ns + self._offset_ns) // 1_000_000

    def beat(self) -> None:
        """The loop has just turned."""
        now_ns = self._monotonic_ns()
        if self._last_beat_ns is not None:
            uncounted_ns = now_ns - self._counted_ns(now_ns)
            caught_up_ns = 0 if uncounted_ns else min(self._lost_ns, (now_ns - self._last_beat_ns) // CATCH_UP)
            self._lost_ns += uncounted_ns - caught_up_ns
        self._last_beat_ns = now_ns

    def release(self) -> None:
        """Nobody beats any more: do not stop."""
        self.beat()
        self._last_beat_ns = None

    def _counted_ns(self, now_ns: int) -> int:
        if self._last_beat_ns is None:
            return now_ns
        return min(now_ns, self._last_beat_ns + MOST_A_BEAT_MS * 1_000_000)


async def sockets_heard() -> None:
    """Returns when every request that had arrived before the call has been heard."""
    for _ in range(TURNS):
        await asyncio.sleep(0)  # the loop polls its sockets in every turn
