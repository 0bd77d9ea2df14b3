"""The byte format of session keys in a store and in its changelog.

A session key consists of the bytes of the key, the end of the session (8 bytes) and its start (8 bytes). The numbers
are big-endian, so the sessions of a key are sorted by their ends. On disk, the 8 bytes before the session key contain
the number of the segment of the session's end. `window_keys` describes segments and retention: a session has the time
of its end. Source: `SessionKeySchema`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from assignor.types import JAVA_LONG_MAX
from streams_runtime.state_stores.key_ranges import last_suffixed

Value = TypeVar("Value", bound=bytes | None)

SESSION_SUFFIX_BYTES = 16

END = slice(-16, -8)
"""The slice of a session key that contains the session's end."""

WINDOW = slice(-16, None)
"""The slice of a session key that contains the session's end and its start."""

_SUFFIX = struct.Struct(">qq")
_pack, _unpack_from = _SUFFIX.pack, _SUFFIX.unpack_from


def session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    # if `key` is a bytearray, `+` would also return a bytearray, but `join` returns bytes
    return b"".join((key, _pack(end_ms, start_ms)))


def last_session_key(last: bytes, latest_start_ms: int) -> bytes:
    """Returns a bound that no session key of a key up to `last` exceeds, if the session starts at `latest_start_ms` or
    earlier.
    """
    return last_suffixed(last, _pack(JAVA_LONG_MAX, latest_start_ms))


def session_bounds(session_key: bytes) -> tuple[bytes, int, int]:
    """Returns the bytes of the key, the start and the end."""
    end_ms, start_ms = _unpack_from(session_key, len(session_key) - SESSION_SUFFIX_BYTES)
    return session_key[:-SESSION_SUFFIX_BYTES], start_ms, end_ms


def end_of(session_key: bytes) -> int:
    return _unpack_from(session_key, len(session_key) - SESSION_SUFFIX_BYTES)[0]  # type: ignore[no-any-return]


def by_window(entry: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Returns the sort key of an entry for the order of time: the end, the start, and then the bytes of the key."""
    return entry[0][WINDOW], entry[0]


class SessionRange:
    """The sessions of the keys from `first` to `last` that end at `earliest_end_ms` or later, and start at
    `latest_start_ms` or earlier. All bounds are inclusive. If a bound of the keys is None, the range is open at this
    end.

    `one_key`: the key of a range of one key; None for another range.
    """

    __slots__ = ("earliest_end_ms", "first", "last", "latest_start_ms", "one_key")

    def __init__(self, first: bytes | None, last: bytes | None, earliest_end_ms: int, latest_start_ms: int) -> None:
        self.first = first
        self.last = last
        # no session starts or ends before 0 or after JAVA_LONG_MAX, and the keys have no other numbers
        self.earliest_end_ms = max(earliest_end_ms, 0)
        self.latest_start_ms = min(max(latest_start_ms, -1), JAVA_LONG_MAX)
        self.one_key = first if first == last else None

    def bounds(self) -> tuple[bytes, bytes | None]:
        """Returns two inclusive bounds for a search. No session key of the range is outside of them, but another
        session key may be inside. If there is no upper bound, it is None.
        """
        if self.one_key is not None:
            lowest = session_key(self.one_key, 0, min(self.earliest_end_ms, JAVA_LONG_MAX))
            return lowest, session_key(self.one_key, self.latest_start_ms, JAVA_LONG_MAX)
        return self.first or b"", None if self.last is None else last_session_key(self.last, self.latest_start_ms)

    def from_end(self, earliest_end_ms: int) -> SessionRange:
        """Returns this range without the sessions that end before `earliest_end_ms`."""
        if earliest_end_ms <= self.earliest_end_ms:
            return self
        return SessionRange(self.first, self.last, earliest_end_ms, self.latest_start_ms)

    def among(self, entries: Iterable[tuple[bytes, Value]]) -> Iterator[tuple[bytes, Value]]:
        """Returns the entries whose session keys are in this range."""
        return filter(self._includes, entries)

    def _includes(self, entry: tuple[bytes, object]) -> bool:
        key, start_ms, end_ms = session_bounds(entry[0])
        return (
            end_ms >= self.earliest_end_ms
            and start_ms <= self.latest_start_ms
            and (self.first is None or key >= self.first)
            and (self.last is None or key <= self.last)
        )


def is_session_key(key: bytes) -> bool:
    """Returns True if a session store may have written this key."""
    if len(key) < SESSION_SUFFIX_BYTES:
        return False
    _, start_ms, end_ms = session_bounds(key)
    return 0 <= start_ms <= end_ms


def are_session_keys(keys: Sequence[bytes], _ends: Sequence[bytes]) -> bool:
    return all(map(is_session_key, keys))
