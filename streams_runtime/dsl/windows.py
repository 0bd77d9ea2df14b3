"""The windows of windowed aggregations and of joins of two streams, and the serdes of windowed keys.

A time window and an unlimited window include their start and exclude their end. A sliding window and a session include
both bounds. The bytes of a windowed key are the bytes of the key, followed by the window's start in milliseconds as
eight big-endian bytes. For a session, the bytes of the session's end stand before the bytes of its start. The window
does not influence the partition of a windowed key, so all windows of a key are in one partition.
Source: `TimeWindows`, `UnlimitedWindows`, `SlidingWindows`, `SessionWindows`, `JoinWindows`, `EmitStrategy`,
`TimeWindowedSerializer`, `TimeWindowedDeserializer`, `SessionWindowedSerializer`, `SessionWindowedDeserializer`,
`WindowKeySchema.toBinary`, `SessionKeySchema.toBinary`, `WindowedStreamPartitioner`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic

from assignor.errors import IllegalArgumentError
from assignor.types import JAVA_LONG_MAX
from streams_runtime.common.records import K, check_milliseconds
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.serdes import Serde, WithInnerSerdes, serializer_of
from streams_runtime.state_stores.session_keys import session_bounds, session_key
from streams_runtime.state_stores.state_store import Windowed
from streams_runtime.state_stores.window_keys import window_end_ms

_START = struct.Struct(">q")


class EmitStrategy(Enum):
    """When a windowed aggregation forwards the result of a window.

    ON_WINDOW_UPDATE: at each update of the window. ON_WINDOW_CLOSE: once, when stream time has closed the window. The
    default is ON_WINDOW_UPDATE. As in Kafka, with ON_WINDOW_CLOSE a window is lost if its retention ends before the
    next record of the partition. So give the store a `retention_ms` that is longer than the longest time without a
    record.
    """

    ON_WINDOW_UPDATE = "on_window_update"
    ON_WINDOW_CLOSE = "on_window_close"


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
        check_milliseconds(size_ms=size_ms, advance_ms=advance_ms, grace_ms=grace_ms)
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

    def timestamp_range_of(self, timestamp_ms: int) -> tuple[int, int]:
        """Returns the range of timestamps for which `starts_for` returns the same starts as for `timestamp_ms`. The two
        values are the first timestamp of the range, and the last timestamp plus 1.
        """
        starts = self.starts_for(timestamp_ms)
        # the end of the last window before `starts[0]`; 0 if `starts[0]` is 0, because no window starts before 1970
        ended_ms = starts[0] - self.advance_ms + self.size_ms if starts[0] else 0
        return max(starts[-1], ended_ms), min(starts[-1] + self.advance_ms, starts[0] + self.size_ms)

    @property
    def least_retention_ms(self) -> int:
        return self.size_ms + self.grace_ms

    def retention_error(self, store: str, retention_ms: int) -> str:
        return (
            f"The retention period of the window store {store} must be no smaller than its window size plus the grace "
            f"period. Got size=[{self.size_ms}], grace=[{self.grace_ms}], retention=[{retention_ms}]"
        )


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window for each key, which begins at `start_ms` and never ends. Records before `start_ms` are left out.

    Raises IllegalArgumentError for a start that is negative or no whole number.
    """

    start_ms: int = 0

    size_ms: ClassVar[int] = JAVA_LONG_MAX
    grace_ms: ClassVar[int] = 0
    least_retention_ms: ClassVar[int] = JAVA_LONG_MAX

    def __post_init__(self) -> None:
        check_milliseconds(start_ms=self.start_ms)
        if self.start_ms < 0:
            raise IllegalArgumentError("Window start time (startMs) cannot be negative.")

    def starts_for(self, timestamp_ms: int) -> range:
        return range(self.start_ms, self.start_ms + 1) if timestamp_ms >= self.start_ms else range(0)

    def timestamp_range_of(self, timestamp_ms: int) -> tuple[int, int]:
        return (self.start_ms, JAVA_LONG_MAX + 1) if timestamp_ms >= self.start_ms else (0, self.start_ms)

    def retention_error(self, store: str, retention_ms: int) -> str:
        return TimeWindows(self.size_ms).retention_error(store, retention_ms)


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows around the records of a key. Two records are in one window if their timestamps differ by at most
    `time_difference_ms`. A window begins or ends at a record, and includes both its bounds.

    `grace_ms`: a window accepts records until stream time exceeds the end of the window by `grace_ms`. Raises
    IllegalArgumentError for a negative time.
    """

    time_difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        check_milliseconds(time_difference_ms=self.time_difference_ms, grace_ms=self.grace_ms)
        if self.time_difference_ms < 0:
            raise IllegalArgumentError("Window time difference must not be negative.")
        if self.grace_ms < 0:
            raise IllegalArgumentError("Window grace period must not be negative.")

    @property
    def size_ms(self) -> int:
        return self.time_difference_ms

    @property
    def least_retention_ms(self) -> int:
        # a record may need the aggregate of a window that starts up to two time differences before it
        return 2 * self.time_difference_ms + self.grace_ms

    def retention_error(self, store: str, retention_ms: int) -> str:
        return (
            f"The retention period of the window store {store} must be no smaller than 2 * time difference plus the "
            f"grace period. Got time difference=[{self.time_difference_ms}], grace=[{self.grace_ms}], "
            f"retention=[{retention_ms}]"
        )


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions of records. Two records of a key are in one session if their timestamps differ by at most `gap_ms`. A
    record between two sessions can merge them. A session begins at its first record and ends at its last record.

    `grace_ms`: a session accepts records until stream time exceeds the end of the session by the gap and `grace_ms`.
    Raises IllegalArgumentError unless gap > 0 and grace >= 0.
    """

    gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        check_milliseconds(gap_ms=self.gap_ms, grace_ms=self.grace_ms)
        if self.gap_ms <= 0:
            raise IllegalArgumentError("Gap time cannot be zero or negative.")
        if self.grace_ms < 0:
            raise IllegalArgumentError("Grace period must not be negative.")

    @property
    def open_ms(self) -> int:
        """The time for which a session is open after its end."""
        return self.gap_ms + self.grace_ms

    @property
    def least_retention_ms(self) -> int:
        return self.open_ms

    def retention_error(self, store: str, retention_ms: int) -> str:
        return (
            f"The retention period of the session store {store} must be no smaller than the session inactivity gap "
            f"plus the grace period. Got gap=[{self.gap_ms}], grace=[{self.grace_ms}], retention=[{retention_ms}]"
        )


