"""What a stream thread sees of a task, active or standby.

    CREATED -> RESTORING -> RUNNING -> SUSPENDED -> CLOSED        (a standby is RUNNING as soon as it is initialised)

Every state may go to SUSPENDED and from there to CLOSED. A closed task that was corrupt is revived: it is CREATED
again. Source: `Task`, `AbstractTask`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.state_stores.base import StateStore


class Task(Protocol):
    """Only the task's own stream thread calls it. Times are milliseconds."""

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
        """The open stores, by name: for queries."""
        ...

    def initialize_if_needed(self) -> None:
        """Of a CREATED task: lock the directory, open the stores, read the checkpoint.

        Raises LockError (try again in a later pass), LogTimeout, TaskCorrupted, ProcessorStateError.
        """
        ...

    def changelog_offsets(self) -> Mapping[TopicPartition, int]:
        """What the leader is told of each changelog: the next offset, or LATEST_OFFSET of a running active task."""
        ...

    def commit_needed(self) -> bool: ...

    def commit_requested(self) -> bool: ...

    def prepare_commit(self) -> Mapping[TopicPartition, int]:
        """The input offsets to commit; empty when there are none. What the task sent is with the producer."""
        ...

    def post_commit(self, *, enforce_checkpoint: bool) -> None:
        """The commit is done: write a checkpoint, by the rules of the processing guarantee."""
        ...

    def suspend(self) -> None:
        """Take no more records, and close the user's processors. Idempotent."""
        ...

    def resume(self) -> None:
        """A SUSPENDED task is assigned again: it is RESTORING (active) or RUNNING (standby)."""
        ...

    def close_clean(self) -> None:
        """Of a task that is SUSPENDED and committed: write a checkpoint, close the stores, unlock the directory."""
        ...

    def close_dirty(self) -> None:
        """After an error: close without committing, and never raise. Under exactly-once, delete the state on disk."""
        ...

    def update_input_partitions(self, partitions: frozenset[TopicPartition]) -> None: ...

    def mark_changelogs_corrupted(self, partitions: Collection[TopicPartition]) -> None:
        """Drop their checkpoints, so that they are restored from the beginning."""
        ...

    def revive(self) -> None:
        """Make a CLOSED task CREATED again, after corruption."""
        ...
