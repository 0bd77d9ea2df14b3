"""The byte format of window keys in a store and in its changelog, and the retention of windows in a store.

A window key consists of the bytes of the key, the window start (8 bytes) and the sequence number (4 bytes). The numbers
are big-endian, so the windows of a key are sorted by time. In a store without duplicates, the sequence number is 0. On
disk, the 8 bytes before the window key contain the number of the window's segment.

Each store has its own observed stream time: the highest start of all windows that were put or restored after the store
was opened. As in Kafka, observed stream time is -1 when the store is opened. A window expires when its start is not
greater than `observed stream time - retention`. An expired window cannot be read. As in Kafka, the bound is one
millisecond lower in a window store on disk with the order of time. Without this millisecond, a window that closes when
it expires would never be forwarded.

Windows are deleted in whole segments, because deleting single windows is slow. The number of a window's segment is
`start // interval`. The interval is `retention / 2`, but at least one minute. The store deletes all segments below
`(observed stream time - retention) // interval`, because each window in these segments has expired. So a window may
stay in the store for up to one interval after it has expired. A store on disk drops a put only if the segment of the
window has been deleted. While the segment exists, a put into an expired window succeeds. A store in memory drops every
put into an expired window. Each dropped put is counted.

Source: `WindowKeySchema`, `AbstractSegments`, `AbstractRocksDBSegmentedBytesStore`, `InMemoryWindowStore`.
"""

import struct
from collections.abc import Callable, Sequence
from operator import itemgetter

from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX
from streams_runtime.state_stores.key_ranges import last_suffixed

SEGMENT_BYTES = 8
SUFFIX_BYTES = 12
SEQUENCE_BYTES = 4
MAX_SEQUENCE = JAVA_INT_MAX
MIN_SEGMENT_INTERVAL_MS = 60_000
NO_STREAM_TIME_MS = -1

START = slice(-12, -4)
"""The slice of a window key that contains the window's start."""

_SUFFIX = struct.Struct(">qi")
_pack, _unpack_from = _SUFFIX.pack, _SUFFIX.unpack_from
_TEXT_START, _TEXT_SEQUENCE = 0x2020202020202020, 0x20202020
_LENGTH_OF_START, _NO_SEQUENCE, _NEGATIVE = {8}, {bytes(SEQUENCE_BYTES)}, b"\x80"
_sequence_bytes = itemgetter(slice(-SEQUENCE_BYTES, None))


def window_key(key: bytes, start_ms: int, sequence: int) -> bytes:
    return key + _pack(start_ms, sequence)


def suffix_of(window_key: bytes) -> tuple[int, int]:
    """Returns the window start and the sequence number of a window key."""
    return _unpack_from(window_key, len(window_key) - SUFFIX_BYTES)


def last_window_key(last: bytes) -> bytes:
    """Returns a bound that no window key of a key up to `last` exceeds."""
    return last_suffixed(last, _pack(JAVA_LONG_MAX, MAX_SEQUENCE))


def is_key_between(first: bytes | None, last: bytes | None) -> Callable[[bytes], bool]:
    """Returns a function that returns True if a key is in a range. Both bounds belong to the range; None for no
    bound.
    """
    return lambda key: (first is None or key >= first) and (last is None or key <= last)


def next_sequence(sequence: int) -> int:
    """Returns the next sequence number. After MAX_SEQUENCE comes 0, because a sequence number must not be negative."""
    return (sequence + 1) & MAX_SEQUENCE


def is_window_key(key: bytes, *, duplicates: bool) -> bool:
    """Returns True if a window store may have written this key. `duplicates`: True if the store keeps duplicates."""
    if len(key) < SUFFIX_BYTES:
        return False
    start_ms, sequence = suffix_of(key)
    if not duplicates:
        return start_ms >= 0 and sequence == 0
    # Some keys that are not window keys end with text. All bytes of a text are 0x20 or more. If such a key were a
    # window key, its window would start in 73 million years, and its sequence number would be above 538 million.
    return start_ms >= 0 and sequence >= 0 and (start_ms < _TEXT_START or sequence < _TEXT_SEQUENCE)