SteppingWindows = TimeWindows | UnlimitedWindows
"""Windows whose starts are known before the first record."""

Windows = SteppingWindows | SlidingWindows
"""Windows whose size is known, so that a window is stored under its key and its start. `size_ms`: the end of a window
minus its start. `grace_ms`: a window accepts records until stream time exceeds the end of the window by `grace_ms`.
"""

AggregationWindows = Windows | SessionWindows
"""The windows of an aggregation of a stream. `least_retention_ms`: the shortest and default retention of the store.
`retention_error`: returns the text of the error for a shorter retention.
"""


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
        check_milliseconds(before_ms=before_ms, after_ms=after_ms, grace_ms=grace_ms)
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
class TimeWindowedSerde(WithInnerSerdes, Generic[K]):
    """The serde of windowed keys. As in Kafka, the bytes do not contain the end of a window. `deserialize` computes the
    end from the window's start and `window_size_ms`.
    """

    key_serde: Serde[K]
    window_size_ms: int

    def serialize(self, value: Windowed[K], /) -> bytes:
        return self.make_serializer()(value)

    def make_serializer(self) -> Callable[[Windowed[K]], bytes]:
        """See `serializer_of`."""
        serialize_key, start_bytes = serializer_of(self.key_serde), _START.pack
        return lambda value: serialize_key(value.key) + start_bytes(value.start_ms)

    def deserialize(self, data: bytes, /) -> Windowed[K]:
        start_ms = _START.unpack_from(data, len(data) - 8)[0]
        key = self.key_serde.deserialize(data[:-8])
        return Windowed(key, start_ms, window_end_ms(start_ms, self.window_size_ms))


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class SessionWindowedSerde(WithInnerSerdes, Generic[K]):
    """The serde of the keys of sessions."""

    key_serde: Serde[K]

    def serialize(self, value: Windowed[K], /) -> bytes:
        key, start_ms, end_ms = value
        return session_key(self.key_serde.serialize(key), start_ms, end_ms)

    def deserialize(self, data: bytes, /) -> Windowed[K]:
        key, start_ms, end_ms = session_bounds(data)
        return Windowed(self.key_serde.deserialize(key), start_ms, end_ms)


WindowedSerde = TimeWindowedSerde[K] | SessionWindowedSerde[K]


def windowed_serde(windows: AggregationWindows, keys: Serde[K]) -> WindowedSerde[K]:
    """Returns the serde for the keys of a table of these windows."""
    return (
        SessionWindowedSerde(keys) if isinstance(windows, SessionWindows) else TimeWindowedSerde(keys, windows.size_ms)
    )


def default_partitioner(keys: Serde[Any] | None) -> WindowedStreamPartitioner[Any] | None:
    """Returns the default partitioner of a sink with this key serde; None for Kafka's hash of the whole key."""
    if isinstance(keys, SessionWindowedSerde):
        return WindowedStreamPartitioner(keys.key_serde, 2 * _START.size)
    return WindowedStreamPartitioner(keys.key_serde) if isinstance(keys, TimeWindowedSerde) else None


@dataclass(frozen=True)  # no slots: in Python 3.11, C[int](...) fails for a frozen generic class with slots
class WindowedStreamPartitioner(WithInnerSerdes, Generic[K]):
    """The default partitioner of sinks that have a serde of windowed keys. The class implements `KeyPrefixPartitioner`.

    `unhashed_suffix_bytes`: the number of bytes of the window at the end of a serialized key.
    """

    key_serde: Serde[K]
    unhashed_suffix_bytes: int = _START.size

    def __call__(self, key: Windowed[K], value: Any, partitions: int, /) -> int:
        return partition_of(self.key_serde.serialize(key.key), partitions)
