"""Periodic tasks of the server's process, ten times a second: garbage collection, freed memory, the service manager.

Garbage: by default, Python starts a collection when the number of new containers minus the number of freed containers
reaches a threshold. In a service whose held requests replace each other, the number of new containers does not predict
the work of a collection. With a threshold of 5,000, a collection of the youngest generation found 30,000 containers and
took 16 ms. A full collection visits every container of the process, which takes 85 ms with the modules of the service
alone. So this module starts collections by time. No collection blocks the event loop for long:

- The objects that exist at the start are frozen: no collection visits them.
- The youngest generation is collected ten times a second, so it contains only the objects that the service created in
  the last tenth of a second.
- The middle generation is collected twice a second, and all generations every five minutes. The pause after such a
  collection is longer if the collection took long: 20 times its duration for the middle generation, and 500 times for
  all generations. So these collections take at most about 5% of the time. The middle generation usually contains only
  objects that the service created in the last half second.

Reference counting frees nearly all objects. Cycles, such as an error with its frames and the body in these frames, are
freed after a few seconds, even if the service is idle.

Memory: glibc keeps freed memory in the process. Without this module, the memory of a thousand answers would stay with
the process after the callers have disconnected.
"""

import asyncio
import contextlib
import gc
import os
import socket
import time
from collections.abc import Callable, Mapping

from operating_system.processes import freeze_loaded_objects, return_freed_memory

AT_ONCE = 100_000
"""Python starts a collection by itself when it has created this many more containers than it has freed since the last
collection.
"""

MIDDLE_EVERY_S, ALL_EVERY_S = 0.5, 300.0
"""The shortest pauses, in seconds, after a collection of the middle generation and after a collection of all
generations. If the middle generation were collected every five seconds, one pass could visit all objects that the joins
of 5,000 members had just made.
"""

MIDDLE_PARTS, ALL_PARTS = 20, 500
"""The shortest pauses after a collection of the middle generation and after a collection of all generations, as
multiples of the time that the collection took. The longer of the two pauses applies.
"""

_NEVER = 1_000_000
_YOUNGEST, _MIDDLE, _ALL = 0, 1, 2

TRIM_EVERY_S = 5.0


def freeze_existing_objects() -> None:
    """Freezes the loaded objects. Call the function when all modules are loaded, before the first request."""
    freeze_loaded_objects()
    gc.set_threshold(AT_ONCE, _NEVER, _NEVER)


class Garbage:
    """Collects garbage by time. Call `collect_if_due` ten times a second. `seconds`: the clock that measures the
    duration of a collection; by default the processor time.
    """

    def __init__(self, seconds: Callable[[], float] = time.thread_time) -> None:
        self._seconds = seconds
        self._due = {_ALL: (ALL_EVERY_S, ALL_PARTS), _MIDDLE: (MIDDLE_EVERY_S, MIDDLE_PARTS)}
        self._next_s: dict[int, float] = {}

    def collect_if_due(self, now_s: float) -> None:
        """Run a collection of the oldest generation that is due. If none is due, collect the youngest generation.
        `now_s`: the time of a monotonic clock.
        """
        for generation, (every_s, parts) in self._due.items():
            if now_s >= self._next_s.setdefault(generation, now_s + every_s):
                began_s = self._seconds()
                gc.collect(generation)
                took_s = self._seconds() - began_s
                self._next_s[generation] = now_s + max(every_s, took_s * parts)
                return
        gc.collect(_YOUNGEST)


class FreedMemory:
    """Returns freed memory to the system. Call `give_back_if_due` often, on the event loop."""

    def __init__(self, give_back: Callable[[], object] = return_freed_memory) -> None:
        self._give_back = give_back
        self._next_s = 0.0
        self._trimming: asyncio.Future[object] | None = None

    def give_back_if_due(self, now_s: float) -> asyncio.Future[object] | None:
        """If the last return of memory began at least `TRIM_EVERY_S` ago and has ended, returns freed memory to the
        system in a thread. Returns the future of the last such thread; None if there was none yet.
        """
        busy = self._trimming is not None and not self._trimming.done()
        if not busy and now_s >= self._next_s:
            self._next_s = now_s + TRIM_EVERY_S
            self._trimming = asyncio.get_running_loop().run_in_executor(None, self._give_back)
        return self._trimming


class ServiceManager:
    """Notifies the service manager that the service is ready, alive or stopping, as systemd expects with `Type=notify`.

    A message is one datagram to the manager's socket. Without a manager, no message is sent. `environment`: the
    environment variables of this process. The manager sets the variables for its socket and the watchdog interval.
    Source: sd_notify(3).
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        given_us = environment.get("WATCHDOG_USEC", "")
        self._every_s = int(given_us) / 2_000_000 if for_us and given_us.isdecimal() else None
        self._due_s = 0.0

    def ready(self, status: str) -> None:
        """Notify the manager that the service answers. `status`: one line, which the manager shows as the status."""
        self._notify(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        self._notify("STOPPING=1\nSTATUS=answers what is under way, and ends")

    def alive(self, now_s: float) -> None:
        """Notify the manager twice in each watchdog interval. Call `alive` often. `now_s`: the time of a monotonic
        clock.
        """
        if self._every_s is not None and now_s >= self._due_s:
            self._due_s = now_s + self._every_s
            self._notify("WATCHDOG=1")

    def _notify(self, message: str) -> None:
        if not self._address:
            return
        # the service continues if the manager's socket is gone
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.setblocking(False)
            way.sendto(message.encode(), self._address)
