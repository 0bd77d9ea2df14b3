"""The states of tasks and of an instance, by Kafka's names.

Source: `Task.TaskType`, `Task.State`; `KafkaStreams.State`, `KafkaStreams.StateListener`.
"""

from collections.abc import Callable
from enum import StrEnum


class TaskType(StrEnum):
    ACTIVE = "active"
    STANDBY = "standby"


class TaskState(StrEnum):
    """The states of a task: CREATED -> RESTORING -> RUNNING -> SUSPENDED -> CLOSED. `tasks.task` has all
    transitions.
    """

    CREATED = "created"
    RESTORING = "restoring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class RestoreOrigin(StrEnum):
    """The stored data with which the restore of an active task starts: a standby's open stores, a checkpoint on disk,
    or no data.
    """

    STANDBY = "standby"
    CHECKPOINT = "checkpoint"
    BEGINNING = "beginning"


class InstanceState(StrEnum):
    """CREATED -> REBALANCING <-> RUNNING -> PENDING_SHUTDOWN -> NOT_RUNNING. The last state is ERROR if an error ended
    the instance.

    Differs from Kafka: there is no state PENDING_ERROR. An error of a state listener is logged, and does not end a
    thread.
    """

    CREATED = "created"
    REBALANCING = "rebalancing"
    RUNNING = "running"
    PENDING_SHUTDOWN = "pending-shutdown"
    NOT_RUNNING = "not-running"
    ERROR = "error"


StateListener = Callable[[InstanceState, InstanceState], object]
"""A function that is called with the new state and the old state. The calling thread of the instance waits for the
function, which may call the instance.
"""