def are_window_keys(keys: Sequence[bytes], starts: Sequence[bytes], *, duplicates: bool) -> bool:
    """Returns True if `is_window_key` is True for all keys. `starts`: the slice START of each key."""
    if duplicates:
        return all(is_window_key(key, duplicates=True) for key in keys)
    return (
        set(map(len, starts)) == _LENGTH_OF_START
        and max(starts) < _NEGATIVE
        and set(map(_sequence_bytes, keys)) == _NO_SEQUENCE
    )


def may_be_window_record(key: bytes, timestamp_ms: int) -> bool:
    """Returns True if a window store may have written a changelog record with this key and timestamp.

    Sequence numbers above 0 occur only in the stores of joins. In the store of a join, each window starts at the
    timestamp of its record.
    """
    if len(key) < SUFFIX_BYTES:
        return False
    start_ms, sequence = suffix_of(key)
    return start_ms >= 0 and (sequence == 0 or start_ms == timestamp_ms)


def are_segmented_window_keys(*stored: bytes) -> bool:
    """Returns True if the given keys can be keys of a window store on disk. Each key must consist of a segment number
    and a window key, and one segment length must fit all keys.
    """
    shortest, longest = 1, JAVA_LONG_MAX  # The bounds of the possible segment length. Each key narrows these bounds.
    for key in stored:
        if len(key) < SEGMENT_BYTES + SUFFIX_BYTES or not is_window_key(key, duplicates=True):
            return False
        segment, start_ms = int.from_bytes(key[:SEGMENT_BYTES], "big"), suffix_of(key)[0]
        # If segment == start_ms // length, the length is above start_ms / (segment + 1), and at most start_ms /
        # segment.
        shortest = max(shortest, start_ms // (segment + 1) + 1)
        longest = min(longest, start_ms // segment if segment else JAVA_LONG_MAX)
    return max(shortest, MIN_SEGMENT_INTERVAL_MS) <= longest


def window_end_ms(start_ms: int, window_size_ms: int) -> int:
    """Returns the end of a window, but at most JAVA_LONG_MAX. Source: `WindowKeySchema.timeWindowForSize`.

    Differs from Kafka: if the end of a window is above JAVA_LONG_MAX, Kafka fails in `TimeWindows.windowsFor`.
    """
    end_ms = start_ms + window_size_ms
    return end_ms if end_ms <= JAVA_LONG_MAX else JAVA_LONG_MAX  # a conditional expression takes half the time of `min`


class WindowRetention:
    """The observed stream time of a window store, and the segments that have expired. A store makes a new object each
    time it is opened. Only the task's thread changes the object.
    """

    def __init__(self, retention_ms: int, on_expiry: Callable[[], None], *, reads_expiring: bool = False) -> None:
        """`on_expiry`: is called when segments have expired. `reads_expiring`: True if a window can still be read when
        its start is equal to observed stream time minus retention.
        """
        self.retention_ms = retention_ms
        self._on_expiry = on_expiry
        self._reads_expiring = reads_expiring
        self.segment_interval_ms = segment_interval_ms(retention_ms)
        self.observed_ms = NO_STREAM_TIME_MS
        self.first_live_segment = 0
        self.earliest_readable_ms = 0

    def observe(self, start_ms: int) -> int | None:
        """Advances observed stream time. Returns the number of the segment of this time, or None if the segment has
        expired. All segments below `first_live_segment` have expired.
        """
        if start_ms > self.observed_ms:
            self.observed_ms = start_ms
            self.earliest_readable_ms = max(0, start_ms - self.retention_ms + (0 if self._reads_expiring else 1))
            first_live_segment = (start_ms - self.retention_ms) // self.segment_interval_ms
            if first_live_segment > self.first_live_segment:
                self.first_live_segment = first_live_segment
                self._on_expiry()
        segment: int = start_ms // self.segment_interval_ms
        return segment if segment >= self.first_live_segment else None


def segment_interval_ms(retention_ms: int) -> int:
    """Returns the length of a segment: the range of its window starts, in milliseconds."""
    return max(retention_ms // 2, MIN_SEGMENT_INTERVAL_MS)
