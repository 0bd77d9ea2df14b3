"""Until when this coordinator may answer for what it owns.

It counts from the moment at which it sent the beat. The database made it later, and others heard of it later still.
"""

from __future__ import annotations

from coordinator_api.ownership.values import LeaseTimes


class Lease:
    """Of one row. `may_answer` is to be asked at the moment in which an answer is computed, not before."""

    def __init__(self, times: LeaseTimes) -> None:
        self._valid_ms = times.valid_ms
        self._until_ms: float | None = None
        self._has_lapsed = False

    def beaten(self, sent_ms: float, now_ms: float) -> bool:
        """A beat succeeded, and its answer arrived now. Whether it gives back a lease that had ended meanwhile."""
        if self._until_ms is None:
            self._until_ms = sent_ms + self._valid_ms
        else:
            self._has_lapsed = self._has_lapsed or now_ms >= self._until_ms
            self._until_ms = max(self._until_ms, sent_ms + self._valid_ms)
        if not self._has_lapsed or now_ms >= self._until_ms:
            return False  # an answer that came too late gives nothing back
        self._has_lapsed = False
        return True

    def may_answer(self, now_ms: float) -> bool:
        return self._until_ms is not None and now_ms < self._until_ms

    def removed(self) -> None:
        """The row is gone. Nothing is answered before the first beat of the next one."""
        self._until_ms = None
        self._has_lapsed = False
