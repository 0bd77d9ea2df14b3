"""The repartition topics in the graph, and the optimization that replaces several repartition topics by one topic.

Each repartition node of the graph becomes a filter, a sink, a topic, and a source that reads the topic. The repartition
node has the name of this source, because the source is the parent of the next nodes. With `optimize`, one topic
replaces all repartition topics below a node that changes the key. The new topic is directly below the node that changes
the key. In this module's docstrings, "merge" means a merge of streams (`KStream.merge`, a `MergeNode`), not of topics.

The optimization keeps a repartition topic if a node between the change of the key and the topic changes the value. A
topic cannot be moved above such a node, because one topic has only one value serde. If the keys of merged streams have
changed, one topic replaces all repartition topics below the merge, and the records of all merged streams go through
this topic. Source: `BaseRepartitionNode`, `OptimizableRepartitionNode`, `UnoptimizableRepartitionNode`,
`GroupedTableOperationRepartitionNode`, `InternalStreamsBuilder.mergeRepartitionTopics`,
`maybeUpdateKeyChangingRepartitionNodeMap`. Differs from Kafka: several topics are also replaced if they are in one
branch below the change of the key, or below several merges. Kafka raises an error for several topics in one branch, and
for topics below several merges.

As in Kafka, a topic below a merge can be replaced by a topic in one of the merged streams, above the merge. If a topic
above the merge replaces the topic below, the records of the other merged stream do not pass through the topic, so they
are aggregated in the partition of their old key.
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
        """Returns the names of a stream's repartition topic and of the nodes that belong to this topic. `prefix`: the
        name that the user gave to the topic, or a generated name.

        As in Kafka, each call takes three numbers from the counter of `naming`, even if the user gave the name. Source:
        `KStreamImpl.createRepartitionedSource`.
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

    `mergeable`: True if `optimize` may replace this topic and others by one topic; False for `KStream.repartition`.
    `keeps_null_keys`: True if records without key pass through the topic. The graph sets `keeps_null_keys` when the
    topology is built.
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
        key_serde = self.key_serde or DefaultSerde("key", names.topic)
        value_serde = self.value_serde or DefaultSerde("value", names.topic)
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
    """The repartition topic of a grouped table. The topic contains the changes of the table, each with the key of its
    group.
    """

    topic: str
    sink: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None

    def write(self, topology: Topology) -> None:
        key_serde = self.key_serde or DefaultSerde("key", self.topic)
        changes = ChangedSerde(self.value_serde or DefaultSerde("value", self.topic))
        topology.add_repartition_topic(self.topic)
        topology.add_sink(self.sink, self.topic, self.parent_names(), key_serde=key_serde, value_serde=changes)
        topology.add_source(self.name, self.topic, key_serde=key_serde, value_serde=changes)


@dataclass(eq=False, repr=False)
class GroupedTableSelectNode(GraphNode):
    """Gives each change of a table the key of its group. The aggregation below this node decides the repartition topic
    and its serdes.
    """

    selector: Callable[[Any, Any], tuple[Any, Any]]

    def write(self, topology: Topology) -> None:
        below = next((child for child in self.children if isinstance(child, GroupedTableRepartitionNode)), None)
        # If there is no aggregation below, there is no repartition topic, and the serde of the keys is that of bytes.
        # If there is an aggregation below, the keys have its key serde, or the default serde if the aggregation has no
        # key serde.
        topic = "" if below is None else below.topic
        keys = BYTES if below is None else below.key_serde or DefaultSerde("key", below.topic)
        topology.add_processor(self.name, KTableRepartitionMap(self.selector, topic, keys), self.parent_names())


Condition = Callable[[GraphNode], bool]


