"""A window's key as bytes, in the store and in its changelog: the key, 8 bytes of window start, 4 of sequence number.

The numbers are big-endian, so the windows of one key lie in order of time. The sequence number is 0 unless the store
keeps duplicates. Source: `WindowKeySchema`.
"""

from __future__ import annotations

import struct

from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX

SUFFIX_BYTES = 12
SEQUENCE_BYTES = 4
MAX_SEQUENCE = JAVA_INT_MAX

START = slice(-12, -4)
"""The bytes of a window key that hold the window's start."""

_SUFFIX = struct.Struct(">qi")


def window_key(key: bytes, start_ms: int, sequence: int) -> bytes:
    return key + _SUFFIX.pack(start_ms, sequence)


def suffix_of(window_key: bytes) -> tuple[int, int]:
    """Window start and sequence number."""
    return _SUFFIX.unpack_from(window_key, len(window_key) - SUFFIX_BYTES)


def next_sequence(sequence: int) -> int:
    """Wraps around to 0, because it must not be negative."""
    return (sequence + 1) & MAX_SEQUENCE


def window_end_ms(start_ms: int, window_size_ms: int) -> int:
    return min(start_ms + window_size_ms, JAVA_LONG_MAX)
