"""Time windows, the windows of joins of two streams, and the serde of windowed keys.

A window includes its start and excludes its end. The bytes of a windowed key are the bytes of the key, followed by the
window's start in milliseconds as eight big-endian bytes. The window does not influence the partition of a windowed key,
so all windows of a key are in one partition.
Source: `TimeWindows`, `JoinWindows`, `TimeWindowedSerializer`, `TimeWindowedDeserializer`, `WindowKeySchema.toBinary`,
`WindowedStreamPartitioner`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Generic

from assignor.errors import IllegalArgumentError
from streams_runtime.common.records import K
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.state_store import Windowed
from streams_runtime.state_stores.window_keys import window_end_ms

_START = struct.Struct(">q")


class EmitStrategy(Enum):
    """The time at which a windowed aggregation forwards a window. ON_WINDOW_UPDATE: at each update of the window."""

    ON_WINDOW_UPDATE = "on_window_update"


@dataclass(frozen=True, slots=True, init=False)
class TimeWindows:
    """Windows of equal size. The starts of the windows are the multiples of `advance_ms`, in milliseconds since 1970.
    If the advance equals the size, the windows are tumbling. If the advance is shorter, the windows overlap (hopping
    windows).

    `grace_ms`: a window accepts records until stream time reaches the end of the window plus `grace_ms`.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __init__(self, size_ms: int, advance_ms: int | None = None, grace_ms: int = 0) -> None:
        """`advance_ms`: None to use `size_ms`. Raises IllegalArgumentError unless 0 < advance <= size and grace
        >= 0.
        """
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
        """Returns the starts of all windows that contain the timestamp. The lowest start comes first."""
        advance_ms = self.advance_ms
        # the lowest start above `timestamp_ms - size_ms`; a window with a lower start does not contain the timestamp
        first = (timestamp_ms - self.size_ms) // advance_ms * advance_ms + advance_ms
        return range(first if first > 0 else 0, timestamp_ms + 1, advance_ms)

    def timestamp_range_of(self, starts: range) -> tuple[int, int]:
        """Returns the range of timestamps for which `starts_for` returns exactly these starts. The two values are the
        first timestamp of the range, and the last timestamp plus 1.
        """
        # the end of the last window before `starts[0]`; 0 if `starts[0]` is 0, because no window starts before 1970
        ended_ms = starts[0] - self.advance_ms + self.size_ms if starts[0] else 0
        return max(starts[-1], ended_ms), min(starts[-1] + self.advance_ms, starts[0] + self.size_ms)


@dataclass(frozen=True, slots=True, init=False)
class JoinWindows:
    """The time differences at which a record of the left stream is joined with a record of the right stream. The right
    record may be up to `before_ms` older, and up to `after_ms` newer than the left record.

    `grace_ms`: a left join or an outer join waits for this time after the end of a window before it joins a record
    with None. The stores of the join keep each record for `before_ms + after_ms + grace_ms`.
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    def __init__(self, before_ms: int, after_ms: int | None = None, grace_ms: int | None = None) -> None:
        """`after_ms`: None to use `before_ms`. A negative `before_ms` or `after_ms` excludes records near the left
        record. `grace_ms`: 0 to wait for no late records. Raises IllegalArgumentError for an empty window, and for a
        negative or missing grace.
        """
        after_ms = before_ms if after_ms is None else after_ms
        if grace_ms is None:
            raise IllegalArgumentError(
                "JoinWindows needs a grace period: give grace_ms, the time for which a window accepts late records "
                "after its end; 0 for none"
            )
        if before_ms + after_ms < 0:
            raise IllegalArgumentError("Window interval (ie, beforeMs+afterMs) must not be negative.")
        if grace_ms < 0:
            raise IllegalArgumentError("Grace period must not be negative.")
        object.__setattr__(self, "before_ms", before_ms)
        object.__setattr__(self, "after_ms", after_ms)
        object.__setattr__(self, "grace_ms", grace_ms)

    @property
    def size_ms(self) -> int:
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """The time for which the stores of the join keep a record."""
        return self.size_ms + self.grace_ms


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class TimeWindowedSerde(Generic[K]):
    """The serde of windowed keys. As in Kafka, the bytes do not contain the end of a window. `deserialize` computes the
    end from the window's start and `window_size_ms`.
    """

    key_serde: Serde[K]
    window_size_ms: int

    def serialize(self, value: Windowed[K], /) -> bytes:
        key = self.key_serde.serialize(value.key)
        # if the key's serde returns a bytearray, `+` would also return a bytearray, but `join` returns bytes
        return b"".join((key, _START.pack(value.start_ms)))

    def deserialize(self, data: bytes, /) -> Windowed[K]:
        start_ms = _START.unpack_from(data, len(data) - 8)[0]
        key = self.key_serde.deserialize(data[:-8])
        return Windowed(key, start_ms, window_end_ms(start_ms, self.window_size_ms))

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> TimeWindowedSerde[K]:
        return replace(self, key_serde=change(self.key_serde))


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class WindowedStreamPartitioner(Generic[K]):
    """The default partitioner of sinks that have a TimeWindowedSerde as key serde. The class implements
    `KeyPrefixPartitioner`.
    """

    key_serde: Serde[K]

    # a serialized key ends with the window's start, which has this size
    unhashed_suffix_bytes: ClassVar[int] = _START.size

    def __call__(self, key: Windowed[K], value: Any, partitions: int, /) -> int:
        return partition_of(self.key_serde.serialize(key.key), partitions)

    def with_inner(self, change: Callable[[Serde[Any]], Serde[Any]]) -> WindowedStreamPartitioner[K]:
        return replace(self, key_serde=change(self.key_serde))
