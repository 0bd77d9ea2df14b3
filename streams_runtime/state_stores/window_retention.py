"""Which windows a window store still has, by the stream time it has seen.

Windows are kept in segments of max(retention / 2, one minute) of window start, and are deleted by whole segments. A
window that has expired and is not deleted yet is not visible to reads. On disk such a window can still be put, and only
a put into a deleted segment is dropped and counted; in memory a put into any expired window is. Observed stream time
belongs to the store: it is the highest window start that was put or restored since the store was opened. A store that
is opened again starts at -1, as in Kafka. Source: `AbstractSegments`, `AbstractRocksDBSegmentedBytesStore`,
`InMemoryWindowStore`.
"""

from __future__ import annotations

from streams_runtime.state_stores.window_keys import MIN_SEGMENT_INTERVAL_MS

NO_STREAM_TIME_MS = -1


class WindowRetention:
    """Of one store, from its `open` to its `close`. Only the task's thread changes it."""

    __slots__ = (
        "earliest_readable_ms",
        "first_live_segment",
        "next_expiry_ms",
        "observed_ms",
        "retention_ms",
        "segment_interval_ms",
    )

    def __init__(self, retention_ms: int) -> None:
        self.retention_ms = retention_ms
        self.segment_interval_ms = segment_interval_ms(retention_ms)
        self.observed_ms = NO_STREAM_TIME_MS
        self.first_live_segment = 0
        self.next_expiry_ms = retention_ms + self.segment_interval_ms
        """The observed stream time at which another segment expires."""
        self.earliest_readable_ms = 0

    def observe(self, start_ms: int) -> bool:
        """True when more segments have expired: those below `first_live_segment`."""
        if start_ms <= self.observed_ms:
            return False
        self.observed_ms = start_ms
        self.earliest_readable_ms = max(0, start_ms - self.retention_ms + 1)
        if start_ms < self.next_expiry_ms:
            return False
        self.first_live_segment = (start_ms - self.retention_ms) // self.segment_interval_ms
        self.next_expiry_ms = (self.first_live_segment + 1) * self.segment_interval_ms + self.retention_ms
        return True


def segment_interval_ms(retention_ms: int) -> int:
    """Of window starts that one segment on disk takes."""
    return max(retention_ms // 2, MIN_SEGMENT_INTERVAL_MS)
