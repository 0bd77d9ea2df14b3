"""An immutable mapping whose next version costs little: versions share a base and differ in a few changes.

A group of 5,000 members changes one member at a time, and others may be reading the state before the change: the one
that is committed, or the one that a description is made of. A version is a base `dict`, which is never changed once it
is shared, and a small `dict` of changes. When the changes have grown to about the square root of the whole, they are
folded into a new base. So a change costs as much as copying the changes, and reading costs one look more than a `dict`.

The order is that of a `dict`: a new key comes last, and a replaced value keeps its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isqrt
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")

FEWEST_CHANGES_TO_FOLD: Final = 16


class _NoValue:
    """What the changes may say of a key besides its value."""

    __slots__ = ()


_REMOVED: Final = _NoValue()
_UNCHANGED: Final = _NoValue()


class PersistentMap(Mapping[K, V]):
    """Safe to read in any thread."""

    __slots__ = ("_base", "_changes", "_length")

    _base: dict[K, V]
    _changes: dict[K, V | _NoValue]
    _length: int

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._base = {} if items is None else dict(items)
        self._changes = {}
        self._length = len(self._base)

    def with_value(self, key: K, value: V) -> PersistentMap[K, V]:
        """With `value` under `key`."""
        known = key in self
        if not known and key in self._base:  # it was removed, and comes back behind all others
            return PersistentMap({**self, key: value})
        return self._changed(key, value, self._length if known else self._length + 1)

    def without(self, key: K) -> PersistentMap[K, V]:
        """Without `key`; this same map when it is not there."""
        if key not in self:
            return self
        if key in self._base:
            return self._changed(key, _REMOVED, self._length - 1)
        changes = self._changes.copy()
        del changes[key]
        return self._version(changes, self._length - 1)

    def mapped(self, change: Callable[[K, V], W]) -> PersistentMap[K, W]:
        """With every value changed, in the same order."""
        return PersistentMap({key: change(key, value) for key, value in self.items()})

    def _changed(self, key: K, value: V | _NoValue, length: int) -> PersistentMap[K, V]:
        changes = self._changes.copy()
        changes[key] = value
        return self._version(changes, length)

    def _version(self, changes: dict[K, V | _NoValue], length: int) -> PersistentMap[K, V]:
        made: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
        made._base, made._changes, made._length = self._base, changes, length
        if len(changes) > FEWEST_CHANGES_TO_FOLD + isqrt(2 * len(self._base)):
            made._base, made._changes = made._folded(), {}
        return made

    def _folded(self) -> dict[K, V]:
        base = self._base.copy()
        for key, value in self._changes.items():
            if isinstance(value, _NoValue):
                del base[key]
            else:
                base[key] = value
        return base

    def __getitem__(self, key: K) -> V:
        if self._changes:
            changed = self._changes.get(key, _UNCHANGED)
            if not isinstance(changed, _NoValue):
                return changed
            if changed is _REMOVED:
                raise KeyError(key)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        if self._changes:
            changed = self._changes.get(key, _UNCHANGED)  # type: ignore[arg-type]  # any object may be asked for
            if changed is not _UNCHANGED:
                return changed is not _REMOVED
        return key in self._base

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        if not self._changes:
            return iter(self._base)
        return self._keys()

    def _keys(self) -> Iterator[K]:
        changes = self._changes
        for key in self._base:
            if changes.get(key) is not _REMOVED:
                yield key
        for key in changes:
            if key not in self._base:
                yield key

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"
