"""The one timer of a group: says when the group's next `Tick` is due, by the clock that groups are judged by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator_api.clock import SteadyClock


class GroupTimer:
    """`due` is called on the event loop, once for each time that was set and reached by `clock`, never earlier."""

    def __init__(self, clock: SteadyClock, due: Callable[[], object]) -> None:
        self._clock = clock
        self._due = due
        self._handle: asyncio.TimerHandle | None = None
        self._at_ms = 0
        self._stopped = False

    @property
    def is_set(self) -> bool:
        return self._handle is not None

    def set(self, at_ms: int | None) -> None:
        """Be due at `at_ms`; None for never.

        A time that was set before and comes earlier stays: an early tick is harmless and sets the next time.
        """
        if self._handle is not None:
            if at_ms is not None and self._at_ms <= at_ms:
                return
            self._handle.cancel()
            self._handle = None
        if at_ms is not None and not self._stopped:
            now_ms = self._clock.now_ms()
            self._at_ms = max(at_ms, now_ms + 1)
            self._wait(now_ms)

    def stop(self) -> None:
        """Never be due again."""
        self._stopped = True
        self.set(None)

    def _wait(self, now_ms: int) -> None:
        self._handle = asyncio.get_running_loop().call_later((self._at_ms - now_ms) / 1000, self._fire)

    def _fire(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._at_ms:  # the clock stood still for a while
            self._wait(now_ms)
            return
        self._handle = None
        self._due()
