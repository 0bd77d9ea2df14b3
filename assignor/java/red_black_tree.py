"""The red-black tree of Java's collections: a search tree that each insertion balances with Java's rotations.

Kafka's results depend on the shape of the tree, so the tree distinguishes the same cases as Java, in the same order.
Source: `TreeMap.fixAfterInsertion`, `HashMap.TreeNode.balanceInsertion` of Java 17, two implementations of one
algorithm.
"""

from __future__ import annotations

from typing import Generic, TypeVar

E = TypeVar("E")

LEFT, RIGHT = 0, 1


class Node(Generic[E]):
    """A node of the tree. `children`: the left and the right child, indexed by LEFT and RIGHT. So one piece of code
    balances both sides of the tree.
    """

    __slots__ = ("children", "entry", "parent", "red")

    def __init__(self, entry: E) -> None:
        self.entry = entry
        self.parent: Node[E] | None = None
        self.children: list[Node[E] | None] = [None, None]
        self.red = True

    def side(self) -> int:
        """Returns LEFT or RIGHT: the side on which this node hangs below its parent."""
        assert self.parent is not None
        return RIGHT if self.parent.children[RIGHT] is self else LEFT


class RedBlackTree(Generic[E]):
    """A red-black tree without a search: the subclass finds the place of each new node."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: Node[E] | None = None

    def _plant(self, node: Node[E], parent: Node[E] | None, side: int) -> None:
        """Adds a leaf and balances the tree. The leaf becomes the root if `parent` is None."""
        node.parent = parent
        if parent is None:
            self._root = node
        else:
            parent.children[side] = node
        self._balance_after_planting(node)

    def _balance_after_planting(self, node: Node[E]) -> None:
        """Restores the rule that a red node has no red child. Recolours nodes on the way up, and rotates at most
        twice.
        """
        while (parent := node.parent) is not None and parent.red:
            grandparent = parent.parent
            assert grandparent is not None, "a red root"
            side = parent.side()
            uncle = grandparent.children[1 - side]
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grandparent.red = True
                node = grandparent
                continue
            if node.side() != side:
                self._rotate(parent, side)
                node, parent = parent, node
            parent.red = False
            grandparent.red = True
            self._rotate(grandparent, 1 - side)
        assert self._root is not None
        self._root.red = False

    def _rotate(self, node: Node[E], side: int) -> None:
        """Rotates `node` down to the given side. The child of `node` on the other side takes the place of `node`."""
        riser = node.children[1 - side]
        assert riser is not None
        inner = riser.children[side]
        node.children[1 - side] = inner
        if inner is not None:
            inner.parent = node
        self._put_in_place_of(node, riser)
        riser.children[side] = node
        node.parent = riser

    def _put_in_place_of(self, node: Node[E], other: Node[E] | None) -> None:
        if node.parent is None:
            self._root = other
        else:
            node.parent.children[node.side()] = other
        if other is not None:
            other.parent = node.parent
