"""The one timer of a group: says when the group's next `Tick` is due, and forgives the time that the process lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator_api.clock import SteadyClock
from coordinator_api.telemetry import GroupTelemetry

STANDSTILL_MS = 100
"""A timer that is later than this shows that the whole process stood still, which is no fault of the members."""


class GroupTimer:
    """`due` is called on the event loop, once for each time that was set and reached."""

    def __init__(self, clock: SteadyClock, telemetry: GroupTelemetry, due: Callable[[], object]) -> None:
        self._clock = clock
        self._telemetry = telemetry
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
            self._handle = asyncio.get_running_loop().call_later((self._at_ms - now_ms) / 1000, self._fire)

    def stop(self) -> None:
        """Never be due again."""
        self._stopped = True
        self.set(None)

    def _fire(self) -> None:
        self._handle = None
        now_ms = self._clock.now_ms()
        late_ms = now_ms - self._at_ms
        if late_ms > STANDSTILL_MS:
            # requests that came meanwhile are still in their sockets: hear them first, and give back the time
            self._telemetry.stood_still(late_ms)
            self.set(now_ms + late_ms)
        else:
            self._due()
