"""Work that the server does ten times a second: collect garbage, return freed memory, and notify the service manager.

Garbage: by default, Python starts a collection when the number of new containers minus the number of freed containers
reaches a threshold. In this service, the number of new containers does not predict the duration of a collection. With a
threshold of 5,000, a collection of the youngest generation found 30,000 containers and took 16 ms. A full collection
visits every container of the process, which takes 85 ms with the modules of the service alone. So this module starts
collections by time. No collection blocks the event loop for long:

- At the start, all existing objects are frozen: no collection visits them.
- The youngest generation is collected ten times a second. The youngest generation therefore contains only objects that
  are younger than a tenth of a second.
- The middle generation is collected twice a second. If a collection took long, the next pause is 20 times its duration,
  so these collections take at most about 5% of the time. All generations are collected every five minutes. If this
  collection took long, the next pause is 500 times its duration.

Reference counting frees nearly all objects. Cycles of references are freed after a few seconds, even if the service is
idle. For example, an error and its frames refer to each other in a cycle.

Memory: glibc does not return freed memory to the system. Without this module, the process would keep the memory of a
thousand answers after the callers have disconnected.
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
"""The number of containers that are created, and not freed, before Python itself starts a collection.
"""

MIDDLE_EVERY_S, ALL_EVERY_S = 0.5, 300.0
"""The shortest pause after a collection of the middle generation, and after a collection of all generations, in
seconds. If the middle generation were collected every five seconds, one collection could visit all objects that were
created when 5,000 members joined.
"""

MIDDLE_PARTS, ALL_PARTS = 20, 500
"""The shortest pause after a collection of the middle generation, and after a collection of all generations. The pause
is this number times the duration of the collection. If `MIDDLE_EVERY_S` or `ALL_EVERY_S` is a longer pause, the longer
pause applies.
"""

_NEVER = 1_000_000
_YOUNGEST, _MIDDLE, _ALL = 0, 1, 2

TRIM_EVERY_S = 5.0


def freeze_existing_objects() -> None:
    """Freezes the loaded objects. Call the function when all modules are loaded, before the first request."""
    freeze_loaded_objects()
    gc.set_threshold(AT_ONCE, _NEVER, _NEVER)


class Garbage:
    """Collects garbage at regular times. Call `collect_if_due` ten times a second. `seconds`: the clock that measures
    the duration of a collection; by default the processor time of the thread.
    """

    def __init__(self, seconds: Callable[[], float] = time.thread_time) -> None:
        self._seconds = seconds
        self._due = {_ALL: (ALL_EVERY_S, ALL_PARTS), _MIDDLE: (MIDDLE_EVERY_S, MIDDLE_PARTS)}
        self._next_s: dict[int, float] = {}

    def collect_if_due(self, now_s: float) -> None:
        """Collects the oldest generation that is due. If no generation is due, collects the youngest generation.
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
        """Starts a thread that returns freed memory to the system. Does nothing if the last thread still runs or was
        started less than `TRIM_EVERY_S` seconds ago. The result is the future of the last thread; None if no thread was
        started yet.
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
