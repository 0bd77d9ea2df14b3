"""Snapshots of a stream thread and of its instance, for other threads.

The stream thread makes its snapshot between two passes of its loop.

Rule: other threads read the last snapshot whole. Only the stream thread touches its tasks. Source: `ThreadMetadata`,
`TaskMetadata`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assignor.types import HostInfo, ProcessId, TaskId, TopicPartition
from streams_runtime.common.states import InstanceState, TaskState, TaskType
from streams_runtime.state_stores.base import StateStore
from streams_runtime.task_manager.tasks import AnyTask


class ThreadState(StrEnum):
    """Source: `StreamThread.State`."""

    CREATED = "created"
    STARTING = "starting"
    PARTITIONS_REVOKED = "partitions-revoked"
    PARTITIONS_ASSIGNED = "partitions-assigned"
    RUNNING = "running"
    PENDING_SHUTDOWN = "pending-shutdown"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """`lag`: changelog records that this copy is behind; 0 for a running active task, None when not known yet.

    `restored`, `processed`: the number of changelog records and of input records since the task was assigned. `stores`:
    open ones of a task that restores or runs; a store that was closed meanwhile refuses to be read. `store_lags`: as
    `lag`, of each of these.
    """

    task_id: TaskId
    role: TaskType
    state: TaskState
    lag: int | None
    restored: int
    processed: int
    stores: Mapping[str, StateStore] = field(default_factory=dict, repr=False)
    store_lags: Mapping[str, int | None] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ThreadStatus:
    """`tasks`: in order of their ids, active before standby. `generation_id` 0: nothing was assigned yet.

    `processed`, `dropped`, `passed_over`: input records since the thread started. Passed over are those that the log
    had deleted before the group read them.
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
    """All threads of an instance. `endpoint`: where it answers queries, None when it does not."""

    application_id: str
    process_id: ProcessId | None
    state: InstanceState
    endpoint: HostInfo | None
    threads: tuple[ThreadStatus, ...]


def task_status(task: AnyTask, lags: Mapping[TopicPartition, int], restored: int, processed: int) -> TaskStatus:
    """`lags`: of the changelogs that the thread is reading."""
    stores = dict(task.stores) if task.state in (TaskState.RESTORING, TaskState.RUNNING) else {}
    changelogs = task.state_manager.store_changelogs
    return TaskStatus(
        task.id,
        task.type,
        task.state,
        _lag(task, task.changelog_partitions, lags),
        restored,
        processed,
        stores,
        {store: _lag(task, (changelogs.get(store),), lags) for store in stores},
    )


def _lag(task: AnyTask, changelogs: Iterable[TopicPartition | None], lags: Mapping[TopicPartition, int]) -> int | None:
    """`changelogs`: None for a store without one, which follows no other copy: only the running active task's lag is
    known.
    """
    if task.type is TaskType.ACTIVE and task.state is TaskState.RUNNING:
        return 0
    if task.state is TaskState.CREATED:
        return None
    known = [None if changelog is None else lags.get(changelog) for changelog in changelogs]
    return None if None in known else sum(lag for lag in known if lag is not None)
