"""Bounds of key ranges. Keys are ordered as unsigned bytes. Source: `Bytes.increment`, `RocksDBStore.range`."""

from __future__ import annotations

import logging

_logger = logging.getLogger(__name__)


def after(key: bytes) -> bytes:
    """The next key."""
    return key + b"\x00"


def prefix_end(prefix: bytes) -> bytes | None:
    """The first key after all keys that begin with `prefix`. None when there is no such key."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes((head[-1] + 1,)) if head else None


def is_inverted(start: bytes | None, end: bytes | None, store: str) -> bool:
    """Whether the range is empty because its start lies after its end.

    Logs a warning then, because the serialized keys may have another order than the keys.
    """
    if start is None or end is None or start <= end:
        return False
    _logger.warning(
        "store %s: the range is empty because its start lies after its end; are the arguments in the wrong order, or "
        "does the serde not keep the order of the keys (as with negative numbers)?",
        store,
    )
    return True
