"""Makes tasks from the topology, and tasks of one type from tasks of the other, without closing their stores.

Rules: an active task has processors, stores and input. A standby has stores only. A task without a changelog has no
standby, because there is nothing to follow. The stores of a recycled task stay open and go on from where they are.
Source: `ActiveTaskCreator`, `StandbyTaskCreator`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assignor.configs import AssignmentConfigs
from assignor.topology.internal_topics import CLEANUP_POLICY, InternalTopic
from assignor.types import TaskId, TopicPartition
from streams_runtime.application import Application
from streams_runtime.common.clock import Clock
from streams_runtime.common.states import TaskType
from streams_runtime.logs.base import Consumer, Log
from streams_runtime.membership.member_events import Partitions
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.reporting.losses import LossesOf, uncounted
from streams_runtime.state_stores.thread_cache import ThreadCache
from streams_runtime.tasks.source_changelog import source_changelogs
from streams_runtime.tasks.standby_task import StandbyTask
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.stream_task import StreamTask
from streams_runtime.tasks.streams_producer import StreamsProducer


@dataclass(frozen=True, slots=True)
class TaskCreator:
    """Makes the tasks of one stream thread. Raises StreamsRuntimeError for a task that the topology does not have.

    `cache`: the thread's; None: no store has one.
    """

    application: Application
    directory: StateDirectory
    log: Log
    consumer: Consumer
    producer: StreamsProducer
    clock: Clock
    losses: LossesOf = uncounted
    cache: ThreadCache | None = None

    def active(self, task: TaskId, partitions: Partitions) -> StreamTask:
        graph = self._graph(task)
        return self._stream_task(task, partitions, graph, self._state(task, TaskType.ACTIVE, graph))

    def standby(self, task: TaskId, partitions: Partitions) -> StandbyTask | None:
        """None when no store of the task is logged."""
        graph = self._graph(task)
        if all(topic is None for topic in graph.store_changelogs.values()):
            return None
        return self._standby_task(task, partitions, self._state(task, TaskType.STANDBY, graph))

    def standby_from(self, active: StreamTask, partitions: Partitions) -> StandbyTask:
        """`active` is suspended and committed. It is closed afterwards."""
        return self._standby_task(active.id, partitions, active.recycle_state())

    def active_from(self, standby: StandbyTask, partitions: Partitions) -> StreamTask:
        """`standby` is suspended. It is closed afterwards."""
        graph = self._graph(standby.id)
        return self._stream_task(standby.id, partitions, graph, standby.recycle_state())

    def _graph(self, task: TaskId) -> ProcessorGraph:
        configs = self.application.configs
        return ProcessorGraph.build(
            self.application.topology,
            task.subtopology,
            configs.application_id,
            caching=self.cache is not None and configs.statestore_cache_max_bytes > 0,
        )

    def _stream_task(
        self, task: TaskId, partitions: Partitions, graph: ProcessorGraph, state: StateManager
    ) -> StreamTask:
        return StreamTask(
            task,
            partitions,
            graph,
            state,
            log=self.log,
            consumer=self.consumer,
            producer=self.producer,
            configs=self.application.configs,
            clock=self.clock,
            processing_handler=self.application.processing_exception_handler,
            deserialization_handler=self.application.deserialization_exception_handler,
            losses=self.losses(task),
            cache=self.cache,
        )

    def _standby_task(self, task: TaskId, partitions: Partitions, state: StateManager) -> StandbyTask:
        return StandbyTask(task, partitions, state, configs=self.application.configs, clock=self.clock)

    def _compacted_changelogs(self, graph: ProcessorGraph) -> Iterator[str]:
        """The changelogs that the leader creates with compaction alone."""
        configs = AssignmentConfigs.from_dotted(self.application.configs.assignment)
        for store, changelog in graph.changelog_configs.items():
            topic = graph.store_changelogs[store]
            if (
                topic is not None
                and InternalTopic(topic, changelog=changelog).configs(configs)[CLEANUP_POLICY] == "compact"
            ):
                yield topic

    def _state(self, task: TaskId, task_type: TaskType, graph: ProcessorGraph) -> StateManager:
        changelogs = {
            store: None if topic is None else TopicPartition(topic, task.partition)
            for store, topic in graph.store_changelogs.items()
        }
        return StateManager(
            task,
            task_type,
            exactly_once=self.application.configs.exactly_once,
            directory=self.directory,
            stores=graph.stores,
            changelogs=changelogs,
            source_changelogs=source_changelogs(task, graph),
            compacted_changelogs=frozenset(
                TopicPartition(topic, task.partition) for topic in self._compacted_changelogs(graph)
            ),
            rocksdb_config_setter=self.application.configs.rocksdb_config_setter,
            window_retentions_ms=graph.window_retentions_ms,
        )
