"""The repartition topics in the graph, and the option `optimize`, which replaces several repartition topics by one
topic.

A repartition node of the graph adds a filter, a sink, a topic, and a source to the topology. The repartition node has
the name of the source, because the nodes below are children of the source. If `optimize` is on, one topic replaces all
repartition topics below a node that changes the key. The new topic is directly below the node that changes the key. In
these docstrings, "merge" means a merge of streams (`KStream.merge`, a `MergeNode`), not a merge of topics.

A repartition topic is not moved above a node that changes the value, because a topic has only one value serde. If the
keys of merged streams may have changed, one topic directly below the merge replaces all repartition topics further
below it. The records of all merged streams go through the new topic. Source: `BaseRepartitionNode`,
`OptimizableRepartitionNode`, `UnoptimizableRepartitionNode`, `GroupedTableOperationRepartitionNode`,
`InternalStreamsBuilder.mergeRepartitionTopics`, `maybeUpdateKeyChangingRepartitionNodeMap`. Differs from Kafka: Kafka
raises an error if several of the replaced topics are in one branch, or are below several merges. This project also
replaces several topics in one branch, and topics below several merges. If several branches below a node that changes
the key are merged above a replaced topic, all of them go through the new topic; in Kafka, only one of them does.

The optimization may replace a topic below a merge by a topic in one of the merged streams. After this replacement the
result is wrong, as in Kafka. The reason is that the records of the other merged stream go through no repartition topic,
and are aggregated in the partition of their old key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from streams_runtime.dsl.change import ChangedSerde
from streams_runtime.dsl.graph_nodes import GraphNode, MergeNode
from streams_runtime.dsl.naming import REPARTITION_SUFFIX, Naming, is_generated
from streams_runtime.dsl.stream_processors import StreamOperator, leaving_out_null_keys, passing_on
from streams_runtime.dsl.table_aggregates import KTableRepartitionMap
from streams_runtime.processors.api import StreamPartitioner
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import BYTES, Serde
from streams_runtime.serdes.defaults import DefaultSerde


@dataclass(frozen=True, slots=True)
class RepartitionNames:
    topic: str
    sink: str
    filter: str
    source: str

    @classmethod
    def of_stream(cls, naming: Naming, prefix: str) -> RepartitionNames:
        """Returns the name of a stream's repartition topic, and the names of its nodes. `prefix`: the topic's name from
        the user, or a generated name.

        As in Kafka, each call uses up three numbers of the counter `naming`, even if the name comes from the user.
        Source: `KStreamImpl.createRepartitionedSource`.
        """
        topic = prefix if prefix.endswith(REPARTITION_SUFFIX) else prefix + REPARTITION_SUFFIX
        sink = naming.processor("KSTREAM-SINK-")
        null_filter = naming.processor("KSTREAM-FILTER-")
        source = naming.processor("KSTREAM-SOURCE-")
        if is_generated(prefix):
            return cls(topic, sink, null_filter, source)
        return cls(topic, f"{topic}-sink", f"{topic}-filter", f"{topic}-source")


@dataclass(eq=False, repr=False)
class RepartitionNode(GraphNode):
    """The repartition topic of a stream.

    `mergeable`: True if `optimize` may replace this topic; False for a topic of `KStream.repartition`.
    `keeps_null_keys`: True if records without key are written to the topic. The graph sets this field when the topology
    is built.
    """

    name: str = field(init=False)
    names: RepartitionNames
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    mergeable: bool = field(default=True, kw_only=True)
    partitions: int | None = field(default=None, kw_only=True)
    partitioner: StreamPartitioner | None = field(default=None, kw_only=True)
    keeps_null_keys: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.name = self.names.source

    def write(self, topology: Topology) -> None:
        names = self.names
        key_serde = self.key_serde or DefaultSerde("key", f"topic {names.topic}")
        value_serde = self.value_serde or DefaultSerde("value", f"topic {names.topic}")
        topology.add_repartition_topic(names.topic, self.partitions)
        operator = StreamOperator(passing_on if self.keeps_null_keys else leaving_out_null_keys)
        topology.add_processor(names.filter, operator, self.parent_names())
        topology.add_sink(
            names.sink,
            names.topic,
            names.filter,
            key_serde=key_serde,
            value_serde=value_serde,
            partitioner=self.partitioner,
        )
        topology.add_source(names.source, names.topic, key_serde=key_serde, value_serde=value_serde)


@dataclass(eq=False, repr=False)
class GroupedTableRepartitionNode(GraphNode):
    """The repartition topic of a grouped table. The topic contains the changes of the table. The key of each change is
    the key of its group.
    """

    topic: str
    sink: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None

    def write(self, topology: Topology) -> None:
        key_serde = self.key_serde or DefaultSerde("key", f"topic {self.topic}")
        changes = ChangedSerde(self.value_serde or DefaultSerde("value", f"topic {self.topic}"))
        topology.add_repartition_topic(self.topic)
        topology.add_sink(self.sink, self.topic, self.parent_names(), key_serde=key_serde, value_serde=changes)
        topology.add_source(self.name, self.topic, key_serde=key_serde, value_serde=changes)


@dataclass(eq=False, repr=False)
class GroupedTableSelectNode(GraphNode):
    """Forwards each change of a table under the key of its group. The name and the serdes of the repartition topic come
    from the aggregation below this node. `versioned`: True if the table is versioned.
    """

    selector: Callable[[Any, Any], tuple[Any, Any]]
    versioned: bool

    def write(self, topology: Topology) -> None:
        below = next((child for child in self.children if isinstance(child, GroupedTableRepartitionNode)), None)
        # The keys have the key serde of the aggregation below this node, or the default serde if the aggregation has no
        # key serde. If no aggregation is below this node, the table has no repartition topic, and the keys have the
        # serde BYTES.
        topic = "" if below is None else below.topic
        keys = BYTES if below is None else below.key_serde or DefaultSerde("key", f"topic {below.topic}")
        topology.add_processor(
            self.name, KTableRepartitionMap(self.selector, topic, keys, self.versioned), self.parent_names()
        )


Condition = Callable[[GraphNode], bool]


class RepartitionMerging:
    """Collects repartition topics, and replaces several topics by one topic where possible. `naming`: generates the
    names for the nodes of the new topics.
    """

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        # For each node that changes the key: the repartition topics below this node that one topic can replace. If the
        # topics are below a merge of streams, the method `merge` moves them to the entry of this merge.
        self._behind: dict[GraphNode, dict[RepartitionNode, None]] = {}
        self._merges: dict[GraphNode, None] = {}

    def note(self, node: GraphNode) -> None:
        """Remembers a node of the graph. The node must already have its parents. Only three kinds of nodes are
        remembered: nodes that change the key, merges of streams, and repartition topics that `optimize` may replace.
        """
        if node.changes_key:
            self._behind[node] = {}
        elif isinstance(node, RepartitionNode) and node.mergeable:
            changer = _key_changer_above(node)
            if changer is not None:
                self._behind[changer][node] = None
        elif isinstance(node, MergeNode):
            self._merges[node] = None

    def merge(self) -> dict[str, str]:
        """Replaces the collected topics in the graph. Returns a mapping from the name of each replaced source to the
        name of the new source.
        """
        self._gather_behind_merges()
        renamed: dict[str, str] = {}
        for changer, replaced in self._behind.items():
            if replaced:
                one = self._one_for(replaced)
                # the new node has a lower priority value than all nodes below it, so it is added to the topology before
                # these nodes
                one.priority = changer.priority
                for node in replaced:
                    self._replace(node, one, changer)
                    renamed[node.name] = one.name
                changer.add_child(one)
        return renamed

    def _one_for(self, replaced: Iterable[RepartitionNode]) -> RepartitionNode:
        """Makes the node that replaces the given nodes. The serdes of the new node are the first key serde and the
        first value serde among the given nodes.
        """
        nodes = list(replaced)
        names = RepartitionNames.of_stream(self._naming, nodes[0].names.topic)
        return RepartitionNode(
            names,
            next((node.key_serde for node in nodes if node.key_serde is not None), None),
            next((node.value_serde for node in nodes if node.value_serde is not None), None),
        )

    def _replace(self, node: RepartitionNode, one: RepartitionNode, changer: GraphNode) -> None:
        """Removes `node` from the graph, and links its children to its parents. `one`: the new node. `changer`: the
        node that changes the key. The branches between `changer` and `node` are linked to the new node.
        """
        # this node, and all nodes between it and the node that changes the key
        between = nodes_above(node, stop_at=changer) | {node}
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
        """Assigns the repartition topics below a merge of streams to this merge. Later, the method `merge` replaces
        these topics by one topic directly below the merge of streams. If the topics are below several merges, they are
        assigned to the lowest of these merges.
        """
        above_of = {node: nodes_above(node) for nodes in self._behind.values() for node in nodes}
        gathered: dict[GraphNode, dict[RepartitionNode, None]] = {merge: {} for merge in self._merges}
        above_merges = {merge: nodes_above(merge) for merge in self._merges}
        for changer, nodes in list(self._behind.items()):
            # Finds the merges that are below the node `changer` and above all repartition topics of `changer`. The list
            # has the order of the DSL calls, so the lowest merge is the last one. The topics are moved from `changer`
            # to this merge.
            merges = [
                merge
                for merge in self._merges
                if changer in above_merges[merge] and all(merge in above_of[node] for node in nodes)
            ]
            if merges:
                gathered[merges[-1]].update(self._behind.pop(changer))
        self._behind.update(gathered)


def _key_changer_above(node: GraphNode) -> GraphNode | None:
    """Returns the nearest node above `node` that changes the key. Returns None if there is no such node, or if a node
    between this node and `node` changes the value.
    """
    any_change = _found_upwards(node, lambda above: above.changes_key or above.changes_value)
    changer = _found_upwards(node, lambda above: above.changes_key)
    # the two searches find different nodes only if a node between `changer` and `node` changes values but not keys
    return changer if any_change is changer else None


def _found_upwards(node: GraphNode, condition: Condition) -> GraphNode | None:
    """Returns the first node that meets the condition. The depth-first search begins with `node`, and continues with
    the nodes above it.

    The search visits each node only once, even if several paths lead to it.
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


def nodes_above(node: GraphNode, stop_at: GraphNode | None = None) -> set[GraphNode]:
    """Returns all nodes above `node`. `stop_at`: a node at which the search stops; the result does not contain it."""
    above: set[GraphNode] = set()
    waiting = [node]
    while waiting:
        for parent in waiting.pop().parents:
            if parent not in above and parent is not stop_at:
                above.add(parent)
                waiting.append(parent)
    return above
