"""What a stream thread sees of a task, active or standby, and the states a task goes through.

    CREATED -> RESTORING -> RUNNING -> SUSPENDED -> CLOSED        (a standby is RUNNING as soon as it is initialised)

Any state may go to SUSPENDED, from there to CLOSED, and, revived after corruption, to CREATED. Illegal steps are
errors that tell the task's story. Source: `Task`, `AbstractTask`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from assignor.types import TaskId, TopicPartition
from streams_runtime.state_stores.base import StateStore
from streams_runtime.task_states import TaskState, TaskType


class Task(Protocol):
    """Every call is made by the task's own stream thread; times are milliseconds."""

    @property
    def id(self) -> TaskId: ...

    @property
    def type(self) -> TaskType: ...

    @property
    def state(self) -> TaskState: ...

    @property
    def input_partitions(self) -> frozenset[TopicPartition]: ...

    @property
    def changelog_partitions(self) -> frozenset[TopicPartition]: ...

    @property
    def stores(self) -> Mapping[str, StateStore]:
        """Open stores, by name: for queries."""
        ...

    def initialize_if_needed(self) -> None:
        """CREATED: lock the directory, open the stores, read the checkpoint, register changelogs.

        Raises LockError (try again in a later pass), LogTimeout, TaskCorrupted, ProcessorStateError.
        """
        ...

    def changelog_offsets(self) -> Mapping[TopicPartition, int]:
        """What is reported to the leader: next offset of each changelog; LATEST_OFFSET for each of a running active."""
        ...

    def commit_needed(self) -> bool: ...

    def commit_requested(self) -> bool: ...

    def prepare_commit(self) -> Mapping[TopicPartition, int]:
        """Everything this task sent is with the producer; the offsets to commit, empty when there is nothing to."""
        ...

    def post_commit(self, *, enforce_checkpoint: bool) -> None:
        """The commit is done: checkpoint, by the rules of the guarantee."""
        ...

    def suspend(self) -> None:
        """No more records; user processors are closed. Idempotent."""
        ...

    def resume(self) -> None:
        """SUSPENDED and assigned again: back to RESTORING (active) or RUNNING (standby)."""
        ...

    def close_clean(self) -> None:
        """SUSPENDED and committed: checkpoint, close the stores, unlock."""
        ...

    def close_dirty(self) -> None:
        """After an error: never raises; under exactly-once the state on disk is wiped of its checkpoint."""
        ...

    def update_input_partitions(self, partitions: frozenset[TopicPartition]) -> None: ...

    def mark_changelogs_corrupted(self, partitions: Collection[TopicPartition]) -> None:
        """Their checkpoints are dropped, so that they are restored from the beginning."""
        ...

    def revive(self) -> None:
        """CLOSED to CREATED, after corruption."""
        ...
