"""What a stream thread tells while it works, for logs that survive it and for tables that people watch.

Calls come from the stream thread, before it goes on, and must not block. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from assignor.types import TaskId
from streams_runtime.membership.task_holder import HeldTasks
from streams_runtime.task_states import RestoreOrigin


@dataclass(frozen=True, slots=True)
class TaskRestored:
    """An active task that had changelogs is about to run. `records`: read from changelogs since it was assigned."""

    task_id: TaskId
    origin: RestoreOrigin
    records: int
    took_ms: int


class ThreadListener(Protocol):
    def joining(self, held: HeldTasks) -> None:
        """A subscription is about to be sent; everything is held on to."""
        ...

    def assigned(self, held: HeldTasks) -> None:
        """The thread holds exactly this from now on; told before any task of it is touched."""
        ...

    def revoked(self, held: HeldTasks) -> None:
        """What is left after tasks were committed and closed."""
        ...

    def dropped(self, reason: str, *, clean: bool) -> None:
        """Nothing is held any more. `clean`: closed in good order."""
        ...

    def restored(self, task: TaskRestored) -> None: ...

    def processed_first(self, task_id: TaskId, at_ms: int) -> None:
        """The task has processed the first record since it was assigned to this thread."""
        ...


class SilentListener:
    """Tells nobody."""

    def joining(self, held: HeldTasks) -> None: ...
    def assigned(self, held: HeldTasks) -> None: ...
    def revoked(self, held: HeldTasks) -> None: ...
    def dropped(self, reason: str, *, clean: bool) -> None: ...
    def restored(self, task: TaskRestored) -> None: ...
    def processed_first(self, task_id: TaskId, at_ms: int) -> None: ...
