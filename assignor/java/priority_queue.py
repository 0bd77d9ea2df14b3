"""Java's binary heap, with Java's order of equal elements and Java's order of iteration.

Kafka changes the loads of clients while the clients are in the queue, and iterates over queues without emptying them.
So the index of each element in the heap's array affects the result. `heapq` cannot replace this class, because `heapq`
moves elements to different indices than Java.
Source: `java.util.PriorityQueue` of Java 17.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar


class Comparable(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


E = TypeVar("E")


class JavaPriorityQueue(Generic[E]):
    """A priority queue: the element with the least `key(element)` comes first. The key of an element is computed anew
    for each comparison, because the key may change while the element is queued.

    An iteration follows the heap's array, which starts with the least element but is not sorted.
    """

    __slots__ = ("_heap", "_key")

    def __init__(self, key: Callable[[E], Comparable], items: Iterable[E] = ()) -> None:
        """`items`: the first elements of the queue, which are offered one after the other, as by Java's `addAll`."""
        self._key = key
        self._heap: list[E] = []
        self.add_all(items)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[E]:
        return iter(self._heap)

    def __contains__(self, element: object) -> bool:
        return element in self._heap

    def offer(self, element: E) -> None:
        self._heap.append(element)
        _sift_up(self._heap, self._key, len(self._heap) - 1, element)

    def add_all(self, elements: Iterable[E]) -> None:
        for element in elements:
            self.offer(element)

    def peek(self) -> E | None:
        return self._heap[0] if self._heap else None

    def poll(self) -> E | None:
        """Removes the first element and returns it. Returns None if the queue is empty."""
        if not self._heap:
            return None
        first, last = self._heap[0], self._heap.pop()
        if self._heap:
            _sift_down(self._heap, self._key, 0, last)
        return first

    def remove(self, element: E) -> bool:
        """Removes the first element of the array that equals `element`. Returns False if no element equals
        `element`.
        """
        try:
            at = self._heap.index(element)
        except ValueError:
            return False
        last = self._heap.pop()
        if at < len(self._heap):
            _sift_down(self._heap, self._key, at, last)
            if self._heap[at] is last:
                _sift_up(self._heap, self._key, at, last)
        return True

    def clear(self) -> None:
        self._heap.clear()


def _sift_up(heap: list[E], key: Callable[[E], Comparable], at: int, element: E) -> None:
    """Puts the element at the index `at`, or at the index of an ancestor. The element stays below a parent with an
    equal key.
    """
    own = key(element)
    while at > 0:
        parent = (at - 1) // 2
        if not own < key(heap[parent]):
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = element


def _sift_down(heap: list[E], key: Callable[[E], Comparable], at: int, element: E) -> None:
    """Puts the element at the index `at`, or at the index of a descendant. If two children have equal keys, the
    left child moves up.
    """
    size = len(heap)
    own = key(element)
    while at < size // 2:
        child = 2 * at + 1
        least = key(heap[child])
        if child + 1 < size:
            right = key(heap[child + 1])
            if right < least:
                child, least = child + 1, right
        if not least < own:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = element
