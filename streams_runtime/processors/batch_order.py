"""Decides which nodes take several records at once: those where the results equal one record after the other.

A node that takes batches gets its records at the end of a run: consecutive records of one partition. What stands beside
the node has seen the last record of the run by then, and what is below the node has seen none. So a node takes batches
only where that cannot be seen:
- Records reach it in one way. On another they might not wait for it.
- What is below it shares no state store, no topic and no node with anything that is not.
- Nothing above it keeps state: neither a store nor a processor of the user that gets one record at a time. A run that
  the log cuts short comes again, and the state would have its records already.
Any other node that could take batches gets batches of one record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol


class OrderedNode(Protocol):
    """`shares`: the stores and topics that the node uses, as words for a reader. `takes_batches`: whether its processor
    could. `is_of_the_user`: whether it is a processor of the user's own.
    """

    @property
    def name(self) -> str: ...
    @property
    def below(self) -> Sequence[OrderedNode]: ...
    @property
    def shares(self) -> frozenset[str]: ...
    @property
    def takes_batches(self) -> bool: ...
    @property
    def is_of_the_user(self) -> bool: ...


def reasons_against_batches(below_source: Sequence[OrderedNode]) -> Mapping[str, str]:
    """For each node that could take batches why it may not; empty where it may."""
    nodes = _reached(below_source)
    parents: dict[str, list[OrderedNode]] = {name: [] for name in nodes}
    for node in nodes.values():
        for child in node.below:
            parents[child.name].append(node)
    return {
        name: _reason_above(node, below_source, parents) or _reason_beside(node, below_source)
        for name, node in nodes.items()
        if node.takes_batches
    }


def _reason_above(
    node: OrderedNode, below_source: Sequence[OrderedNode], parents: Mapping[str, Sequence[OrderedNode]]
) -> str:
    at = node
    while above := parents[at.name]:
        if len(above) > 1 or at in below_source:
            return f"{at.name} gets the same records in more than one way"
        at = above[0]
        if any(shared.startswith(STORE) for shared in at.shares):
            return f"it is below {at.name}, which has a state store"
        if at.is_of_the_user and not at.takes_batches:
            return f"it is below {at.name}, a processor that takes one record at a time"
    return ""


def _reason_beside(node: OrderedNode, below_source: Sequence[OrderedNode]) -> str:
    mine = _reached([node])
    others = _reached(below_source, without=node.name)
    if merged := next((name for name in mine if name in others), None):
        return f"{merged} below it gets records from beside it, too"
    used = {shared: name for name, other in others.items() for shared in other.shares}
    for name, each in mine.items():
        if shared := next(iter(sorted(each.shares & used.keys())), None):
            what = "it" if name == node.name else f"{name} below it"
            return f"{what} uses {shared}, and so does {used[shared]}"
    return ""


STORE, TOPIC = "store ", "topic "


def _reached(roots: Iterable[OrderedNode], without: str | None = None) -> dict[str, OrderedNode]:
    """These nodes and all below them, but those that are reached by way of `without` only, and itself."""
    reached: dict[str, OrderedNode] = {}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node.name != without and node.name not in reached:
            reached[node.name] = node
            waiting += node.below
    return reached
