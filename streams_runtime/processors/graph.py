"""The running nodes of one subtopology in one task.

The names of internal topics are full names here; they begin with the application id. The task passes records to the
sources. The graph knows nothing about partitions, offsets and commits; the task handles them. Source:
`ProcessorTopology`, `InternalTopologyBuilder.buildSubtopology`, `StreamTask.initializeTopology`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from assignor.topology.definition import (
    GlobalStore,
    Node,
    ProcessorNode,
    SinkNode,
    SourceNode,
    StoreDefinition,
    TopologyDefinition,
)
from assignor.topology.group_topology import ChangelogType, Subtopology, SubtopologyStore
from assignor.topology.source_patterns import matches
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.states import GLOBAL_TASK
from streams_runtime.processors.api import FixedKeyProcessor
from streams_runtime.processors.batch_node import (
    BatchContext,
    BatchRunner,
    NodeRun,
    decide_on_batches,
    node_run,
    takes_batches,
)
from streams_runtime.processors.context import CurrentNode, NodeContext, Operator, Receiver, ignore
from streams_runtime.processors.nodes import (
    FixedKeyContext,
    FixedKeyRunner,
    NodeRunner,
    OperatorRunner,
    ProcessorRunner,
    SinkRunner,
    SourceRunner,
)
from streams_runtime.processors.runtime import SinkSettings, TaskRuntime
from streams_runtime.processors.topology import SourceSettings, Topology
from streams_runtime.state_stores.builders import SerdesStoreBuilder, builder_for_topic, builder_without_caching
from streams_runtime.state_stores.state_store import StateStore, StoreBuilder


class ProcessorGraph:
    """The nodes of one task. After `close`, `init` can be called again, and uses the same processors.

    `sources`: maps the full name of each source topic to its source node; `source_of` also finds the node of a topic
    that matches a pattern. `stores`: the stores of the subtopology; the
    caller opens them. `repartition_sources`: the repartition topics that the subtopology reads; processed records of
    these topics may be deleted. `current`: the node that runs at this moment, and its record. All nodes of the graph
    share this object. `collecting`: the nodes that collect batches, parents first. `store_changelogs`: maps the name of
    each store to the topic from which it is restored; None for a store without a changelog. `source_changelogs`: the
    stores that are restored from source topics; maps the name of each such store to the name of its topic. A store that
    is restored from a source topic does not write to this topic. `window_retentions_ms`: the retention of each window
    store that has a changelog topic, by the store's name.
    """

    def __init__(
        self,
        nodes: Sequence[NodeRunner],
        sources: Mapping[str, SourceRunner],
        pattern_sources: Mapping[str, SourceRunner],
        stores: Sequence[StateStore],
        subtopology: Subtopology,
        current: CurrentNode,
    ) -> None:
        self.sources = dict(sources)
        self._pattern_sources = pattern_sources
        self.stores = list(stores)
        self.window_retentions_ms = {
            store.name: store.changelog.retention_ms
            for store in subtopology.stores
            if store.changelog_topic is not None
            and store.changelog is not None
            and store.changelog.type is ChangelogType.WINDOWED
            and store.changelog.retention_ms is not None
        }
        self.store_changelogs: Mapping[str, str | None] = {
            store.name: store.changelog_topic or store.source_topic_as_changelog for store in subtopology.stores
        }
        self.subtopology = subtopology
        self.source_changelogs: Mapping[str, str] = {
            store.name: store.source_topic_as_changelog
            for store in subtopology.stores
            if store.source_topic_as_changelog is not None
        }
        self.repartition_sources = frozenset(topic.name for topic in subtopology.repartition_source_topics)
        self.sink_topics = frozenset(subtopology.sink_topics)
        self._nodes = tuple(nodes)
        self.current = current
        self.collecting = tuple(
            each for each in nodes if isinstance(each, BatchRunner) and not each.reason_against_batches
        )
        self._initialized: list[NodeRunner] = []

    @classmethod
    def build(
        cls, topology: Topology, subtopology_id: int, application_id: str, *, caching: bool = True
    ) -> ProcessorGraph:
        """Makes new processors and stores for one task. `caching`: True if stores may have a record cache. Raises
        TopologyError. Raises StreamsRuntimeError for an unknown subtopology id.
        """
        subtopologies = {each.id: each for each in topology.group_topology(application_id).subtopologies}
        if subtopology_id not in subtopologies:
            raise StreamsRuntimeError(
                f"there is no subtopology {subtopology_id}; the topology has {', '.join(map(str, subtopologies))}"
            )
        nodes = topology.builder.subtopology_nodes(subtopology_id)
        return cls._of_nodes(nodes, topology.definition(), subtopologies[subtopology_id], application_id, caching)

    @classmethod
    def build_global(cls, topology: Topology, application_id: str) -> ProcessorGraph:
        """Makes the nodes and stores of all global stores of the topology. The processor of a global store may use all
        global stores. A global store has no record cache, because its processor forwards nothing.

        Source: `InternalTopologyBuilder.buildGlobalStateTopology`, `GlobalProcessorContextImpl.getStateStore`.
        """
        definition = topology.definition()
        stores = definition.global_stores.values()
        every_name = tuple(store.name for store in stores)
        nodes = [
            replace(node, stores=every_name) if isinstance(node, ProcessorNode) else node
            for name, node in definition.nodes.items()
            if name in definition.global_nodes()
        ]
        topics = {store.name: definition.full_topic(store.topic, application_id) for store in stores}
        subtopology = Subtopology(
            GLOBAL_TASK.subtopology,
            tuple(topics.values()),
            stores=tuple(SubtopologyStore(name, None, topic) for name, topic in topics.items()),
        )
        return cls._of_nodes(nodes, definition, subtopology, application_id, caching=False)

    @classmethod
    def _of_nodes(
        cls,
        nodes: Iterable[Node],
        definition: TopologyDefinition,
        subtopology: Subtopology,
        application_id: str,
        caching: bool,
    ) -> ProcessorGraph:
        current = CurrentNode()
        runners: dict[str, NodeRunner] = {}
        for node in nodes:
            runner = _runner(node, definition, application_id, current)
            runners[node.name] = runner
            for parent in node.parents:
                runners[parent].below.append(runner)
        decide_on_batches(list(runners.values()))
        every_source = [runner for runner in runners.values() if isinstance(runner, SourceRunner)]
        sources = {
            definition.full_topic(topic, application_id): runner
            for runner in every_source
            for topic in definition.source_topics(runner.name)
        }
        pattern_sources = {
            pattern: runner for runner in every_source for pattern in definition.source_patterns(runner.name)
        }
        defined: dict[str, StoreDefinition | GlobalStore] = {**definition.stores, **definition.global_stores}
        stores = [
            _build_store(defined[store.name], serde_topic(store, application_id), caching)
            for store in subtopology.stores
        ]
        return cls(list(runners.values()), sources, pattern_sources, stores, subtopology, current)

    def source_of(self, topic: str) -> SourceRunner | None:
        """Returns the source node that reads the topic, by name or by pattern; None if no node reads it. `topic`: the
        topic's full name.
        """
        by_pattern = (runner for pattern, runner in self._pattern_sources.items() if matches(pattern, topic))
        return self.sources.get(topic) or next(by_pattern, None)

    def failed_node(self, error: BaseException) -> str:
        """Returns the name of the node that raised the error; empty if no node raised it."""
        return self.current.failed_node(error)

    def init(self, runtime: TaskRuntime) -> None:
        """Calls `init` of every processor, parents first. The caller has to open and restore the stores before this
        call.

        If a node fails, raises StreamsRuntimeError with its name. If several nodes fail, the error is that of the first
        one, as in Kafka. After a failed `init`, `close` closes only the processors that were initialised.
        """
        if self._initialized:
            raise StreamsRuntimeError("the processors are initialised already", runtime.task_id)
        failed: tuple[str, Exception] | None = None
        for node in self._nodes:
            try:
                node.init(runtime)
            except Exception as error:
                failed = (node.name, error)
                break
            self._initialized.append(node)
        receivers: dict[str, Receiver] = {}
        for node in reversed(self._initialized):
            try:
                receiver = node.connect([(child.name, receivers.get(child.name, ignore)) for child in node.below])
            except Exception as error:
                failed, receiver = (node.name, error), ignore
            receivers[node.name] = self.current.with_node_name(receiver, node.name)
        if failed is not None:
            name, cause = failed
            raise StreamsRuntimeError(f"failed to initialize processor {name}: {cause!r}", runtime.task_id) from cause
        _allow_depth(self._nodes)

    def run_collected(self) -> None:
        """Passes the collected batches to their processors. The task calls this method at the end of a run of records.
        If an error of a processor ends the run, the method raises this error.
        """
        for node in self.collecting:
            node.run_collected()

    def forget_collected(self) -> None:
        """Drops the collected records. The task calls this method before it processes the run again."""
        for node in self.collecting:
            node.clear()

    def node_runs(self) -> Mapping[str, NodeRun]:
        """Returns how often each node is called, and the reason for this. Leaves out sources."""
        return {node.name: node_run(node) for node in self._nodes if not isinstance(node, SourceRunner)}

    def close(self) -> None:
        """Calls `close` of every processor, parents first, even after errors. Idempotent.

        If the `close` of a processor fails, the other processors are closed nevertheless. As in Kafka, the last error
        is raised at the end, as a StreamsRuntimeError.
        """
        failed: StreamsRuntimeError | None = None
        closing, self._initialized = self._initialized, []
        for node in closing:
            try:
                node.close()
            except Exception as error:
                failed = StreamsRuntimeError(f"failed to close processor {node.name}: {error!r}")
                failed.__cause__ = error
        if failed is not None:
            raise failed


def _runner(node: Node, definition: TopologyDefinition, application_id: str, current: CurrentNode) -> NodeRunner:
    match node:
        case SourceNode(name, _, supplier):
            settings = supplier if isinstance(supplier, SourceSettings) else SourceSettings()
            return SourceRunner(name, settings, current)
        case ProcessorNode(name, _, stores, supplier):
            connected = frozenset(stores)
            if isinstance(supplier, Operator):
                builders = [definition.stores[each].supplier for each in stores if each in definition.stores]
                buffers = [each for each in builders if isinstance(each, SerdesStoreBuilder) and each.is_buffer]
                return OperatorRunner(supplier, NodeContext(name, connected, current), buffers)
            if not callable(supplier):
                raise StreamsRuntimeError(f"Processor {name} has no supplier and cannot run")
            made = supplier()
            if isinstance(made, FixedKeyProcessor):
                return FixedKeyRunner(made, FixedKeyContext(name, connected, current))
            if takes_batches(made):
                return BatchRunner(made, BatchContext(name, connected, current))
            return ProcessorRunner(made, NodeContext(name, connected, current))
        case SinkNode(name, _, topic, supplier):
            sink = supplier if isinstance(supplier, SinkSettings) else SinkSettings()
            return SinkRunner(name, definition.full_topic(topic, application_id), sink, current)


_FRAMES_PER_NODE = 14
"""The largest number of Python frames that one node adds to the call stack.

