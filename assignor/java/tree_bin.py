"""One crowded bucket of a Java `HashMap`: a red-black tree and a linked list of the same entries.

In a table of 64 buckets or more, Java turns a bucket of more than eight entries into a tree. A look-up in the tree
takes a logarithmic number of comparisons.
Every entry of the bucket is a node of the tree, and also an element of a doubly linked list. Look-ups use only the
tree, and iterations use only the list. The tree changes the order of the list in two cases:

1. A new entry is inserted into the list directly after the entry that is its parent in the tree. The parent
   is determined before the tree is balanced (`TreeNode.putTreeVal`).
2. After an insertion, the root of the tree moves to the front of the list (`TreeNode.moveRootToFront`). After a removal
   by `HashMap.remove`, the root also moves to the front of the list. `Iterator.remove` does not change the order of the
   list.

So the order of the list depends on the root and on the parents of the entries. The root and the parents depend on all
earlier rotations. Therefore this tree is balanced exactly as in Java, with the same cases in the same order. The tree
is sorted by the spread hash as a signed int. Entries with equal spread hashes are sorted by their natural order
(`compareTo`).

Three operations convert between a list and a tree:

- When a bucket becomes a tree, its entries are inserted in the order of the plain list. The bucket's list keeps its
  order, except that the root of the tree moves to the front.
- When the table doubles, the list is split into two parts. A part of six entries or fewer becomes a plain list again; a
  larger part becomes a new tree. If all entries of a tree of more than six entries go to one part, the tree stays as it
  is.
- A removal by `HashMap.remove` turns a small tree into a plain list; `Iterator.remove` keeps the tree. Java does not
  count the entries to find out if a tree is small. A tree is small if it lacks the root, a child of the root, or the
  left child of the root's left child.

A bucket becomes a tree only if nine keys share the bucket (or eight keys with `computeIfAbsent`). Tasks with equal 31 *
subtopology + partition have equal hash codes. An application with at least nine subtopologies of at least 249
partitions each has nine tasks with equal hash codes.
Source: `HashMap.TreeNode` of Java 17.

Differs from Java: keys with equal hashes and no natural order (`TopicPartition`, `HostInfo`) are not sorted by their
identity hash codes. No other process can reproduce identity hash codes. Of two keys with equal hashes and no natural
order, this tree puts the newer key to the left of the older key.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from assignor.java.red_black_tree import LEFT, RIGHT, Node, RedBlackTree
from assignor.types import ProcessId, TaskId, utf16_order

K = TypeVar("K", bound=Hashable)

UNTREEIFY_THRESHOLD = 6


def natural_rank(key: Hashable) -> tuple[object, ...]:
    """Returns a tuple that sorts in the order of the key's `compareTo`, or an empty tuple if Kafka's class is not
    `Comparable`.
    """
    if isinstance(key, str):
        return (utf16_order(key),)
    if isinstance(key, TaskId):
        name = key.topology_name
        return (b"" if name is None else utf16_order(name), key.subtopology, key.partition)
    return tuple(key) if isinstance(key, ProcessId) else ()


class _BinEntry(Generic[K]):
    """A key in the list of the bucket. `spread`: the key's spread hash, as a signed int."""

    __slots__ = ("after", "before", "key", "node", "rank", "spread")

    def __init__(self, key: K, spread: int) -> None:
        self.key = key
        self.spread = spread
        self.rank = natural_rank(key)
        self.before: _BinEntry[K] | None = None
        self.after: _BinEntry[K] | None = None
        self.node: Node[_BinEntry[K]] = Node(self)


