"""What one thread tells the leader about how far its copies of tasks are.

Rules:
- A running active task with changelogs is LATEST_OFFSET, and nothing else is: a task that restores is reported by what
  it has restored, like a standby, so that only who really runs a task counts as its previous owner.
- A copy in memory is told by its positions, a closed one on disk by its checkpoint; what is corrupt, or has no
  checkpoint, is not told at all.
- On disk a thread answers only for directories that it could lock when the rebalance started, so that of several
  threads exactly one tells of each. What it was not assigned is unlocked when the round is over.
- Sums that leave Java's long are JAVA_LONG_MAX.

Source: `TaskManager.taskOffsetSums`, `tryToLockAllNonEmptyTaskDirectories`, `releaseLockedUnassignedTaskDirectories`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, TaskId, TopicPartition
from streams_runtime.errors import LockError
from streams_runtime.task_states import TaskState, TaskType
from streams_runtime.tasks.checkpoint_file import next_offsets
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.task import Task


class OffsetReport:
    """One a stream thread, used by it alone."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._locked: dict[TaskId, Mapping[TopicPartition, int]] = {}

    def lock_directories(self, initialised: Container[TaskId]) -> None:
        """A rebalance starts: claim every directory with state that no other thread has. Idempotent.

        `initialised`: tasks that have locked their directory on their own, and know better than the disk.
        """
        for task in self._directory.non_empty_task_directories():
            if task in initialised or task in self._locked or not self._lock(task):
                continue
            if self._directory.is_empty(task):  # the cleaner was here between the two calls
                self._directory.unlock(task)
            else:
                self._locked[task] = next_offsets(self._directory.checkpointed_offsets(task) or {})

    def release_directories(self, own: Iterable[Task]) -> None:
        """The round is over: unlock what was not assigned to this thread."""
        kept = {task.id for task in own}
        for task in [task for task in self._locked if task not in kept]:
            self._directory.unlock(task)
        self._locked.clear()  # the tasks' own from here on

    def forget(self, task: TaskId) -> None:
        """The task was closed, and its directory with it."""
        self._locked.pop(task, None)
        self._directory.unlock(task)

    def sums(self, tasks: Iterable[Task]) -> dict[TaskId, int]:
        """By task; those of which nothing is known are left out."""
        reported: dict[TaskId, int] = {task: sum_of(offsets) for task, offsets in self._locked.items() if offsets}
        for task in tasks:
            if task.state in (TaskState.CREATED, TaskState.CLOSED) or not task.changelog_partitions:
                continue  # nothing read yet: what is on disk is told above
            if task.type is TaskType.ACTIVE and task.state is TaskState.RUNNING:
                reported[task.id] = LATEST_OFFSET
            else:
                reported[task.id] = sum_of(task.changelog_offsets())
        return reported

    def _lock(self, task: TaskId) -> bool:
        try:
            return self._directory.lock(task)
        except LockError:  # another process: then it answers for it
            return False


def sum_of(offsets: Mapping[TopicPartition, int]) -> int:
    """Negative offsets say that nothing is known and count as 0."""
    return min(sum(offset for offset in offsets.values() if offset > 0), JAVA_LONG_MAX)
