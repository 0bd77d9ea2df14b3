"""Ranges of keys: their bounds, and what was changed since as one sequence with what a store has.

Keys are ordered as unsigned bytes. Source: `Bytes.increment`, `RocksDBStore.range`,
`MergedSortedCacheKeyValueBytesStoreIterator`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

Key = TypeVar("Key", bytes, int, tuple[int, bytes])

_logger = logging.getLogger(__name__)


def after(key: bytes) -> bytes:
    """The next key."""
    return key + b"\x00"


def prefix_end(prefix: bytes) -> bytes | None:
    """The first key after all keys that begin with `prefix`. None when there is no such key."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes((head[-1] + 1,)) if head else None


def is_within(start: bytes | None, before: bytes | None) -> Callable[[bytes], bool]:
    """Whether a key lies from `start` up to, and without, `before`. None is an open end."""
    return lambda key: (start is None or key >= start) and (before is None or key < before)


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


def merged(
    stored: Iterator[tuple[Key, bytes]], changed: Mapping[Key, bytes | None], *, reverse: bool = False
) -> Iterator[tuple[Key, bytes]]:
    """Both are in order of their keys; a changed value stands for the stored one, and None for none at all."""
    return _merge(stored, changed, reverse) if changed else stored


def _merge(
    stored: Iterator[tuple[Key, bytes]], changed: Mapping[Key, bytes | None], reverse: bool
) -> Iterator[tuple[Key, bytes]]:
    keys = iter(sorted(changed, reverse=reverse))
    waiting = next(keys, None)
    for key, value in stored:
        while waiting is not None and (waiting > key if reverse else waiting < key):
            if (put := changed[waiting]) is not None:
                yield waiting, put
            waiting = next(keys, None)
        if key != waiting:
            yield key, value
    while waiting is not None:
        if (put := changed[waiting]) is not None:
            yield waiting, put
        waiting = next(keys, None)
