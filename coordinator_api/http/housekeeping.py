"""What the server does for its process ten times a second: garbage, freed memory, and a word to the service manager.

Garbage: left to itself, Python counts how many more containers were made than freed. In a service whose held requests
replace each other that count says nothing about how many there are to look at: a collection of "the youngest 5,000"
found 30,000 of them and took 16 ms, and a full one looks at every container of the process, 85 ms with the modules of
the service alone. So collections go by time here, and the event loop never stands still for one:

- What is there at the start is set aside for good.
- The youngest are looked at ten times a second: what survives is as much as the loop can make in a tenth of a second.
- What has lived longer is looked at twice a second, and everything every few minutes, but less often where that takes
  long: all of it together is a small part of the time, and no pass over the former meets more than a second's work.

Nearly everything dies by its reference count. What does not, an error with its frames and the body that they hold, is
gone after a few seconds, so that its memory comes back even when nothing else happens.

Memory: glibc keeps what is freed. The pieces of a thousand answers would stay in the process's memory after the callers
have gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import time
from collections.abc import Callable, Mapping

from operating_system.processes import freeze_loaded_objects, return_freed_memory

AT_ONCE = 100_000
"""When so many more containers were made than freed between two collections, Python does not wait for the next one."""

MIDDLE_EVERY_S, ALL_EVERY_S = 0.5, 300.0
"""A pass every five seconds could meet all that the joins of 5,000 members had just made."""

MIDDLE_PARTS, ALL_PARTS = 20, 500
"""After a collection that took a second, so many seconds pass before the next one of its kind."""

_NEVER = 1_000_000
_YOUNGEST, _MIDDLE, _ALL = 0, 1, 2

TRIM_EVERY_S = 5.0


def freeze_existing_objects() -> None:
    """Call this once everything is loaded, before the first request."""
    freeze_loaded_objects()
    gc.set_threshold(AT_ONCE, _NEVER, _NEVER)


class Garbage:
    """`collect_if_due` ten times a second. `seconds`: times a collection, by default as time on a processor."""

    def __init__(self, seconds: Callable[[], float] = time.thread_time) -> None:
        self._seconds = seconds
        self._due = {_ALL: (ALL_EVERY_S, ALL_PARTS), _MIDDLE: (MIDDLE_EVERY_S, MIDDLE_PARTS)}
        self._next_s: dict[int, float] = {}

    def collect_if_due(self, now_s: float) -> None:
        """`now_s`: on a clock that never goes back."""
        for generation, (every_s, parts) in self._due.items():
            if now_s >= self._next_s.setdefault(generation, now_s + every_s):
                began_s = self._seconds()
                gc.collect(generation)
                took_s = self._seconds() - began_s
                self._next_s[generation] = now_s + max(every_s, took_s * parts)
                return
        gc.collect(_YOUNGEST)


class FreedMemory:
    """`give_back_if_due` often, on the event loop."""

    def __init__(self, give_back: Callable[[], object] = return_freed_memory) -> None:
        self._give_back = give_back
        self._next_s = 0.0
        self._trimming: asyncio.Future[object] | None = None

    def give_back_if_due(self, now_s: float) -> asyncio.Future[object] | None:
        """What was begun last, if anything. It runs in a thread."""
        busy = self._trimming is not None and not self._trimming.done()
        if not busy and now_s >= self._next_s:
            self._next_s = now_s + TRIM_EVERY_S
            self._trimming = asyncio.get_running_loop().run_in_executor(None, self._give_back)
        return self._trimming


class ServiceManager:
    """Tells the service manager that the service is ready, still alive, and about to end: systemd's `Type=notify`.

    A message is one datagram to the socket that the manager names. Without a manager nothing is sent. `environment`: of
    this process, in which the manager says where it listens, and how often it wants to hear. Source: sd_notify(3).
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        given_us = environment.get("WATCHDOG_USEC", "")
        self._every_s = int(given_us) / 2_000_000 if for_us and given_us.isdecimal() else None
        self._due_s = 0.0

    def ready(self, status: str) -> None:
        """It answers from now on. `status`: one line for whoever asks the manager."""
        self._tell(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        self._tell("STOPPING=1\nSTATUS=answers what is under way, and ends")

    def alive(self, now_s: float) -> None:
        """To be called often, with a clock that only goes forward. Tells it twice in the time that it waits."""
        if self._every_s is not None and now_s >= self._due_s:
            self._due_s = now_s + self._every_s
            self._tell("WATCHDOG=1")

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        # a manager that went away is no reason to stop serving
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.setblocking(False)
            way.sendto(message.encode(), self._address)
