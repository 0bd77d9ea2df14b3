"""The node graph as the user wrote it: sources, processors, sinks, stores, their connections, and the subtopologies.

In the node graph, the names of repartition topics have no application id as prefix. `assembly.py` makes the group's
topology from the graph. `description.py` makes the text of `Topology#describe`. Source: the node factories of
`InternalTopologyBuilder`, `InternalTopologyBuilder.makeNodeGroups`, `QuickUnion`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.topology.group_topology import ChangelogConfig


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A node that reads topics. `supplier`: an opaque object that the runtime needs to read the topics. `pattern`: the
    pattern whose matches the node reads (see `source_patterns`); None for a node that names its topics.
    """

    name: str
    topics: tuple[str, ...]
    supplier: object = None
    pattern: str | None = None

    @property
    def parents(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class ProcessorNode:
    """A node that processes records. `stores`: the state stores that the node may use. `supplier`: an opaque object
    with which the runtime creates the processor.
    """

    name: str
    parents: tuple[str, ...]
    stores: tuple[str, ...] = ()
    supplier: object = None


@dataclass(frozen=True, slots=True)
class SinkNode:
    """A node that writes records. `topic`: the topic to which it writes; empty if it chooses a topic for each
    record.
    """

    name: str
    parents: tuple[str, ...]
    topic: str
    supplier: object = None


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class StoreDefinition:
    """A state store. `changelog`: the configs of the changelog; None for a store without changelog. `source_topic`: the
    source topic that serves as changelog; None if no source topic serves as changelog.
    """

    name: str
    changelog: ChangelogConfig | None = field(default_factory=ChangelogConfig)
    source_topic: str | None = None
    supplier: object = None


@dataclass(frozen=True, slots=True)
class GlobalStore:
    """A store that every instance fills with all records of the store's topic. The two nodes of a global store have no
    tasks. `supplier`: an opaque object with which the runtime creates the store.
    """

    name: str
    source: str
    topic: str
    processor: str
    supplier: object = None


@dataclass(frozen=True, slots=True)
class TopologyDefinition:
    """A node graph. `nodes`: the nodes, in the order in which they were added, so parents come first.
    `repartition_topics`: the fixed partition count of each repartition topic, by name without application id; None if
    the count is not fixed.

    `copartitioned_sources`: the groups of co-partitioned source nodes, each with its nodes in the order in which
    `copartition` received them.
    """

    nodes: Mapping[str, Node]
    stores: Mapping[str, StoreDefinition]
    global_stores: Mapping[str, GlobalStore]
    repartition_topics: Mapping[str, int | None]
    copartitioned_sources: tuple[tuple[str, ...], ...]

    def source_topics(self, node: str) -> tuple[str, ...]:
        """Returns the topics that the node reads, without application id. The result is empty if the node is not a
        source.
        """
        source = self.nodes.get(node)
        return source.topics if isinstance(source, SourceNode) else ()

    def source_patterns(self, node: str) -> tuple[str, ...]:
        """Returns the pattern whose matches the node reads, as a tuple. The result is empty for any other node."""
        source = self.nodes.get(node)
        return (source.pattern,) if isinstance(source, SourceNode) and source.pattern is not None else ()

    def full_topic(self, topic: str, application_id: str) -> str:
        """Returns the topic's name on the brokers: the application id is the prefix of repartition topics."""
        return f"{application_id}-{topic}" if topic in self.repartition_topics else topic

    def global_nodes(self) -> frozenset[str]:
        """Returns the names of the nodes that belong to global stores."""
        return frozenset(name for store in self.global_stores.values() for name in (store.source, store.processor))


def node_groups(definition: TopologyDefinition) -> dict[int, tuple[str, ...]]:
    """Returns the node names of each group, by group id, in the order in which the nodes were added. Nodes form a group
    if an edge or a shared store connects them.

    Groups are numbered in the order in which their first nodes were added. The groups of global stores are numbered
    too, so the numbers of subtopologies can have gaps.
    """
    root_of: dict[str, str] = {}

    def root(name: str) -> str:
        while root_of[name] != name:
            root_of[name] = root_of[root_of[name]]
            name = root_of[name]
        return name

    first_user_of_store: dict[str, str] = {}
    for name, node in definition.nodes.items():
        root_of[name] = name
        for parent in node.parents:
            root_of[root(name)] = root(parent)
        for store in node.stores if isinstance(node, ProcessorNode) else ():
            user = first_user_of_store.setdefault(store, name)
            root_of[root(name)] = root(user)

    members: dict[str, list[str]] = {}
    for name in definition.nodes:
        members.setdefault(root(name), []).append(name)
    return {group_id: tuple(names) for group_id, names in enumerate(members.values())}
