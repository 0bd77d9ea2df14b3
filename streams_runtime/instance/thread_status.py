"""Snapshots of a stream thread and of its instance. A stream thread makes a snapshot between two passes of its loop.
Rule: only the stream thread itself uses its Streams tasks. Other threads read the last complete snapshot. Source:
`ThreadMetadata`, `TaskMetadata`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from assignor.types import HostInfo, ProcessId, TaskId, TopicPartition
from streams_runtime.common.states import InstanceState, TaskState, TaskType
from streams_runtime.state_stores.state_store import StateStore
from streams_runtime.tasks.task import Task


class ThreadState(StrEnum):
    """The state of a stream thread. Source: `StreamThread.State`."""

    CREATED = "created"
    STARTING = "starting"
    PARTITIONS_REVOKED = "partitions-revoked"
    PARTITIONS_ASSIGNED = "partitions-assigned"
    RUNNING = "running"
    PENDING_SHUTDOWN = "pending-shutdown"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The status of one task in a snapshot. `lag`: the number of changelog offsets by which the task's stores are
    behind. The lag is 0 for a running active task, and None if it is not known yet. `restored`: the number of changelog
    records that were applied since the task was assigned. `processed`: the number of input records that were processed
    since the task was assigned.
    """

    task_id: TaskId
    role: TaskType
    state: TaskState
    lag: int | None
    restored: int
    processed: int


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task with its open stores. A read of a store raises InvalidStateStore if the store was closed after the
    snapshot.

    `lags`: the lag of each store; None for a store whose lag is not known.
    """

    task_id: TaskId
    role: TaskType
    state: TaskState
    stores: Mapping[str, StateStore]
    lags: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class ThreadStatus:
    """The status of one stream thread.

    `tasks`: the active tasks in the order of their ids, and then the standbys in the order of their ids.
    `generation_id`: the generation of the group; 0 before the first assignment. `processed`: the number of input
    records that were processed since the thread started. `dropped`: the number of input records that were dropped.
    `passed_over`: the number of input records that the log has deleted although the group has not read them.
    """

    name: str
    state: ThreadState
    member_id: str
    generation_id: int
    tasks: tuple[TaskStatus, ...]
    processed: int = 0
    dropped: int = 0
    passed_over: int = 0


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The status of an instance with all its threads. `endpoint`: the address for queries; None if the instance answers
    no queries.
    """

    application_id: str
    process_id: ProcessId | None
    state: InstanceState
    endpoint: HostInfo | None
    threads: tuple[ThreadStatus, ...]


def task_status(task: Task, lags: Mapping[TopicPartition, int], restored: int, processed: int) -> TaskStatus:
    """Returns the status of a task. `lags`: the lags of the changelogs that the thread reads."""
    return TaskStatus(task.id, task.type, task.state, _lag(task, task.changelog_partitions, lags), restored, processed)


def open_task(
    task: Task, changelogs: Mapping[str, TopicPartition | None], lags: Mapping[TopicPartition, int]
) -> OpenTask:
    """Returns the open stores of a task with their lags. For a store without a changelog, the lag is 0 if the task is
    active and running. Otherwise, this lag is None.

    `changelogs`: the changelog of each store. `lags`: the lags of the changelogs that the thread reads.
    """
    store_lags = {store: _store_lag(task, changelogs.get(store), lags) for store in task.stores}
    return OpenTask(task.id, task.type, task.state, dict(task.stores), store_lags)


def _store_lag(task: Task, changelog: TopicPartition | None, lags: Mapping[TopicPartition, int]) -> int | None:
    if changelog is not None:
        return _lag(task, (changelog,), lags)
    return 0 if _is_current(task) else None


def _lag(task: Task, partitions: Iterable[TopicPartition], lags: Mapping[TopicPartition, int]) -> int | None:
    if _is_current(task):
        return 0
    if task.state is TaskState.CREATED:
        return None
    known = [lags.get(partition) for partition in partitions]
    return None if None in known else sum(lag for lag in known if lag is not None)


def _is_current(task: Task) -> bool:
    return task.type is TaskType.ACTIVE and task.state is TaskState.RUNNING
