"""A sorted set that reproduces `java.util.TreeSet` even if the sort keys of its members change later.

A member's position in the tree depends on the comparisons at the time when the member was added. After a sort key has
changed, the shape of the red-black tree decides where new members go. `Topology#describe` needs this: it sorts nodes by
sizes that still grow. Source: `TreeMap.put`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class _TreeEntry(Generic[T]):
    __slots__ = ("children", "parent", "red", "value")

    def __init__(self, value: T, parent: _TreeEntry[T] | None) -> None:
        self.value = value
        self.parent = parent
        self.children: list[_TreeEntry[T] | None] = [None, None]
        self.red = True

    def side(self) -> int:
        """Returns 0 for a left child, 1 for a right child."""
        assert self.parent is not None
        return 0 if self.parent.children[0] is self else 1


class JavaTreeSet(Generic[T]):
    """`compare(a, b)`: returns a negative number, zero or a positive number; zero means that both are one member."""

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _TreeEntry[T] | None = None

    def add(self, value: T) -> None:
        """Adds a member, unless the search from the root meets an equal member."""
        parent: _TreeEntry[T] | None = None
        entry, order = self._root, 0
        while entry is not None:
            order = self._compare(value, entry.value)
            if order == 0:
                return
            parent, entry = entry, entry.children[order > 0]
        added = _TreeEntry(value, parent)
        if parent is None:
            self._root = added
        else:
            parent.children[order > 0] = added
        self._restore_balance(added)

    def __iter__(self) -> Iterator[T]:
        path: list[_TreeEntry[T]] = []
        entry = self._root
        while path or entry is not None:
            while entry is not None:
                path.append(entry)
                entry = entry.children[0]
            last = path.pop()
            yield last.value
            entry = last.children[1]

    def _restore_balance(self, entry: _TreeEntry[T]) -> None:
        """Restores the rule that a red entry has no red child: recolours upwards, or rotates once or twice."""
        while entry.parent is not None and entry.parent.red and entry.parent.parent is not None:
            parent, grandparent = entry.parent, entry.parent.parent
            side = parent.side()
            uncle = grandparent.children[1 - side]
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grandparent.red = True
                entry = grandparent
                continue
            if entry.side() != side:
                self._rotate(parent, side)
                entry, parent = parent, entry
            parent.red = False
            grandparent.red = True
            self._rotate(grandparent, 1 - side)
        if self._root is not None:
            self._root.red = False

    def _rotate(self, entry: _TreeEntry[T], side: int) -> None:
        """Rotates `entry` down to `side`. Its child on the other side takes its place."""
        riser = entry.children[1 - side]
        assert riser is not None
        moved = riser.children[side]
        entry.children[1 - side] = moved
        if moved is not None:
            moved.parent = entry
        riser.parent = entry.parent
        if entry.parent is None:
            self._root = riser
        else:
            entry.parent.children[entry.side()] = riser
        riser.children[side] = entry
        entry.parent = riser
