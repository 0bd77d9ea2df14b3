"""The states of tasks and of an instance, by Kafka's names.

Source: `Task.TaskType`, `Task.State`; `KafkaStreams.State`, `KafkaStreams.StateListener`.
"""

from collections.abc import Callable
from enum import StrEnum

from assignor.types import TaskId

GLOBAL_TASK = TaskId(-1, -1)
"""The id of the task that fills the global stores of an instance. The group does not know this task."""


class TaskType(StrEnum):
    ACTIVE = "active"
    STANDBY = "standby"


class TaskState(StrEnum):
    """The states of a task: CREATED -> RESTORING -> RUNNING -> SUSPENDED -> CLOSED. The module `tasks.task` defines all
    transitions.
    """

    CREATED = "created"
    RESTORING = "restoring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class RestoreOrigin(StrEnum):
    """The data with which the restore of an active task begins: a standby's open stores, a checkpoint on disk, or no
    data.
    """

    STANDBY = "standby"
    CHECKPOINT = "checkpoint"
    BEGINNING = "beginning"


class InstanceState(StrEnum):
    """The states of an instance: CREATED -> REBALANCING <-> RUNNING -> PENDING_SHUTDOWN -> NOT_RUNNING. If an error
    ends the instance, the last state is ERROR.

    Differs from Kafka: there is no state PENDING_ERROR. If a state listener raises an error, the error is logged, and
    the thread continues.
    """

    CREATED = "created"
    REBALANCING = "rebalancing"
    RUNNING = "running"
    PENDING_SHUTDOWN = "pending-shutdown"
    NOT_RUNNING = "not-running"
    ERROR = "error"


StateListener = Callable[[InstanceState, InstanceState], object]
"""The type of a function that is called with the new state and the old state. The function may call the instance. The
thread that changed the state waits until the function returns.
"""
