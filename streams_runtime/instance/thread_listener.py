"""The callbacks of a stream thread. For example, a program can use these callbacks to show the Streams tasks of the
thread in a table.

The stream thread waits until each callback returns, so a callback must not block. Times are milliseconds since the
epoch.
"""

from dataclasses import dataclass

from assignor.types import TaskId
from streams_runtime.common.states import RestoreOrigin
from streams_runtime.membership.member_events import HeldTasks


@dataclass(frozen=True, slots=True)
class TaskRestored:
    """An active task with changelogs was restored, and will run next.

    `records`: the number of changelog records read since the task was assigned. `took_ms`: the milliseconds since the
    task was assigned.
    """

    task_id: TaskId
    origin: RestoreOrigin
    records: int
    took_ms: int


class ThreadListener:
    """Ignores every call. Subclasses override the methods that they need."""

    def joining(self, held: HeldTasks) -> None:
        """The member will now send a subscription. `held`: the tasks that the thread still has."""

    def assigned(self, held: HeldTasks) -> None:
        """The thread has got a new assignment, but has not changed its tasks yet. `held`: all tasks of the new
        assignment.
        """

    def revoked(self, held: HeldTasks) -> None:
        """The revoked tasks were committed and suspended. `held`: the tasks that the thread still has."""

    def dropped(self, reason: str, *, clean: bool) -> None:
        """The thread has no tasks any more. `clean`: True if the thread closed its tasks without an error."""

    def restored(self, task: TaskRestored) -> None:
        """An active task was restored, and will run next."""

    def processed_first(self, task_id: TaskId, at_ms: int) -> None:
        """The task has processed its first record since it was assigned to this thread."""
