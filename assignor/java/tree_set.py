"""A sorted set that reproduces `java.util.TreeSet` even if the sort keys of its members change later.

A member's position in the tree depends on the comparisons at the time when the member was added. A member does not move
if its sort key changes later. The place of a new member depends on the shape of the red-black tree. `Topology#describe`
needs a `JavaTreeSet`, because Kafka sorts nodes by sizes, and the sizes change after the sort.
Source: `TreeMap.put`.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from assignor.java.red_black_tree import LEFT, RIGHT, Node, RedBlackTree

T = TypeVar("T")


class JavaTreeSet(RedBlackTree[T]):
    """A `java.util.TreeSet`. `compare(a, b)`: returns a negative number, zero or a positive number; zero means that `a`
    and `b` are the same member.
    """

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        super().__init__()
        self._compare = compare

    def add(self, value: T) -> None:
        """Adds a member if the search from the root finds no equal member."""
        parent, side, place = None, LEFT, self._root
        while place is not None:
            order = self._compare(value, place.entry)
            if order == 0:
                return
            parent, side = place, RIGHT if order > 0 else LEFT
            place = parent.children[side]
        self._plant(Node(value), parent, side)

    def __iter__(self) -> Iterator[T]:
        path: list[Node[T]] = []
        node = self._root
        while path or node is not None:
            while node is not None:
                path.append(node)
                node = node.children[LEFT]
            last = path.pop()
            yield last.entry
            node = last.children[RIGHT]
