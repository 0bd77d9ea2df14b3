"""The byte format of session keys in a store and in its changelog.

A session key consists of the bytes of the key, the end of the session (8 bytes) and its start (8 bytes). The numbers
are big-endian, so the sessions of a key are sorted by their ends. On disk, the 8 bytes before the session key contain
the number of the segment of the session's end. `window_keys` describes segments and retention: a session has the time
of its end. Source: `SessionKeySchema`.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from assignor.types import JAVA_LONG_MAX
from streams_runtime.state_stores.key_ranges import last_suffixed

SESSION_SUFFIX_BYTES = 16

END = slice(-16, -8)
"""The slice of a session key that contains the session's end."""

WINDOW = slice(-16, None)
"""The slice of a session key that contains the session's end and its start."""

_SUFFIX = struct.Struct(">qq")


def session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    # if `key` is a bytearray, `+` would also return a bytearray, but `join` returns bytes
    return b"".join((key, _SUFFIX.pack(end_ms, start_ms)))


def last_session_key(last: bytes, latest_start_ms: int) -> bytes:
    """Returns a bound that no session key of a key up to `last` exceeds, if the session starts at `latest_start_ms` or
    earlier.
    """
    return last_suffixed(last, _SUFFIX.pack(JAVA_LONG_MAX, latest_start_ms))


def session_bounds(session_key: bytes) -> tuple[bytes, int, int]:
    """Returns the bytes of the key, the start and the end."""
    end_ms, start_ms = _SUFFIX.unpack_from(session_key, len(session_key) - SESSION_SUFFIX_BYTES)
    return session_key[:-SESSION_SUFFIX_BYTES], start_ms, end_ms


def end_of(session_key: bytes) -> int:
    return int.from_bytes(session_key[END], "big")


def by_window(entry: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Returns the sort key of an entry for the order of time: the end, the start, and then the bytes of the key."""
    return entry[0][WINDOW], entry[0]


class SessionRange(NamedTuple):
    """The sessions of the keys from `first` to `last` that end at `earliest_end_ms` or later, and start at
    `latest_start_ms` or earlier. All bounds are inclusive. If a bound of the keys is None, the range is open at this
    end.
    """

    first: bytes | None
    last: bytes | None
    earliest_end_ms: int
    latest_start_ms: int

    @property
    def one_key(self) -> bytes | None:
        """The key of a range of one key; None for another range."""
        return self.first if self.first == self.last else None

    def includes(self, session_key: bytes) -> bool:
        first, last, earliest_end_ms, latest_start_ms = self  # faster than four attributes
        key, start_ms, end_ms = session_bounds(session_key)
        return (
            end_ms >= earliest_end_ms
            and start_ms <= latest_start_ms
            and (first is None or key >= first)
            and (last is None or key <= last)
        )


def is_session_key(key: bytes) -> bool:
    """Returns True if a session store may have written this key."""
    if len(key) < SESSION_SUFFIX_BYTES:
        return False
    _, start_ms, end_ms = session_bounds(key)
    return 0 <= start_ms <= end_ms


def are_session_keys(keys: Sequence[bytes], _ends: Sequence[bytes]) -> bool:
    return all(map(is_session_key, keys))
