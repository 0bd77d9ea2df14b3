"""The assignor's view of its application: the tasks, the clients with their previous tasks, and the configs.

Each value is read from the placement problem when an assignor first uses the value. Source: `ApplicationState`,
`KafkaStreamsState`, `TaskInfo`, `TaskTopicPartition`, and `StreamsPartitionAssignor.buildApplicationState`.
"""

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
    """A source partition or a changelog partition of a task. If a source topic also serves as changelog, its partitions
    are both source and changelog partitions.

    `rack_ids`: the racks of the brokers with a replica; None if no racks are known. As in Kafka, if several tasks read
    the same partition, only one of these tasks has the racks of the partition. The rack-aware strategy swaps no tasks
    if the racks of a task's partition are missing.
    """

    topic_partition: TopicPartition
    is_source: bool
    is_changelog: bool
    rack_ids: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task of the application. `is_stateful`: True if the task has a store, with or without a changelog.
    `has_changelog`: True if one of the task's stores has a changelog. Kafka's `TaskInfo` has no field `has_changelog`,
    because Kafka checks the task's partitions instead. `TaskInfo` needs the field `has_changelog` here, because a
    placement/1 document may lack the task's partitions.
    """

    id: TaskId
    is_stateful: bool
    has_changelog: bool
    state_store_names: frozenset[str]
    topic_partitions: tuple[TaskTopicPartition, ...]


@dataclass(frozen=True, slots=True)
class KafkaStreamsState:
    """A process before the rebalance. All collections of tasks are sorted. A lag is LATEST_OFFSET, UNKNOWN_OFFSET_SUM
    (`assignor.types`) or a number of records.
    """

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
        """The member ids of the process's threads, sorted."""
        return self._client.consumers

    @property
    def previous_active_tasks(self) -> tuple[TaskId, ...]:
        """The tasks that ran on this process, sorted; tasks that no longer exist are included."""
        return tuple(sorted(self._client.previous_active))

    @property
    def previous_standby_tasks(self) -> tuple[TaskId, ...]:
        """The tasks that had standbys on this process, sorted; tasks that no longer exist are included."""
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
        """Returns the lag of this process on the task. Raises UnsupportedOperationError if the state was made without
        lags, and IllegalStateError if the task has no lag.
        """
        self._check_lags()
        return self._client.lags.lag_for(task)

    def prev_tasks_by_lag(self, consumer_client_id: str) -> tuple[TaskId, ...]:
        """Returns the stateful tasks that this consumer reported, smallest lag first. Raises UnsupportedOperationError
        if the state was made without lags.
        """
        self._check_lags()
        lags = self._client.lags
        reported = self._client.reported_tasks.get(consumer_client_id, ())
        return tuple(sorted({task for task in reported if task in lags}, key=lambda task: (lags.lag_for(task), task)))

    def stateful_tasks_to_lag_sums(self) -> dict[TaskId, int]:
        """Returns the lag of this process on each task that has a changelog. Raises UnsupportedOperationError if the
        state was made without lags.
        """
        self._check_lags()
        return {task: self._client.lags.lag_for(task) for task in sorted(self._client.lags)}

    def _check_lags(self) -> None:
        if not self._has_lags:
            raise UnsupportedOperationError(
                f"Lag computation was not requested for KafkaStreamsState with process {self.process_id}"
            )


@dataclass(frozen=True)
class ApplicationState:
    """The input of an assignor. `problem`: the placement problem, from the pipeline or from a recorded line
    (`parse_placement`). `log`: the log of decisions, to which the assignor may append its reasons. Tasks and clients
    are in the order of the leader's Java maps. Kafka's own assignors break ties by the order of tasks and clients.
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
        """Returns the state of each process. `compute_task_lags`: True if the returned states should have lags. If
        `compute_task_lags` is False, the lag methods of the returned states raise UnsupportedOperationError. If the
        leader could not read the end offsets of changelogs, every lag is UNKNOWN_OFFSET_SUM.
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
        """True if the task has a store. This method is faster than `TaskInfo.is_stateful`, because it creates no
        `TaskInfo`.
        """
        names = self.problem.store_names
        return task in self._with_changelog if names is None else bool(names.get(task.subtopology))

    def _task_info(
        self, task: TaskId, known: RackInformation, looked_up: set[tuple[TopicPartition, bool, bool]]
    ) -> TaskInfo:
        """Creates the `TaskInfo` of a task. `looked_up`: the partitions of the tasks whose `TaskInfo` was created
        earlier; this method adds the partitions of `task`. If several tasks read a partition, the racks of the
        partition are looked up for the first task only. Kafka also gives racks only to the first of these tasks,
        because Kafka keeps partitions in a set.
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
