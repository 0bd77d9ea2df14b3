"""The words that say what a task is on its thread: its type, its state, and what its state stores started from.

Source: `Task.TaskType`, `Task.State`.
"""

from __future__ import annotations

from enum import StrEnum


class TaskType(StrEnum):
    ACTIVE = "active"
    STANDBY = "standby"


class TaskState(StrEnum):
    """CREATED -> RESTORING -> RUNNING -> SUSPENDED -> CLOSED; every step is in `TaskLifecycle`."""

    CREATED = "created"
    RESTORING = "restoring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class RestoreOrigin(StrEnum):
    """What an active task started from: stores that a standby had open, state on disk, or nothing."""

    STANDBY = "standby"
    CHECKPOINT = "checkpoint"
    BEGINNING = "beginning"
