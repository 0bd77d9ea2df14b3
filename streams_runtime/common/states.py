"""The states of tasks and of an instance, by Kafka's names.

Source: `Task.TaskType`, `Task.State`; `KafkaStreams.State`, `KafkaStreams.StateListener`.
"""

from collections.abc import Callable
from enum import StrEnum


class TaskType(StrEnum):
    ACTIVE = "active"
    STANDBY = "standby"


class TaskState(StrEnum):
    """The states: CREATED -> RESTORING -> RUNNING -> SUSPENDED -> CLOSED; `tasks.task` has all transitions."""

    CREATED = "created"
    RESTORING = "restoring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class RestoreOrigin(StrEnum):
    """The state from which an active task started: a standby's open stores, a checkpoint on disk, or no state."""

    STANDBY = "standby"
    CHECKPOINT = "checkpoint"
    BEGINNING = "beginning"


class InstanceState(StrEnum):
    """CREATED -> REBALANCING <-> RUNNING -> PENDING_SHUTDOWN -> NOT_RUNNING; or ERROR if an error ended the instance.

    Differs from Kafka: there is no PENDING_ERROR. An error of a state listener is logged, and ends no thread.
    """

    CREATED = "created"
    REBALANCING = "rebalancing"
    RUNNING = "running"
    PENDING_SHUTDOWN = "pending-shutdown"
    NOT_RUNNING = "not-running"
    ERROR = "error"


StateListener = Callable[[InstanceState, InstanceState], object]
"""A function of the new state and the old state. Threads of the instance call it and wait for it; it may call the
instance.
"""
