"""The data that the query server of an instance shows. The data comes from the snapshots that the stream threads of the
instance publish.

Rule: while a thread's snapshot stays the same, the thread reopens no store of its tasks. So a read of a store is valid
if two conditions are true after the read. The store must be open, and the snapshot that contains the store must still
be the newest. Threads publish new snapshots a few times a second. After a thread has closed a store, it always
publishes a snapshot before it opens the store again.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import Protocol

from assignor.topology.definition import SinkNode
from assignor.topology.source_patterns import reads_topic
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.common.notices import NoticeBoard
from streams_runtime.common.states import GLOBAL_TASK
from streams_runtime.instance.application import Application
from streams_runtime.instance.thread_status import InstanceStatus, OpenTask, TaskStatus
from streams_runtime.logs.base import IsolationLevel, Log
from streams_runtime.logs.log_errors import LogError
from streams_runtime.membership.member_events import PartitionHosts
from streams_runtime.processors.graph import serde_topic
from streams_runtime.processors.runtime import SinkSettings
from streams_runtime.queries.store_metadata import StoreCopy, StoreLocation
from streams_runtime.state_stores.builders import builder_for_topic


class ShownInstance(Protocol):
    """The part of a `StreamsInstance` that its query server shows. Any thread may call the methods of
    `ShownInstance`.
    """

    application: Application
    metrics: InstanceMetrics
    notices: NoticeBoard

    def status(self) -> InstanceStatus: ...

    def metadata(self) -> PartitionHosts: ...

    def copies(self) -> tuple[OpenTask, ...]: ...


class InstanceView:
    """Implements `Queryable`. `log`: the log in which partition counts are looked up. The caller closes the log."""

    def __init__(self, instance: ShownInstance, log: Log) -> None:
        self._instance = instance
        self._log = log
        self._stores = _stores(instance.application)
        self._subtopologies = {each.id: each for each in instance.application.group_topology().subtopologies}
        self._partitions: dict[str, int] = {}

    @property
    def application_id(self) -> str:
        return self._instance.application.id

    def isolation_level(self, chosen: IsolationLevel | None) -> IsolationLevel:
        configs = self._instance.application.configs
        if not configs.enable_transactional_statestores:  # such stores also write what is not committed yet
            return IsolationLevel.READ_UNCOMMITTED
        return configs.query_isolation_level if chosen is None else chosen

    def store_locations(self) -> Mapping[str, StoreLocation]:
        topics = {name: (*store.source_topics, *self._matching_topics(store)) for name, store in self._stores.items()}
        partitions = self._known_partitions({topic for of_store in topics.values() for topic in of_store})
        return {
            name: replace(store, source_topics={topic: partitions.get(topic, 0) for topic in topics[name]})
            for name, store in self._stores.items()
        }

    def store_copies(self, store: str) -> list[StoreCopy]:
        return [
            StoreCopy(task.task_id, task.role, task.state, task.stores[store], task.lags.get(store), task)
            for task in self._instance.copies()
            if store in task.stores
        ]

    def generation_id(self) -> int:
        return max((thread.generation_id for thread in self._instance.status().threads), default=0)

    def host_maps(self) -> PartitionHosts:
        return self._instance.metadata()

    def status_document(self) -> Mapping[str, object]:
        status = self._instance.status()
        return {
            "application_id": status.application_id,
            "process_id": None if status.process_id is None else str(status.process_id),
            "state": str(status.state),
            "endpoint": None if status.endpoint is None else str(status.endpoint),
            "notices": [notice.document() for notice in self._instance.notices.newest()],
            "threads": [
                {
                    "name": thread.name,
                    "state": str(thread.state),
                    "member_id": thread.member_id,
                    "generation_id": thread.generation_id,
                    "processed": thread.processed,
                    "dropped": thread.dropped,
                    "passed_over": thread.passed_over,
                    "tasks": [_task_document(task) for task in thread.tasks],
                }
                for thread in status.threads
            ],
        }

    def metrics_text(self) -> bytes:
        return self._instance.metrics.exposition()

    def _matching_topics(self, store: StoreLocation) -> Iterable[str]:
        """Returns the assigned topics that match a source pattern of the store's subtopology."""
        subtopology = self._subtopologies.get(store.subtopology)
        if subtopology is None or not subtopology.source_patterns:
            return ()
        assigned = {partition.topic for each in self.host_maps().active.values() for partition in each}
        return sorted(topic for topic in assigned if reads_topic(subtopology, topic))

    def _known_partitions(self, wanted: Set[str]) -> Mapping[str, int]:
        """Returns the partition counts of the stores' source topics.

        The counts do not change while the group runs. So the counts are not looked up again after all of them are
        known.
        """
        if not wanted <= self._partitions.keys():
            try:
                known = self._log.topics()
            except LogError:
                return self._partitions
            self._partitions = {topic: known[topic].partitions for topic in wanted if topic in known}
        return self._partitions


def _stores(application: Application) -> dict[str, StoreLocation]:
    """Returns the location of every store. Each partition count is 0, because the counts are not known yet."""
    definition = application.topology.definition()
    placed = {
        definition.full_topic(sink.topic, application.id)
        for sink in definition.nodes.values()
        if isinstance(sink, SinkNode) and _has_partitioner(sink)
    }
    of_global = {
        store.name: StoreLocation(
            store.name,
            GLOBAL_TASK.subtopology,
            {},
            # `add_global_store` has checked the type of the supplier.
            builder=builder_for_topic(
                store.supplier,  # type: ignore[arg-type]
                definition.full_topic(store.topic, application.id),
            ),
            is_global=True,
        )
        for store in definition.global_stores.values()
    }
    return of_global | {
        store.name: StoreLocation(
            store.name,
            each.id,
            dict.fromkeys(each.source_topics, 0),
            not placed.isdisjoint(each.source_topics),
            # `add_state_store` has checked the type of the supplier.
            builder=builder_for_topic(
                definition.stores[store.name].supplier,  # type: ignore[arg-type]
                serde_topic(store, application.id),
            ),
        )
        for each in application.group_topology().subtopologies
        for store in each.stores
    }


def _has_partitioner(sink: SinkNode) -> bool:
    return isinstance(sink.supplier, SinkSettings) and sink.supplier.partitioner is not None


def _task_document(task: TaskStatus) -> dict[str, object]:
    return {
        "task": str(task.task_id),
        "role": str(task.role),
        "state": str(task.state),
        "lag": task.lag,
        "restored": task.restored,
        "processed": task.processed,
    }
