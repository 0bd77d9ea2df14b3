"""Python's garbage collection, such that the event loop never stands still for it.

A full collection looks at every container of the process. With the modules of the service alone that takes 85 ms in
which no heartbeat is answered, and it happens whenever enough members have joined. So what is there at the start is set
aside for good, and full collections are rare. What dies young (a request, an error with its frames and the body that
they hold) is collected every few seconds, so that its memory comes back even when nothing else happens.
"""

from __future__ import annotations

import gc

YOUNG, MIDDLE, OLD = 5_000, 20, 20
"""After how many more new than freed containers the youngest are collected, and after how many such collections the
next older ones.
"""

EVERY_S = 5.0


def set_aside_what_is_there() -> None:
    """Call this once everything is loaded, before the first request."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)


class YoungGarbage:
    """Collects it when `EVERY_S` seconds have passed since the last time. `collect` takes about a millisecond."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def collect_if_due(self, now_s: float) -> None:
        if now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            gc.collect(1)
