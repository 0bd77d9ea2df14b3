"""Closes tasks, and has corrupt ones start over.

Rules:
- A clean close is for a task that was committed. It writes the checkpoint, closes the stores and unlocks the directory.
- A dirty close follows an error or a migration. It commits nothing, raises nothing, and deletes state on disk that
  cannot be trusted any more.
- A task that is closed dirty and revived starts over in this thread; if its state was corrupt, from the beginning of
  its changelogs.
- The changelog reader lets go of a task's stores before they are closed.

Source: `TaskManager.closeTaskClean`, `closeTaskDirty`, `closeDirtyAndRevive`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from assignor.types import TaskId
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.restore.changelog_reader import ChangelogReader
from streams_runtime.task_manager.tasks import AnyTask, Tasks
from streams_runtime.tasks.offset_sums import OffsetReport
from streams_runtime.tasks.task import with_task

_logger = logging.getLogger(__name__)


class TaskCloser:
    """Closes tasks of one stream thread and takes them out of its lists."""

    def __init__(self, tasks: Tasks, reader: ChangelogReader, report: OffsetReport) -> None:
        self._tasks = tasks
        self._reader = reader
        self._report = report

    def suspend(self, task: AnyTask) -> None:
        """Stop processing and restoring. Raises what the user's processors raise when they are closed."""
        self._reader.unregister(task.changelog_partitions)
        task.suspend()

    def close_clean(self, tasks: Iterable[AnyTask], errors: dict[TaskId, Exception]) -> None:
        """Close committed tasks. When one fails, it is closed dirty, and `errors` keeps its first error."""
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
                _logger.warning("task %s could not be suspended and is closed dirty", task.id, exc_info=True)
            task.close_dirty()
        self.remove(task)

    def mark_corrupt(self, tasks: Iterable[AnyTask]) -> None:
        """Have the next close of these tasks delete their state. Never raises."""
        for task in tasks:
            try:
                task.mark_changelogs_corrupted(task.changelog_partitions)
            except Exception:
                _logger.warning("the changelogs of task %s could not be marked as corrupt", task.id, exc_info=True)

    def close_dirty_and_revive(self, tasks: Iterable[AnyTask]) -> None:
        """Have these tasks start over in this thread. Never raises."""
        for task in tasks:
            self.close_dirty(task)
            task.revive()
            if task.type is TaskType.ACTIVE:
                self._tasks.active[task.id] = task  # type: ignore[assignment]  # its type says so
            else:
                self._tasks.standby[task.id] = task  # type: ignore[assignment]

    def remove(self, task: AnyTask) -> None:
        """The task is closed, or was never opened: forget it, and unlock its directory."""
        self._tasks.remove(task)
        self._report.forget(task.id)
