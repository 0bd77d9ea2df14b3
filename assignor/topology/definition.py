"""The node graph as the user wrote it: sources, processors, sinks, stores, what connects them, and which run together.

Topic names here are short: a repartition topic has no application id in front yet. `assembly.py` makes the group's
topology from it, `description.py` its text, a runtime its running nodes.
Source: the node factories of `InternalTopologyBuilder`, `InternalTopologyBuilder.makeNodeGroups`, `QuickUnion`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.topology.group_topology import ChangelogConfig


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Reads topics. `supplier`: opaque here; what a runtime needs to read them."""

    name: str
    topics: tuple[str, ...]
    supplier: object = None

    @property
    def parents(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class ProcessorNode:
    """Processes records. `stores`: the state stores it may use; `supplier`: opaque here; makes the processor."""

    name: str
    parents: tuple[str, ...]
    stores: tuple[str, ...] = ()
    supplier: object = None


@dataclass(frozen=True, slots=True)
class SinkNode:
    """Writes to one topic."""

    name: str
    parents: tuple[str, ...]
    topic: str
    supplier: object = None


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class StoreDefinition:
    """`changelog` None: not logged. `source_topic`: the source topic that serves as changelog, if one does."""

    name: str
    changelog: ChangelogConfig | None = field(default_factory=ChangelogConfig)
    source_topic: str | None = None
    supplier: object = None


@dataclass(frozen=True, slots=True)
class GlobalStore:
    """A store that every instance reads completely; its two nodes have no tasks."""

    name: str
    source: str
    topic: str
    processor: str
    supplier: object = None


@dataclass(frozen=True, slots=True)
class TopologyDefinition:
    """`nodes`: in the order added, so parents come first. `repartition_topics`: the fixed count or None, by short
    name.

    `copartitioned_sources`: groups of source nodes, each in the order of the call.
    """

    nodes: Mapping[str, Node]
    stores: Mapping[str, StoreDefinition]
    global_stores: Mapping[str, GlobalStore]
    repartition_topics: Mapping[str, int | None]
    copartitioned_sources: tuple[tuple[str, ...], ...]

    def source_topics(self, node: str) -> tuple[str, ...]:
        """The topics that the node reads, by short name; none when it is not a source."""
        source = self.nodes.get(node)
        return source.topics if isinstance(source, SourceNode) else ()

    def full_topic(self, topic: str, application_id: str) -> str:
        """The name on the brokers: internal topics have the application id in front."""
        return f"{application_id}-{topic}" if topic in self.repartition_topics else topic

    def global_nodes(self) -> frozenset[str]:
        """Names of the nodes that belong to global stores."""
        return frozenset(name for store in self.global_stores.values() for name in (store.source, store.processor))


def node_groups(definition: TopologyDefinition) -> dict[int, tuple[str, ...]]:
    """Node names by group id, each group in the order added. Nodes connected by an edge or by a shared store run
    together.

    Groups are numbered in the order in which their first nodes were added. Global stores have numbers too, so those of
    subtopologies can have gaps.
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