class JavaTreeBin(RedBlackTree[_BinEntry[K]]):
    """The entries of one bucket. An iteration yields the keys in Java's order."""

    __slots__ = ("_entries", "_first")

    def __init__(self, keys: Iterable[tuple[K, int]]) -> None:
        """`keys`: the bucket's keys with their spread hashes, in the order of the plain list that becomes a tree."""
        self._entries: dict[K, _BinEntry[K]] = {}
        self._first: _BinEntry[K] | None = None
        super().__init__()
        last: _BinEntry[K] | None = None
        for key, spread in keys:
            entry = _BinEntry(key, spread)
            self._entries[key] = entry
            self._list_behind(last, entry)
            self._insert(entry)
            last = entry
        self._list_root_first()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        entry = self._first
        while entry is not None:
            yield entry.key
            entry = entry.after

    def add(self, key: K, spread: int) -> None:
        """Adds a key that the bin does not contain yet."""
        entry = _BinEntry(key, spread)
        self._entries[key] = entry
        parent = self._insert(entry)
        self._list_behind(parent.entry if parent is not None else None, entry)
        self._list_root_first()

    def remove(self, key: K) -> JavaTreeBin[K] | list[K]:
        """Removes the key. Returns the bin without the key: this object, or a plain list if the tree was small."""
        entry = self._entries.pop(key)
        self._unlist(entry)
        if not self._entries or self._is_small():
            return list(self)
        self._uproot(entry.node)
        self._list_root_first()
        return self

    def remove_while_iterating(self, key: K) -> JavaTreeBin[K] | list[K]:
        """Removes the key as `Iterator.remove` does: the bin stays a tree, and the root does not move in the list."""
        entry = self._entries.pop(key)
        self._unlist(entry)
        if not self._entries:
            return []
        self._uproot(entry.node)
        return self

    def split(self, bit: int) -> tuple[JavaTreeBin[K] | list[K], JavaTreeBin[K] | list[K]]:
        """Splits the entries by one more bit of the hash when the table doubles. A part of six entries or fewer becomes
        a plain list.

        As an exception, a tree of one entry stays a tree. Only removals by an iterator can leave a tree of one entry.
        """
        low: list[tuple[K, int]] = []
        high: list[tuple[K, int]] = []
        for key in self:
            spread = self._entries[key].spread
            (high if spread & bit else low).append((key, spread))
        if not low or not high:
            unchanged = list(self) if 1 < len(self) <= UNTREEIFY_THRESHOLD else self
            return (unchanged, []) if low else ([], unchanged)
        return _tree_or_list(low), _tree_or_list(high)

    def _is_small(self) -> bool:
        """Carries out Java's test for a small tree. The test checks the shape of the tree before the removal and does
        not count the entries.
        """
        assert self._root is not None
        left, right = self._root.children
        return left is None or right is None or left.children[LEFT] is None

    def _list_behind(self, before: _BinEntry[K] | None, entry: _BinEntry[K]) -> None:
        """Inserts `entry` into the list. `before`: the entry that precedes the new entry; None to insert at the front
        of the list.
        """
        after = self._first if before is None else before.after
        entry.before, entry.after = before, after
        if before is None:
            self._first = entry
        else:
            before.after = entry
        if after is not None:
            after.before = entry

    def _unlist(self, entry: _BinEntry[K]) -> None:
        if entry.before is None:
            self._first = entry.after
        else:
            entry.before.after = entry.after
        if entry.after is not None:
            entry.after.before = entry.before

    def _list_root_first(self) -> None:
        if self._root is not None and self._root.entry is not self._first:
            self._unlist(self._root.entry)
            self._list_behind(None, self._root.entry)

    def _insert(self, entry: _BinEntry[K]) -> Node[_BinEntry[K]] | None:
        """Adds a leaf and balances the tree. Returns the parent that the leaf had before balancing, or None for the
        root.
        """
        parent, side, place = None, LEFT, self._root
        while place is not None:
            parent, side = place, _side_of(entry, place.entry)
            place = parent.children[side]
        self._plant(entry.node, parent, side)
        return parent

    def _uproot(self, node: Node[_BinEntry[K]]) -> None:
        """Removes the node's entry from the tree. If the node has two children, the node and its successor node swap
        their entries, and the successor node is removed instead.
        """
        left, successor = node.children
        if left is not None and successor is not None:
            while (smaller := successor.children[LEFT]) is not None:
                successor = smaller
            node.entry, successor.entry = successor.entry, node.entry
            node.entry.node, successor.entry.node = node, successor
            node = successor
        left, right = node.children
        child = right if left is None else left
        if child is not None:
            self._put_in_place_of(node, child)
            if not node.red:
                self._balance_after_uprooting(child)
            return
        if not node.red:
            self._balance_after_uprooting(node)
        self._put_in_place_of(node, None)

    def _balance_after_uprooting(self, node: Node[_BinEntry[K]]) -> None:
        """Balances the tree after a removal. Each path from a leaf to the root through `node` has one black node too
        few.
        """
        while not node.red and (parent := node.parent) is not None:
            side = node.side()
            sibling = parent.children[1 - side]
            if sibling is not None and sibling.red:
                sibling.red, parent.red = False, True
                self._rotate(parent, side)
                sibling = parent.children[1 - side]
            assert sibling is not None, "a black node without a sibling"
            near, far = sibling.children[side], sibling.children[1 - side]
            if not _is_red(near) and not _is_red(far):
                sibling.red = True
                node = parent
                continue
            if not _is_red(far):
                assert near is not None
                near.red, sibling.red = False, True
                self._rotate(sibling, 1 - side)
                sibling, far = near, sibling
            assert far is not None
            sibling.red, parent.red, far.red = parent.red, False, False
            self._rotate(parent, side)
            return
        node.red = False


def _side_of(entry: _BinEntry[K], other: _BinEntry[K]) -> int:
    if entry.spread != other.spread:
        return RIGHT if entry.spread > other.spread else LEFT
    return RIGHT if entry.rank > other.rank else LEFT


def _is_red(node: Node[_BinEntry[K]] | None) -> bool:
    return node is not None and node.red


def _tree_or_list(keys: list[tuple[K, int]]) -> JavaTreeBin[K] | list[K]:
    return [key for key, _ in keys] if len(keys) <= UNTREEIFY_THRESHOLD else JavaTreeBin(keys)
