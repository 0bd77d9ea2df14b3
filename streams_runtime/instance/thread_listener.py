"""The calls of a stream thread to a listener, for logs that outlive the thread and for tables that people watch.

The stream thread calls the listener before it goes on, so a call must not block. Times are milliseconds since the
epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from assignor.types import TaskId
from streams_runtime.common.states import RestoreOrigin
from streams_runtime.membership.member_events import HeldTasks


@dataclass(frozen=True, slots=True)
class TaskRestored:
    """An active task with changelogs is about to run. `records`: read from changelogs since it was assigned."""

    task_id: TaskId
    origin: RestoreOrigin
    records: int
    took_ms: int


class ThreadListener(Protocol):
    def joining(self, held: HeldTasks) -> None:
        """The member is about to send a subscription; the thread still holds this."""
        ...

    def assigned(self, held: HeldTasks) -> None:
        """The thread holds exactly this from now on. The call comes before any of the tasks changes."""
        ...

    def revoked(self, held: HeldTasks) -> None:
        """Tasks were committed and suspended; the thread still holds this."""
        ...

    def dropped(self, reason: str, *, clean: bool) -> None:
        """The thread holds nothing any more. `clean`: it closed its tasks in good order."""
        ...

    def restored(self, task: TaskRestored) -> None: ...

    def processed_first(self, task_id: TaskId, at_ms: int) -> None:
        """The task has processed its first record since it was assigned to this thread."""
        ...


class SilentListener:
    """Ignores every call."""

    def joining(self, held: HeldTasks) -> None: ...
    def assigned(self, held: HeldTasks) -> None: ...
    def revoked(self, held: HeldTasks) -> None: ...
    def dropped(self, reason: str, *, clean: bool) -> None: ...
    def restored(self, task: TaskRestored) -> None: ...
    def processed_first(self, task_id: TaskId, at_ms: int) -> None: ...
