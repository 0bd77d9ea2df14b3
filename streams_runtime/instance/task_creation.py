"""Makes Streams tasks from the topology. Also recycles tasks. A new standby gets the open stores of an active task. A
new active task gets the open stores of a standby.

Rules: an active task has processors, stores and input. A standby has only stores. If a task has no changelog, there is
no standby of the task, because a standby restores its stores from changelogs. When a task is recycled, its stores stay
open and keep their offsets.

Source: `ActiveTaskCreator`, `StandbyTaskCreator`.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assignor.configs import AssignmentConfigs
from assignor.topology.group_topology import ChangelogConfig
from assignor.topology.internal_topics import CLEANUP_POLICY, InternalTopic
from assignor.types import TaskId, TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.losses import LossesOf, uncounted
from streams_runtime.common.states import GLOBAL_TASK, TaskType
from streams_runtime.instance.application import Application
from streams_runtime.logs.base import Consumer, Log
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.membership.member_events import Partitions
from streams_runtime.processors.api import FailedRecord
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.state_stores.state_store import StateStore
from streams_runtime.state_stores.thread_cache import ThreadCache
from streams_runtime.tasks.exception_handling import ExceptionHandling
from streams_runtime.tasks.global_task import GlobalTask
from streams_runtime.tasks.input_lags import InputLags
from streams_runtime.tasks.input_offsets import InputClaim, InputOffsets
from streams_runtime.tasks.partition_group import PartitionGroup
from streams_runtime.tasks.processor_runtime import ProcessorRuntime
from streams_runtime.tasks.record_collector import RecordCollector, StreamsProducer
from streams_runtime.tasks.record_queue import RecordQueue
from streams_runtime.tasks.source_changelog import source_changelogs
from streams_runtime.tasks.standby_task import StandbyTask
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from streams_runtime.tasks.stream_task import StreamTask

_logger = logging.getLogger(__name__)


def global_task(
    application: Application, directory: StateDirectory, log: Log, clock: Clock, losses: LossesOf = uncounted
) -> GlobalTask | None:
    """Makes the task that fills the global stores of an instance. Returns None if the topology has no global store."""
    if not application.topology.definition().global_stores:
        return None
    configs = application.configs
    return GlobalTask(
        ProcessorGraph.build_global(application.topology, configs.application_id),
        directory,
        log,
        configs,
        application.processing_exception_handler,
        application.deserialization_exception_handler,
        losses(GLOBAL_TASK),
        clock,
    )


@dataclass(frozen=True, slots=True)
class TaskCreator:
    """Makes the tasks of one stream thread. Raises StreamsRuntimeError if the topology does not have the task. `cache`:
    the record cache of the thread; None if no store uses a cache. `global_stores`: the global stores of the instance.
    """

    application: Application
    directory: StateDirectory
    log: Log
    consumer: Consumer
    producer: StreamsProducer
    clock: Clock
    losses: LossesOf = uncounted
    cache: ThreadCache | None = None
    global_stores: Mapping[str, StateStore] = field(default_factory=dict)

    def active(self, task: TaskId, partitions: Partitions) -> StreamTask:
        graph = self._graph(task)
        return self.stream_task(task, partitions, graph, self._state(task, TaskType.ACTIVE, graph))

    def standby(self, task: TaskId, partitions: Partitions) -> StandbyTask | None:
        """Make a standby. Returns None if no store of the task has a changelog."""
        graph = self._graph(task)
        if all(topic is None for topic in graph.store_changelogs.values()):
            return None
        return self._standby_task(partitions, self._state(task, TaskType.STANDBY, graph))

    def standby_from(self, active: StreamTask, partitions: Partitions) -> StandbyTask:
        """Recycle an active task into a standby. The active task must be suspended and committed. This method closes
        the active task.
        """
        return self._standby_task(partitions, active.recycle_state())

    def active_from(self, standby: StandbyTask, partitions: Partitions) -> StreamTask:
        """Recycle a standby into an active task. The standby must be suspended. This method closes the standby."""
        graph = self._graph(standby.id)
        return self.stream_task(standby.id, partitions, graph, standby.recycle_state())

    def _graph(self, task: TaskId) -> ProcessorGraph:
        configs = self.application.configs
        return ProcessorGraph.build(
            self.application.topology,
            task.subtopology,
            configs.application_id,
            caching=self.cache is not None and configs.statestore_cache_max_bytes > 0,
        )

    def stream_task(
        self, task: TaskId, partitions: Partitions, graph: ProcessorGraph, state: StateManager
    ) -> StreamTask:
        """Make an active task from its parts. `state`: a new state manager, or the state manager of a recycled
        standby.
        """
        application, configs, losses = self.application, self.application.configs, self.losses(task)
        logged = {s: p for s, p in state.store_changelogs.items() if not state.changelog_as_source(p)}
        collector = RecordCollector(task, self.producer, logged, state.window_changelogs.needed, losses)
        handling = ExceptionHandling(
            collector.sink,
            self.producer.flush,
            configs.errors_dead_letter_queue_topic_name,
            application.processing_exception_handler,
            application.deserialization_exception_handler,
            application.production_exception_handler,
            losses,
            self.clock,
        )
        offsets = InputOffsets(graph, state, self.consumer, self.producer, configs, losses)

        def reading_failed(failed: FailedRecord) -> None:
            # The task then has work to commit: it has consumed the failed record, and the handler may send a dead
            # letter.
            offsets.begin_work()
            handling.deserialization_failed(failed)

        def new_queue(partition: TopicPartition) -> RecordQueue:
            source = graph.source_of(partition.topic)
            if source is None:
                raise StreamsRuntimeError(
                    f"has no source for topic {partition.topic}; do all instances run the same topology?", task
                )
            return RecordQueue(task, partition, source, reading_failed, losses)

        lags = InputLags(self.log, self.consumer)
        buffer = PartitionGroup(partitions, new_queue, self.consumer, lags, configs)
        runtime = ProcessorRuntime(
            graph, buffer, offsets, collector, handling, losses, configs, self.clock, self.cache, self.global_stores
        )
        claim = InputClaim(task, self.producer, configs.application_id)
        return StreamTask(state, buffer, runtime, offsets, claim, configs.task_timeout_ms)

    def _standby_task(self, partitions: Partitions, state: StateManager) -> StandbyTask:
        return StandbyTask(state, partitions, configs=self.application.configs, clock=self.clock)

    def _state(self, task: TaskId, task_type: TaskType, graph: ProcessorGraph) -> StateManager:
        configs = AssignmentConfigs.from_dotted(self.application.configs.assignment)
        own = [
            InternalTopic(store.changelog_topic, changelog=store.changelog or ChangelogConfig())
            for store in graph.subtopology.stores
            if store.changelog_topic is not None
        ]
        compacted = frozenset(
            TopicPartition(topic.name, task.partition)
            for topic in own
            if topic.configs(configs)[CLEANUP_POLICY] == "compact"
        )
        changelogs = {
            store: None if topic is None else TopicPartition(topic, task.partition)
            for store, topic in graph.store_changelogs.items()
        }
        # Kafka's log learns the id of its cluster at the latest from this request.
        topic_ids = self._topic_ids(partition.topic for partition in changelogs.values() if partition is not None)
        return StateManager(
            task,
            task_type,
            options=StoreOptions.of(self.application.configs, self.log.cluster_id(), topic_ids),
            directory=self.directory,
            stores=graph.stores,
            changelogs=changelogs,
            source_changelogs=source_changelogs(task, graph),
            compacted_changelogs=compacted,
            on_rebuilt=self.losses(task).store_rebuilt,
            window_retentions_ms=graph.window_retentions_ms,
        )

    def _topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        """Returns no ids if the log does not answer. Stores do not compare an id that is not known."""
        try:
            return self.log.topic_ids(frozenset(topics))
        except LogTimeout as timeout:
            _logger.info("the ids of changelogs are not known: %s", timeout)
            return {}
