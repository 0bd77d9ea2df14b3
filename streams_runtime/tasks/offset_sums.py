"""What one thread reports to the leader: how far its copies of tasks have come, as one sum of offsets per task.

Rules:
- Only a running active task with changelogs is reported as LATEST_OFFSET. A task that is restoring is reported by what
  it has restored, as a standby is, so that only a thread that really runs a task counts as its previous owner.
- The thread reports an open task by its positions, and a closed task on disk by its checkpoint. It does not report a
  task that is corrupt or has no checkpoint.
- Of the tasks on disk, a thread reports only those whose directories it could lock when the rebalance started, so that
  exactly one of several threads reports each. When the rebalance is over, it unlocks those it was not assigned. A
  thread that is assigned such a task earlier, because it joins faster, gets the directory at once.
- A sum larger than a Java long is reported as JAVA_LONG_MAX.

Source: `TaskManager.taskOffsetSums`, `tryToLockAllNonEmptyTaskDirectories`, `releaseLockedUnassignedTaskDirectories`.
Differs from Kafka: there, a thread waits for a directory that another thread reports until that one is assigned again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, TaskId, TopicPartition
from streams_runtime.common.errors import LockError
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.tasks.checkpoint_file import next_offsets
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.task import Task


class OffsetReport:
    """One per stream thread, which alone uses it."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._locked: dict[TaskId, Mapping[TopicPartition, int]] = {}

    @property
    def holds_directories(self) -> bool:
        """Whether it reports tasks on disk. Another thread may take one of their directories at any time."""
        return bool(self._locked)

    def lock_directories(self, initialised: Container[TaskId]) -> None:
        """A rebalance starts: lock every directory with state that no other thread has locked. Idempotent.

        `initialised`: tasks that have locked their own directories. They are newer than their checkpoints on disk.
        """
        for task in self._directory.non_empty_task_directories():
            if task in initialised or self._reports(task) or not self._lock(task):
                continue
            if self._directory.is_empty(task):  # the cleaner deleted the state between the two calls
                self._directory.unlock(task)
            else:
                self._locked[task] = next_offsets(self._directory.checkpointed_offsets(task))

    def release_directories(self, own: Iterable[Task]) -> None:
        """The rebalance is over: unlock directories of tasks that were not assigned to this thread."""
        kept = {task.id for task in own}
        for task in [task for task in self._locked if task not in kept]:
            self._directory.unlock(task)
        self._locked.clear()  # from here on the tasks hold the locks

    def unlock_directory(self, task: TaskId) -> None:
        """Unlock the directory of a task that is closed, or was never opened."""
        self._locked.pop(task, None)
        self._directory.unlock(task)

    def sums(self, tasks: Iterable[Task]) -> dict[TaskId, int]:
        """The sum of each task; a task without known offsets is left out."""
        reported: dict[TaskId, int] = {
            task: sum_of(offsets) for task, offsets in self._locked.items() if offsets and self._reports(task)
        }
        for task in tasks:
            if task.state in (TaskState.CREATED, TaskState.CLOSED) or not task.changelog_partitions:
                continue  # it has read nothing yet, and its checkpoint was reported above
            if task.type is TaskType.ACTIVE and task.state is TaskState.RUNNING:
                reported[task.id] = LATEST_OFFSET
            else:
                reported[task.id] = sum_of(task.changelog_offsets())
        return reported

    def _reports(self, task: TaskId) -> bool:
        """Whether this thread still holds the directory: another thread may have taken it for the task."""
        return task in self._locked and self._directory.holds(task)

    def _lock(self, task: TaskId) -> bool:
        try:
            return self._directory.lock(task, to_report=True)
        except LockError:  # another process has it, and reports it
            return False


def sum_of(offsets: Mapping[TopicPartition, int]) -> int:
    """A negative offset is unknown, and counts as 0."""
    return min(sum(offset for offset in offsets.values() if offset > 0), JAVA_LONG_MAX)
