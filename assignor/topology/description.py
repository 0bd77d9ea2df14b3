"""Describes the node graph by the text of Kafka's `Topology#describe`, to compare the graph with Kafka's graph.

The nodes of a subtopology are sorted by their size, largest first, then by name. The size of a node is one more than
the number of paths that lead from the node to other nodes. The neighbours of a node are sorted by the sizes that they
had when they were linked.
Source: `InternalTopologyBuilder.describe`, `TopologyDescription`.
"""

import heapq
from collections.abc import Iterable, Sequence

from assignor.java.hash_codes import string_hash
from assignor.java.order import hash_set_copy_order, hash_set_order
from assignor.java.tree_set import JavaTreeSet
from assignor.topology.definition import (
    GlobalStore,
    Node,
    ProcessorNode,
    SinkNode,
    SourceNode,
    TopologyDefinition,
    node_groups,
)
from assignor.types import utf16_order


class _Described:
    """A node with its neighbours. `size`: one more than the number of paths that lead from this node to other nodes.
    `size` grows while nodes are linked. `number`: the node's index, which is higher than the indices of its parents.
    """

    __slots__ = ("node", "number", "predecessors", "size", "successors")

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.size = 1
        self.predecessors: JavaTreeSet[_Described] = JavaTreeSet(_compare)
        self.successors: JavaTreeSet[_Described] = JavaTreeSet(_compare)

    def grow(self, by: int) -> None:
        """Adds the number `by` to the size of this node. Also adds `by` to the size of each node above this node, once
        for each path from that node down to this node.

        Kafka follows each path, but the number of paths can double with every split and merge. So this method visits
        each node above this node only once. A node is visited after all nodes below it. So the method knows the number
        of paths to a node when it visits the node.
        """
        growth = {self.number: by}
        waiting = [(-self.number, self)]
        while waiting:
            node = heapq.heappop(waiting)[1]
            growing = growth[node.number]
            node.size += growing
            for above in node.predecessors:
                if above.number not in growth:
                    growth[above.number] = 0
                    heapq.heappush(waiting, (-above.number, above))
                growth[above.number] += growing


def _compare(one: _Described, other: _Described) -> int:
    if one.node.name == other.node.name:
        return 0
    if one.size != other.size:
        return other.size - one.size
    return -1 if utf16_order(one.node.name) < utf16_order(other.node.name) else 1


def describe(definition: TopologyDefinition) -> str:
    """Returns the text of all subtopologies and global stores, in the order of their ids."""
    global_stores = {store.source: store for store in definition.global_stores.values()}
    parts: list[str] = []
    for group_id, names in node_groups(definition).items():
        store = next((global_stores[name] for name in names if name in global_stores), None)
        if store is None:
            parts.append(_describe_subtopology(definition, group_id, names))
        else:
            parts.append(_describe_global_store(group_id, store))
    return "Topologies:\n " + "".join(f"  {part}" for part in parts)


def _describe_subtopology(definition: TopologyDefinition, group_id: int, names: Sequence[str]) -> str:
    walk = hash_set_order(hash_set_order(names, string_hash), string_hash)
    number_of = {name: number for number, name in enumerate(definition.nodes)}
    described = {name: _Described(definition.nodes[name], number_of[name]) for name in walk}
    for each in described.values():
        for parent in each.node.parents:
            predecessor = described[parent]
            each.predecessors.add(predecessor)
            predecessor.successors.add(each)
            predecessor.grow(each.size)
    in_order = sorted(described.values(), key=lambda each: (-each.size, utf16_order(each.node.name)))
    return f"Sub-topology: {group_id}\n" + "".join(f"    {_describe_node(each)}\n" for each in in_order) + "\n"


def _describe_node(each: _Described) -> str:
    match each.node:
        case SourceNode(name, topics, pattern=pattern):
            read = _set(topics) if pattern is None else pattern
            return f"Source: {name} (topics: {read})\n      --> {_names(each.successors)}"
        case ProcessorNode(name, _, stores):
            return (
                f"Processor: {name} (stores: {_set(hash_set_order(stores, string_hash))})\n"
                f"      --> {_names(each.successors)}\n      <-- {_names(each.predecessors)}"
            )
        case SinkNode(name, _, topic, supplier):
            extractor = getattr(supplier, "topic_extractor", None)
            written = (
                f"topic: {topic}" if topic else f"extractor class: {getattr(extractor, '__qualname__', extractor)}"
            )
            return f"Sink: {name} ({written})\n      <-- {_names(each.predecessors)}"


def _describe_global_store(group_id: int, store: GlobalStore) -> str:
    return (
        f"Sub-topology: {group_id} for global store (will not generate tasks)\n"
        f"    Source: {store.source} (topics: [{store.topic}])\n      --> {store.processor}\n"
        f"    Processor: {store.processor} (stores: [{store.name}])\n      --> none\n      <-- {store.source}\n"
    )


def _names(nodes: Iterable[_Described]) -> str:
    return ", ".join(each.node.name for each in nodes) or "none"


def _set(items: Sequence[str]) -> str:
    return "[" + ", ".join(hash_set_copy_order(items, string_hash)) + "]"
