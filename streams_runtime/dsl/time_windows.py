"""Windows of one size that start at regular intervals: tumbling when they follow each other, hopping when they overlap.

Windows start at multiples of the advance since the epoch. The start is included, the end is not. Source: `TimeWindows`.
"""

from __future__ import annotations

from dataclasses import dataclass

from assignor.errors import IllegalArgumentError


@dataclass(frozen=True, slots=True, init=False)
class TimeWindows:
    """Times are in milliseconds. `grace_ms`: how long after its end, in stream time, a window still takes records."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __init__(self, size_ms: int, advance_ms: int | None = None, grace_ms: int = 0) -> None:
        """`advance_ms` None: the size. Raises IllegalArgumentError unless 0 < advance <= size and grace >= 0."""
        advance_ms = size_ms if advance_ms is None else advance_ms
        if size_ms <= 0:
            raise IllegalArgumentError("Window size (sizeMs) must be larger than zero.")
        if not 0 < advance_ms <= size_ms:
            raise IllegalArgumentError(
                "Window advancement interval should be more than zero and less than window duration which is "
                f"{size_ms} ms, but given advancement interval is: {advance_ms} ms"
            )
        if grace_ms < 0:
            raise IllegalArgumentError("Grace period must not be negative.")
        object.__setattr__(self, "size_ms", size_ms)
        object.__setattr__(self, "advance_ms", advance_ms)
        object.__setattr__(self, "grace_ms", grace_ms)

    def starts_for(self, timestamp_ms: int) -> range:
        """The starts of all windows that contain the timestamp, oldest first."""
        advance_ms = self.advance_ms
        first = (timestamp_ms - self.size_ms) // advance_ms * advance_ms + advance_ms
        return range(first if first > 0 else 0, timestamp_ms + 1, advance_ms)
