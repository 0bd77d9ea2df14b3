"""What a store has and what was changed since, as one sequence in the order of the keys.

Source: `MergedSortedCacheKeyValueBytesStoreIterator`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

Stored = tuple[bytes, bytes]
Key = TypeVar("Key", bytes, int, tuple[int, bytes])


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