class RepartitionMerging:
    """Collects repartition topics, and replaces several topics by one topic where this is possible. `naming`: generates
    the names of the new topics' nodes.
    """

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        # For each node that changes the key, the repartition topics below it that one topic can replace. `merge` moves
        # these topics from the node that changes the key to a merge of streams below it.
        self._behind: dict[GraphNode, dict[RepartitionNode, None]] = {}
        self._merges: dict[GraphNode, None] = {}

    def note(self, node: GraphNode) -> None:
        """Record a node that was linked to a parent. Only three kinds of nodes are recorded: nodes that change the key,
        merges of streams, and repartition topics that `optimize` may replace.
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
        """Replace the collected topics in the graph. Returns a mapping from the name of each replaced source to the
        name of the new source.
        """
        self._gather_behind_merges()
        renamed: dict[str, str] = {}
        for changer, replaced in self._behind.items():
            if replaced:
                one = self._one_for(replaced)
                # this priority is lower than that of all nodes below the new node, so the new node is added to the
                # topology before them
                one.priority = changer.priority
                for node in replaced:
                    self._replace(node, one, changer)
                    renamed[node.name] = one.name
                changer.add_child(one)
        return renamed

    def _one_for(self, replaced: Iterable[RepartitionNode]) -> RepartitionNode:
        """Returns the new node that replaces these nodes. The new node has the first key serde and the first value
        serde of these nodes.
        """
        nodes = list(replaced)
        names = RepartitionNames.of_stream(self._naming, nodes[0].names.topic)
        return RepartitionNode(
            names,
            next((node.key_serde for node in nodes if node.key_serde is not None), None),
            next((node.value_serde for node in nodes if node.value_serde is not None), None),
        )

    def _replace(self, node: RepartitionNode, one: RepartitionNode, changer: GraphNode) -> None:
        """Remove `node` from the graph. The children of `node` are linked to its parents. The branches of `changer`
        that lead to `node` are linked to `one`, the new node, instead of `changer`.
        """
        # this node, and the nodes above it up to the change of the key
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
        """Assign the repartition topics below a merge of streams to this merge. `merge` then replaces these topics by
        one topic directly below the merge of streams. If several merges are above the topics, the topics are assigned
        to the last of these merges.
        """
        above_of = {node: nodes_above(node) for nodes in self._behind.values() for node in nodes}
        gathered: dict[GraphNode, dict[RepartitionNode, None]] = {merge: {} for merge in self._merges}
        above_merges = {merge: nodes_above(merge) for merge in self._merges}
        for changer, nodes in list(self._behind.items()):
            # The merges that are below the node `changer` and above all topics in `nodes`. These merges are in the
            # order of the DSL calls, so each merge comes after the merges above it. The topics are moved from `changer`
            # to the last of these merges.
            merges = [
                merge
                for merge in self._merges
                if changer in above_merges[merge] and all(merge in above_of[node] for node in nodes)
            ]
            if merges:
                gathered[merges[-1]].update(self._behind.pop(changer))
        self._behind.update(gathered)


def _key_changer_above(node: GraphNode) -> GraphNode | None:
    """Returns the nearest node above `node` that changes the key. Returns None if no node above changes the key, or if
    a node in between changes the value.
    """
    any_change = _found_upwards(node, lambda above: above.changes_key or above.changes_value)
    changer = _found_upwards(node, lambda above: above.changes_key)
    # the two searches find different nodes only if a node between the change of the key and `node` changes values but
    # not keys
    return changer if any_change is changer else None


def _found_upwards(node: GraphNode, condition: Condition) -> GraphNode | None:
    """Returns `node` if `node` meets the condition. Otherwise returns the first node above `node` that meets the
    condition, depth first.

    Even if several paths lead upwards to a node, the search visits the node only once.
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
    """Returns all nodes above `node`. `stop_at`: a node at which the search stops. The result does not contain
    `stop_at`.
    """
    above: set[GraphNode] = set()
    waiting = [node]
    while waiting:
        for parent in waiting.pop().parents:
            if parent not in above and parent is not stop_at:
                above.add(parent)
                waiting.append(parent)
    return above
