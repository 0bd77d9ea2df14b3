"""Builds a topology node by node. The subtopologies and their numbers are the same as in Kafka.

Every call of the builder is checked immediately. If a call raises an error, it changes nothing. Callers pass the names
of topics without the application id. The method `build` adds the application id as prefix to the names of internal
topics.
Source: `InternalTopologyBuilder`, `Topology`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import is_
from typing import TypeVar

from assignor.errors import TopologyError
from assignor.topology.assembly import assemble
from assignor.topology.definition import (
    GlobalStore,
    Node,
    ProcessorNode,
    SinkNode,
    SourceNode,
    StoreDefinition,
    TopologyDefinition,
    node_groups,
)
from assignor.topology.description import describe
from assignor.topology.group_topology import ChangelogConfig, GroupTopology
from assignor.topology.source_patterns import matches, pattern_text

_Supplied = TypeVar("_Supplied", bound=Node | StoreDefinition | GlobalStore)

LOGGED = ChangelogConfig()
"""A compacted changelog with Kafka's defaults."""


class TopologyBuilder:
    """Collects the nodes and stores of a topology. Methods that add something return the builder, and raise
    TopologyError for calls that Kafka's builder refuses.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, StoreDefinition] = {}
        self._global_stores: dict[str, GlobalStore] = {}
        self._repartition_topics: dict[str, int | None] = {}
        self._copartitioned_sources: list[tuple[str, ...]] = []

    def add_source(
        self, name: str, topics: str | Sequence[str] | re.Pattern[str], *, supplier: object = None
    ) -> TopologyBuilder:
        """Adds a node that reads `topics`, or all topics that match a pattern. A topic can have only one source.

        Differs from Kafka: two sources cannot have the same pattern. Kafka refuses them only when a topic matches. A
        pattern also cannot match the topic of a global store. Kafka refuses this only if the pattern was added first.
        """
        self._check_new_node(name)
        if isinstance(topics, re.Pattern):
            pattern = pattern_text(topics)
            for node in self._nodes.values():
                taken = node.topics if isinstance(node, SourceNode) else ()
                if any(matches(pattern, topic) for topic in taken):
                    raise _invalid(f"Pattern {pattern} matches a topic that Source {node.name} already reads.")
                if getattr(node, "pattern", None) == pattern:
                    raise _invalid(f"Pattern {pattern} is used twice: Source {node.name} already has it.")
            self._nodes[name] = SourceNode(name, (), supplier, pattern)
            return self
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if not names:
            raise _invalid(f"Source {name} has no topics.")
        for index, topic in enumerate(names):
            self._check_unread_topic(topic)
            if topic in names[:index]:
                raise _already_read(topic)
        self._nodes[name] = SourceNode(name, names, supplier)
        return self

    def add_processor(
        self, name: str, parents: str | Sequence[str], *, stores: Iterable[str] = (), supplier: object = None
    ) -> TopologyBuilder:
        """Adds a node that receives the records of its parents. `stores`: the state stores that the node uses; add the
        stores first.
        """
        self._check_new_node(name)
        node = ProcessorNode(name, self._checked_parents(name, parents), supplier=supplier)
        wanted = tuple(dict.fromkeys(stores))
        for store in wanted:
            self._check_store(store)
        self._nodes[name] = replace(node, stores=wanted)
        return self

    def add_sink(
        self, name: str, topic: str, parents: str | Sequence[str], *, supplier: object = None
    ) -> TopologyBuilder:
        """Adds a node that writes the records of its parents to `topic`. If `topic` is empty, the node chooses a topic
        for each record.
        """
        self._check_new_node(name)
        self._nodes[name] = SinkNode(name, self._checked_parents(name, parents), topic, supplier)
        return self

    def add_state_store(
        self,
        name: str,
        processors: str | Iterable[str] = (),
        *,
        changelog: ChangelogConfig | None = LOGGED,
        supplier: object = None,
    ) -> TopologyBuilder:
        """Adds a store, and connects it to the processors that use it. `changelog`: the configs of the changelog; None
        for a store without changelog.

        A store may be added again, to connect it to more processors. If a store is added again, it must have the same
        `supplier` object. An equal supplier is not enough, because two tables could then share their state. Differs
        from Kafka: all processors share a store that is added several times. In Kafka, only the processors of the last
        call share the store. The processors of earlier calls have a separate store without a changelog.
        """
        store = StoreDefinition(name, changelog, None, supplier)
        known = self._stores.get(name, store)
        same = known.supplier is supplier and (supplier is not None or known == store)
        if name in self._global_stores or not same:
            raise _invalid(f"A different StateStore has already been added with the name {name}.")
        users = _names(processors)
        for processor in users:
            self._check_processor(processor, name)
        self._stores[name] = known
        for processor in users:
            self._connect(processor, name)
        return self

    def connect_processor_and_stores(self, processor: str, stores: str | Iterable[str]) -> TopologyBuilder:
        """Connects a processor to stores that were added before. If processors share a store, they are in one
        subtopology.
        """
        wanted = _names(stores)
        if not wanted:
            raise _invalid(f"No StateStore is named to connect to Processor {processor}.")
        for store in wanted:
            self._check_store(store)
            self._check_processor(processor, store)
        for store in wanted:
            self._connect(processor, store)
        return self

    def add_repartition_topic(self, name: str, partitions: int | None = None) -> TopologyBuilder:
        """Adds an internal topic for sources and sinks. `name`: the topic's name without the application id.

        `partitions`: a fixed count, or None for the largest count of the topics upstream.
        """
        if partitions is not None and partitions < 1:
            raise _invalid(f"Repartition topic {name} needs at least 1 partition, not {partitions}.")
        self._repartition_topics[name] = partitions
        return self

    def copartition(self, sources: Iterable[str]) -> TopologyBuilder:
        """Requires that the topics of these source nodes have the same number of partitions.

        Differs from Kafka: TopologyError is raised for a name that is not a source node.
        """
        group = tuple(dict.fromkeys(sources))
        for name in group:
            if not isinstance(self._nodes.get(name), SourceNode):
                raise _invalid(f"Source {name} is unknown and cannot be co-partitioned.")
        self._copartitioned_sources.append(group)
        return self

    def with_suppliers(self, change: Callable[[object], object]) -> TopologyBuilder:
        """Applies the function `change` to the suppliers of stores and nodes. Returns a builder with the new suppliers,
        or this builder if no supplier has changed. Stores come first, as Kafka initializes the stores of a task before
        its nodes: of several missing serdes, the error names the one that Kafka names.
        """
        global_stores = {name: _with_supplier(store, change) for name, store in self._global_stores.items()}
        stores = {name: _with_supplier(store, change) for name, store in self._stores.items()}
        nodes = {name: _with_supplier(node, change) for name, node in self._nodes.items()}
        if all(
            map(
                is_,
                (*nodes.values(), *stores.values(), *global_stores.values()),
                (*self._nodes.values(), *self._stores.values(), *self._global_stores.values()),
            )
        ):
            return self
        changed = self.copy()
        changed._nodes, changed._stores, changed._global_stores = nodes, stores, global_stores
        return changed

    def copy(self) -> TopologyBuilder:
        """Returns a builder with the same nodes and stores. Later calls of one builder do not change the other."""
        copied = TopologyBuilder()
        copied._nodes, copied._stores = dict(self._nodes), dict(self._stores)
        copied._global_stores = dict(self._global_stores)
        copied._repartition_topics = dict(self._repartition_topics)
        copied._copartitioned_sources = list(self._copartitioned_sources)
        return copied

    def use_source_topic_as_changelog(self, store: str, topic: str) -> TopologyBuilder:
        """Uses a source topic of the store's subtopology as the changelog of the store. The store gets no other
        changelog.

        Source: `connectSourceStoreAndTopic`, which the optimised source KTable and read-only state stores use.
        """
        self._check_store(store)
        if self._stores[store].source_topic is not None:
            raise _invalid(f"Source store {store} is already added.")
        changelog = self._stores[store].changelog or LOGGED
        self._stores[store] = replace(self._stores[store], changelog=replace(changelog, configs={}), source_topic=topic)
        return self

    def add_global_store(
        self,
        name: str,
        *,
        source: str,
        topic: str,
        processor: str,
        source_supplier: object = None,
        processor_supplier: object = None,
        supplier: object = None,
    ) -> TopologyBuilder:
        """Adds a store that every instance fills with all records of `topic`. The two nodes of a global store have no
        tasks, but they have a subtopology number of their own. The call has many parameters, because it adds a source,
        a processor and a store at once. `supplier`: the supplier of the store.
        """
        self._check_new_node(source)
        self._check_unread_topic(topic)
        self._check_new_node(processor)
        if source == processor:
            raise _invalid("The source and the processor of a global store must be different.")
        if name in self._stores or name in self._global_stores:
            raise _invalid(f"A different StateStore has already been added with the name {name}.")
        self._nodes[source] = SourceNode(source, (topic,), source_supplier)
        self._nodes[processor] = ProcessorNode(processor, (source,), (name,), processor_supplier)
        self._global_stores[name] = GlobalStore(name, source, topic, processor, supplier)
        return self

    def definition(self) -> TopologyDefinition:
        """Returns a copy of the node graph, which later calls of the builder do not change."""
        return TopologyDefinition(
            dict(self._nodes),
            dict(self._stores),
            dict(self._global_stores),
            dict(self._repartition_topics),
            tuple(self._copartitioned_sources),
        )

    def build(self, application_id: str) -> GroupTopology:
        """Returns the group's topology. Raises TopologyError as `assemble` does."""
        return assemble(self.definition(), application_id)

    def subtopology_nodes(self, subtopology_id: int) -> tuple[Node, ...]:
        """Returns the nodes of one subtopology, parents first. Raises KeyError for an unknown id."""
        return tuple(self._nodes[name] for name in node_groups(self.definition())[subtopology_id])

    def describe(self) -> str:
        """Returns the text of Kafka's `Topology#describe`."""
        return describe(self.definition())

    def _connect(self, processor: str, store: str) -> None:
        node = self._nodes[processor]
        if isinstance(node, ProcessorNode) and store not in node.stores:
            self._nodes[processor] = replace(node, stores=(*node.stores, store))

    def _check_new_node(self, name: str) -> None:
        if name in self._nodes:
            raise _invalid(f"Processor {name} is already added.")

    def _checked_parents(self, name: str, parents: str | Sequence[str]) -> tuple[str, ...]:
        names = _names(parents)
        if not names:
            raise _invalid(f"Node {name} has no parents.")
        global_nodes = {node for store in self._global_stores.values() for node in (store.source, store.processor)}
        for parent in names:
            if parent not in self._nodes:
                raise _invalid(f"Parent node {parent} is unknown{' (self-reference)' if parent == name else ''}.")
            if isinstance(self._nodes[parent], SinkNode):
                raise _invalid(f"Sink {parent} cannot be used as a parent.")
            # Differs from Kafka: Kafka accepts this parent, and the whole subtopology then gets no tasks
            if parent in global_nodes:
                raise _invalid(f"Node {parent} of a global store cannot be used as a parent.")
        return names

    def _check_unread_topic(self, topic: str) -> None:
        for node in self._nodes.values():
            if isinstance(node, SourceNode) and topic in node.topics:
                raise _already_read(topic)
            if isinstance(node, SourceNode) and node.pattern is not None and matches(node.pattern, topic):
                raise _invalid(f"Topic {topic} matches the pattern {node.pattern}, which Source {node.name} reads.")

    def _check_store(self, store: str) -> None:
        if store in self._global_stores:
            raise _invalid(f"Global StateStore {store} is open to every processor and is not connected to one.")
        if store not in self._stores:
            raise _invalid(f"StateStore {store} is not added yet.")

    def _check_processor(self, processor: str, store: str) -> None:
        if processor not in self._nodes:
            raise _invalid(f"Processor {processor} is not added yet.")
        if not isinstance(self._nodes[processor], ProcessorNode):
            raise _invalid(f"StateStore {store} cannot be connected to {processor}, a source or a sink.")


def _with_supplier(definition: _Supplied, change: Callable[[object], object]) -> _Supplied:
    supplier = change(definition.supplier)
    return definition if supplier is definition.supplier else replace(definition, supplier=supplier)


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _already_read(topic: str) -> TopologyError:
    return _invalid(f"Topic {topic} has already been registered by another source.")


def _invalid(reason: str) -> TopologyError:
    return TopologyError(f"Invalid topology: {reason}")
