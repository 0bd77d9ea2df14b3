"""What an assignor sees of its application: the tasks, the clients with what they had, and the configs.

All of it is read from the placement problem when it is asked for. Source: `ApplicationState`, `KafkaStreamsState`,
`TaskInfo`, `TaskTopicPartition`, and `StreamsPartitionAssignor.buildApplicationState`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from assignor.configs import AssignmentConfigs
from assignor.errors import UnsupportedOperationError
from assignor.java.hash_codes import task_hash
from assignor.java.order import hash_set_order
from assignor.task_assignors.base import PlacementClient, PlacementProblem, RackInformation
from assignor.task_assignors.decisions import DecisionLog
from assignor.types import HostInfo, ProcessId, TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class TaskTopicPartition:
    """A partition that a task reads, or logs its stores to; a source topic that serves as changelog is both.

    `rack_ids`: of the brokers that have a replica of it; None when nothing is known of them. As in Kafka, of tasks that
    read the same partition only one knows the racks, and so no task is swapped to save traffic.
    """

    topic_partition: TopicPartition
    is_source: bool
    is_changelog: bool
    rack_ids: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """`is_stateful`: it has a store, logged or not. `has_changelog`: one of its stores is logged; Kafka has no such
    field and looks at the partitions, which a placement/1 line may not have.
    """

    id: TaskId
    is_stateful: bool
    has_changelog: bool
    state_store_names: frozenset[str]
    topic_partitions: tuple[TaskTopicPartition, ...]


@dataclass(frozen=True, slots=True)
class KafkaStreamsState:
    """One process. Tasks are sorted. Lags are in records, with the sentinels of `assignor.types`."""

    _client: PlacementClient
    _has_lags: bool

    @property
    def process_id(self) -> ProcessId:
        return self._client.process_id

    @property
    def num_processing_threads(self) -> int:
        return self._client.capacity

    @property
    def consumer_client_ids(self) -> tuple[str, ...]:
        """The member ids of its threads, sorted."""
        return self._client.consumers

    @property
    def previous_active_tasks(self) -> tuple[TaskId, ...]:
        """Some may no longer be tasks of the application."""
        return tuple(sorted(self._client.previous_active))

    @property
    def previous_standby_tasks(self) -> tuple[TaskId, ...]:
        """Some may no longer be tasks of the application."""
        return tuple(sorted(self._client.previous_standby))

    @property
    def host_info(self) -> HostInfo | None:
        return self._client.host

    @property
    def client_tags(self) -> Mapping[str, str]:
        return self._client.tags

    @property
    def rack_id(self) -> str | None:
        return self._client.rack

    def lag_for(self, task: TaskId) -> int:
        """Raises UnsupportedOperationError when no lags were asked for, IllegalStateError for a task without any."""
        self._check_lags()
        return self._client.lags.lag_for(task)

    def prev_tasks_by_lag(self, consumer_client_id: str) -> tuple[TaskId, ...]:
        """The stateful tasks that this consumer reported, smallest lag first. Raises UnsupportedOperationError."""
        self._check_lags()
        lags = self._client.lags
        reported = self._client.reported_tasks.get(consumer_client_id, ())
        return tuple(sorted({task for task in reported if task in lags}, key=lambda task: (lags.lag_for(task), task)))

    def stateful_tasks_to_lag_sums(self) -> dict[TaskId, int]:
        """Of every task with a changelog. Raises UnsupportedOperationError."""
        self._check_lags()
        return {task: self._client.lags.lag_for(task) for task in sorted(self._client.lags)}

    def _check_lags(self) -> None:
        if not self._has_lags:
            raise UnsupportedOperationError(
                f"Lag computation was not requested for KafkaStreamsState with process {self.process_id}"
            )


@dataclass(frozen=True)
class ApplicationState:
    """`problem`: what the pipeline asks, or `parse_placement` reads of a recorded line. `log`: takes the reasons of the
    assignor, if it gives any. Tasks and clients are in the order of the leader's Java maps, by which Kafka's own
    assignor breaks ties.
    """

    problem: PlacementProblem
    log: DecisionLog = field(default_factory=DecisionLog)

    @property
    def assignment_configs(self) -> AssignmentConfigs:
        return self.problem.configs

    @cached_property
    def all_tasks(self) -> Mapping[TaskId, TaskInfo]:
        known = self.problem.racks or RackInformation()
        looked_up: set[tuple[TopicPartition, bool, bool]] = set()
        tasks = {task: self._task_info(task, known, looked_up) for task in self.problem.tasks}
        return {task: tasks[task] for task in hash_set_order(self.problem.tasks, task_hash)}

    def kafka_streams_states(self, compute_task_lags: bool = False) -> Mapping[ProcessId, KafkaStreamsState]:
        """`compute_task_lags`: whether they can be asked for lags. When the leader could not read where changelogs end,
        every lag is UNKNOWN_OFFSET_SUM.
        """
        return self._states_with_lags if compute_task_lags else self._states_without_lags

    @cached_property
    def _states_with_lags(self) -> Mapping[ProcessId, KafkaStreamsState]:
        return {process: KafkaStreamsState(client, True) for process, client in self.problem.clients.items()}

    @cached_property
    def _states_without_lags(self) -> Mapping[ProcessId, KafkaStreamsState]:
        return {process: KafkaStreamsState(client, False) for process, client in self.problem.clients.items()}

    @cached_property
    def _with_changelog(self) -> frozenset[TaskId]:
        return frozenset(self.problem.stateful_tasks)

    def is_stateful(self, task: TaskId) -> bool:
        """Whether a task of the application has a store. Without `TaskInfo`, which takes longer to make."""
        names = self.problem.store_names
        return task in self._with_changelog if names is None else bool(names.get(task.subtopology))

    def _task_info(
        self, task: TaskId, known: RackInformation, looked_up: set[tuple[TopicPartition, bool, bool]]
    ) -> TaskInfo:
        """`looked_up`: partitions of the tasks before. One that several tasks read is looked up for the first of them
        only: Kafka gathers equal partitions in a set, and says the racks to those that are in it.
        """
        changelogs = known.changelog_partitions.get(task, ())
        sources = known.task_partitions.get(task, ())
        kinds = [(each, True, each in changelogs) for each in sources]
        kinds += [(each, False, True) for each in changelogs if each not in sources]
        partitions = [
            TaskTopicPartition(*kind, None if kind in looked_up else known.known_racks_of(kind[0])) for kind in kinds
        ]
        looked_up.update(kinds)
        stores = (self.problem.store_names or {}).get(task.subtopology, frozenset())
        return TaskInfo(task, self.is_stateful(task), task in self._with_changelog, stores, tuple(partitions))
