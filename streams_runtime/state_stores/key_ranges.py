"""Bounds of ranges of keys, which are ordered as unsigned bytes. Source: `Bytes.increment`, `RocksDBStore.range`."""

from __future__ import annotations

import logging

_logger = logging.getLogger(__name__)


def after(key: bytes) -> bytes:
    """The very next key."""
    return key + b"\x00"


def prefix_end(prefix: bytes) -> bytes | None:
    """The first key behind all those that begin with `prefix`; None when there is none behind."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes((head[-1] + 1,)) if head else None


def is_inverted(start: bytes | None, end: bytes | None, store: str) -> bool:
    """Such a range is empty. It is worth a warning, because serialized order is not always the order of the keys."""
    if start is None or end is None or start <= end:
        return False
    _logger.warning(
        "store %s: the range has its start behind its end and is empty; are the arguments in the wrong order, or does "
        "the serde not keep the keys' order (numbers below zero do not)?",
        store,
    )
    return True
