"""Python's garbage collection, such that the event loop never stands still for it.

Left to itself, Python counts how many more containers were made than freed. In a service whose held requests replace
each other that count says nothing about how many there are to look at: a collection of "the youngest 5,000" found
30,000 of them and took 16 ms, and a full one looks at every container of the process, 85 ms with the modules of the
service alone. So collections go by time here:

- What is there at the start is set aside for good.
- The youngest are looked at ten times a second: what survives is as much as the loop can make in a tenth of a second.
- What has lived longer is looked at twice a second, and everything every few minutes, but less often where that takes
  long: all of it together is a small part of the time, and no pass over the former meets more than a second's work.

Nearly everything dies by its reference count. What does not, an error with its frames and the body that they hold, is
gone after a few seconds, so that its memory comes back even when nothing else happens.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from assignor.garbage import freeze_loaded_objects

AT_ONCE = 100_000
"""When so many more containers were made than freed between two looks, Python does not wait for the next one."""

MIDDLE_EVERY_S, ALL_EVERY_S = 0.5, 300.0
"""A pass every five seconds could meet all that the joins of 5,000 members had just made."""

MIDDLE_PARTS, ALL_PARTS = 20, 500
"""After a collection that took a second, so many seconds pass before the next one of its kind."""

_NEVER = 1_000_000
_YOUNGEST, _MIDDLE, _ALL = 0, 1, 2


def set_aside_what_is_there() -> None:
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