A table with several children and a full record cache adds the most frames: a put evicts the change of another key, and
forwards this change to the children. A processor of the user adds only five frames.
"""


def _allow_depth(nodes: Sequence[NodeRunner]) -> None:
    """Increases Python's recursion limit (1,000 by default) if the longest path through the nodes needs more nested
    calls.
    """
    depths: dict[str, int] = {}
    for node in reversed(nodes):
        depths[node.name] = 1 + max((depths[child.name] for child in node.below), default=0)
    needed = _FRAMES_PER_NODE * max(depths.values(), default=0) + 500
    if sys.getrecursionlimit() < needed:
        sys.setrecursionlimit(needed)


def _build_store(store: StoreDefinition | GlobalStore, topic: str, caching: bool) -> StateStore:
    builder = store.supplier
    if not hasattr(builder, "build"):
        raise StreamsRuntimeError(f"StateStore {store.name} has no builder and cannot run")
    made: StoreBuilder = builder  # type: ignore[assignment]  # `add_state_store` has checked it
    return builder_for_topic(made if caching else builder_without_caching(made), topic).build()


def serde_topic(store: SubtopologyStore, application_id: str) -> str:
    """Returns the topic name that the serdes of a store get: the name of the topic from which the store is restored. If
    the store has no changelog, the serdes get the name that its changelog would have.
    """
    return store.changelog_topic or store.source_topic_as_changelog or f"{application_id}-{store.name}-changelog"
