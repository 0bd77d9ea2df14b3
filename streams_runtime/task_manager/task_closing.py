"""The ways in which a task ends, or starts over.

Rules:
- Clean: it was committed; its checkpoint is written, its stores are closed, its directory is unlocked.
- Dirty: after an error or a migration; nothing is committed, no error comes out, and what cannot be trusted any more is
  gone from disk.
- Dirty and revived: the same task begins again in this thread; when its state was corrupt, from its changelogs' start.
- Before a task's stores go, the changelog reader and queries have let go of them.

Source: `TaskManager.closeTaskClean`, `closeTaskDirty`, `closeDirtyAndRevive`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from assignor.types import TaskId
from streams_runtime.restore.changelog_reader import ChangelogReader
from streams_runtime.task_manager.tasks import AnyTask, Tasks
from streams_runtime.task_states import TaskState, TaskType
from streams_runtime.tasks.offset_sums import OffsetReport
from streams_runtime.tasks.task_errors import with_task

_logger = logging.getLogger(__name__)


class TaskCloser:
    """Closes tasks of one thread and takes them out of its bookkeeping."""

    def __init__(self, tasks: Tasks, reader: ChangelogReader, report: OffsetReport) -> None:
        self._tasks = tasks
        self._reader = reader
        self._report = report

    def suspend(self, task: AnyTask) -> None:
        """No more records and no more restoring. Raises what the user's processors raise when they are closed."""
        self._reader.unregister(task.changelog_partitions)
        task.suspend()

    def close_clean(self, tasks: Iterable[AnyTask], errors: dict[TaskId, Exception]) -> None:
        """Close committed tasks; one that fails is closed dirty, and its first error kept in `errors`."""
        for task in tasks:
            try:
                self.suspend(task)
                if task.type is TaskType.STANDBY:
                    task.post_commit(enforce_checkpoint=True)
                task.close_clean()
            except Exception as error:
                _logger.exception("task %s could not be closed cleanly", task.id)
                errors.setdefault(task.id, with_task(error, task.id))
                self.close_dirty(task)
            else:
                self.remove(task)

    def close_dirty(self, task: AnyTask) -> None:
        """Never raises."""
        if task.state is not TaskState.CLOSED:
            try:
                self.suspend(task)
            except Exception:
                _logger.warning("task %s is closed dirty; suspending it failed", task.id, exc_info=True)
            task.close_dirty()
        self.remove(task)

    def close_dirty_and_revive(self, tasks: Iterable[AnyTask], *, corrupted: bool) -> None:
        """Have them start over, still of this thread. `corrupted`: their state goes first. Never raises."""
        for task in tasks:
            if corrupted:
                try:
                    task.mark_changelogs_corrupted(task.changelog_partitions)
                except Exception:
                    _logger.warning("changelogs of task %s could not be marked as corrupt", task.id, exc_info=True)
            self.close_dirty(task)
            task.revive()
            if task.type is TaskType.ACTIVE:
                self._tasks.active[task.id] = task  # type: ignore[assignment]  # told by its type
            else:
                self._tasks.standby[task.id] = task  # type: ignore[assignment]

    def remove(self, task: AnyTask) -> None:
        """It is closed, or was never opened: nothing of it is held any more."""
        self._tasks.remove(task)
        self._report.forget(task.id)
