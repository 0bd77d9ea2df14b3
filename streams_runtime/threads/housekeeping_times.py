"""When the housekeeping of an instance has which work: the log often, obsolete state once in `cleanup_delay_ms`.

Pure: whoever waits says how long it has waited. Source: `KafkaStreams.setupStateDirCleaner`.
"""

from __future__ import annotations

_SHORTEST_CLEANUP_INTERVAL_MS = 1_000


class HousekeepingTimes:
    """`cleanup_delay_ms`: state.cleanup.delay.ms, which is also the pause between two passes over the state.

    `pause_ms`: how long to wait until there is work.
    """

    __slots__ = ("_cleanup_interval_ms", "_log_interval_ms", "_until_cleanup_ms")

    def __init__(self, cleanup_delay_ms: int, log_interval_ms: int) -> None:
        self._cleanup_interval_ms = max(cleanup_delay_ms, _SHORTEST_CLEANUP_INTERVAL_MS)
        self._log_interval_ms = log_interval_ms
        self._until_cleanup_ms = self._cleanup_interval_ms

    @property
    def pause_ms(self) -> int:
        return min(self._log_interval_ms, self._until_cleanup_ms)

    def passed(self) -> bool:
        """`pause_ms` are over, so the log is due. Whether obsolete state is due as well."""
        self._until_cleanup_ms -= self.pause_ms
        if self._until_cleanup_ms > 0:
            return False
        self._until_cleanup_ms = self._cleanup_interval_ms
        return True
