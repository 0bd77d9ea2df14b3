"""What an instance needs of a stream thread, wherever it runs: in this process, or in one of its own."""

from __future__ import annotations

from typing import Protocol

from streams_runtime.application import ThreadErrorResponse
from streams_runtime.membership.member_events import MemberEnd
from streams_runtime.membership.task_holder import HeldTasks
from streams_runtime.threads.thread_status import TaskCopy, ThreadState, ThreadStatus


class InstanceThread(Protocol):
    """`start` it once. Any thread may call. When it is DEAD, `error` or `end` says why, as `StreamThread` does."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> ThreadState: ...
    @property
    def end(self) -> MemberEnd | None: ...
    @property
    def error(self) -> Exception | None: ...
    @property
    def response(self) -> ThreadErrorResponse | None: ...

    def start(self) -> None: ...

    def ask_to_close(self) -> None:
        """Commit, checkpoint, leave the group, and end. Returns at once."""
        ...

    def join(self, timeout_s: float | None = None) -> None: ...

    def wake(self) -> None:
        """Have it look again at what there is to do, and at what its instance wants: a pause, another share."""
        ...

    def request_shutdown(self) -> None:
        """Have the leader end the whole application."""
        ...

    def held(self) -> HeldTasks:
        """What the group last assigned to this thread."""
        ...

    def status(self) -> ThreadStatus: ...

    def copies(self) -> tuple[TaskCopy, ...]:
        """Tasks with open stores."""
        ...
