"""Computes the bounds of key ranges. Merges a store's entries with changes that are not in the store yet.

Keys are ordered as unsigned bytes. Source: `Bytes.increment`, `RocksDBStore.range`,
`MergedSortedCacheKeyValueBytesStoreIterator`.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

Key = TypeVar("Key", bytes, int, tuple[int, bytes])

_logger = logging.getLogger(__name__)


def after(key: bytes) -> bytes:
    """Returns the lowest key that is greater than `key`."""
    return key + b"\x00"


def last_suffixed(last: bytes, greatest: bytes) -> bytes:
    """Returns a bound that no key up to `last` exceeds after a suffix was added to it. The suffix of a shorter key is
    compared with the end of `last`, so the bound is the greatest one of all prefixes of `last`. `greatest`: the
    greatest suffix.
    """
    return max(last[:length] + greatest for length in range(len(last) + 1))


def prefix_end(prefix: bytes) -> bytes | None:
    """Returns the lowest key that is greater than all keys with this prefix, or None if there is no such key."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes((head[-1] + 1,)) if head else None


def is_within(start: bytes | None, exclusive_end: bytes | None) -> Callable[[bytes], bool]:
    """Returns a function that returns True if a key is in a range. `start`: the lowest key of the range; None for no
    lower bound. `exclusive_end`: the first key after the range; None for no upper bound.
    """
    return lambda key: (start is None or key >= start) and (exclusive_end is None or key < exclusive_end)


def is_inverted(start: bytes | None, end: bytes | None, store: str) -> bool:
    """Returns True and logs a warning if the start of a range is greater than its end. Such a range is empty. A
    frequent reason is that the order of the serialized keys differs from the order of the keys.
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
    """Merges changes into stored entries. `changed`: maps keys to new values; a new value replaces the stored value,
    and None removes the entry.

    `stored` and the result are sorted by key: in ascending order, or in descending order if `reverse` is True.
    """
    return _merge(stored, changed, reverse) if changed else stored


def _merge(
    stored: Iterator[tuple[Key, bytes]], changed: Mapping[Key, bytes | None], reverse: bool
) -> Iterator[tuple[Key, bytes]]:
    keys = iter(sorted(changed, reverse=reverse))
    next_changed = next(keys, None)
    for key, value in stored:
        while next_changed is not None and (next_changed > key if reverse else next_changed < key):
            if (new_value := changed[next_changed]) is not None:
                yield next_changed, new_value
            next_changed = next(keys, None)
        if key != next_changed:
            yield key, value
    while next_changed is not None:
        if (new_value := changed[next_changed]) is not None:
            yield next_changed, new_value
        next_changed = next(keys, None)
