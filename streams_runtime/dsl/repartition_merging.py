"""With `optimize`, the repartition topics below one change of the key become one topic, directly below that change.

A topic is not merged if the value changes between the key's change and the topic, because a topic has one value serde.
If streams with changed keys are merged and repartitioned below, one topic serves all of them. Source:
`InternalStreamsBuilder.mergeRepartitionTopics`, `maybeUpdateKeyChangingRepartitionNodeMap`. Differs from Kafka: two
such topics in one branch below the change, or below several merges, are merged, too. In Kafka this is an error.

As in Kafka, a topic also moves above a merge with another stream. Records of that other stream are then aggregated in
the partition of their old key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streams_runtime.dsl.graph_nodes import GraphNode, MergeNode
from streams_runtime.dsl.naming import Naming
from streams_runtime.dsl.repartition_node import RepartitionNames, RepartitionNode

Condition = Callable[[GraphNode], bool]


class RepartitionMerging:
    """Collects the nodes that can be merged. `naming`: numbers the nodes of merged topics."""

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._behind: dict[GraphNode, dict[RepartitionNode, None]] = {}
        self._merges: dict[GraphNode, None] = {}

    def note(self, node: GraphNode) -> None:
        if node.changes_key:
            self._behind[node] = {}
        elif isinstance(node, RepartitionNode) and node.mergeable:
            changer = _key_changer_above(node)
            if changer is not None:
                self._behind[changer][node] = None
        elif isinstance(node, MergeNode):
            self._merges[node] = None

    def merge(self) -> dict[str, str]:
        """Change the graph. Gives the name of the new source for the name of each source that it replaces."""
        self._gather_behind_merges()
        renamed: dict[str, str] = {}
        for changer, replaced in self._behind.items():
            if replaced:
                one = self._one_for(replaced)
                one.priority = changer.priority  # the topology gets it before all nodes below it
                for node in replaced:
                    self._replace(node, one, changer)
                    renamed[node.name] = one.name
                changer.add_child(one)
        return renamed

    def _one_for(self, replaced: Iterable[RepartitionNode]) -> RepartitionNode:
        nodes = list(replaced)
        names = RepartitionNames.of_stream(self._naming, nodes[0].names.topic)
        return RepartitionNode(
            names,
            next((node.key_serde for node in nodes if node.key_serde is not None), None),
            next((node.value_serde for node in nodes if node.value_serde is not None), None),
        )

    def _replace(self, node: RepartitionNode, one: RepartitionNode, changer: GraphNode) -> None:
        between = _above(node, only_to=changer) | {node}
        for branch in [child for child in changer.children if child in between]:
            one.add_child(branch)
            changer.remove_child(branch)
        parents = list(node.parents)
        for child in list(node.children):
            for parent in parents:
                parent.add_child(child)
        for parent in parents:
            parent.remove_child(node)
        for child in list(node.children):
            node.remove_child(child)

    def _gather_behind_merges(self) -> None:
        """Topics below a merge of streams whose keys have changed become one topic, below the last such merge."""
        above_of = {node: _above(node) for nodes in self._behind.values() for node in nodes}
        gathered: dict[GraphNode, dict[RepartitionNode, None]] = {merge: {} for merge in self._merges}
        above_merges = {merge: _above(merge) for merge in self._merges}
        for changer, nodes in list(self._behind.items()):
            # `_merges` has the order of the calls, so a merge comes after the merges above it
            merges = [
                merge
                for merge in self._merges
                if changer in above_merges[merge] and all(merge in above_of[node] for node in nodes)
            ]
            if merges:
                gathered[merges[-1]].update(self._behind.pop(changer))
        self._behind.update(gathered)


def _key_changer_above(node: GraphNode) -> GraphNode | None:
    """The nearest change of the key above, unless the value changes between it and the node."""
    any_change = _found_upwards(node, lambda above: above.changes_key or above.changes_value)
    changer = _found_upwards(node, lambda above: above.changes_key)
    return changer if any_change is changer else None


def _found_upwards(node: GraphNode, condition: Condition) -> GraphNode | None:
    """The first node that meets the condition: the node itself, or one above it, depth first along its parents.

    A node that several paths reach is visited once: a second visit would find nothing either.
    """
    if condition(node):
        return node
    visited: set[GraphNode] = set()
    waiting = [iter(node.parents)]
    while waiting:
        parent = next(waiting[-1], None)
        if parent is None:
            waiting.pop()
        elif parent not in visited:
            if condition(parent):
                return parent
            visited.add(parent)
            waiting.append(iter(parent.parents))
    return None


def _above(node: GraphNode, only_to: GraphNode | None = None) -> set[GraphNode]:
    """All nodes above this one. `only_to`: without this node, and without those above it."""
    above: set[GraphNode] = set()
    waiting = [node]
    while waiting:
        for parent in waiting.pop().parents:
            if parent not in above and parent is not only_to:
                above.add(parent)
                waiting.append(parent)
    return above
