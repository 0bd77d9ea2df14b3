"""The last snapshot of a stream thread that runs in another process, for whoever looks at its instance."""

from __future__ import annotations

import threading

from streams_runtime.membership.task_holder import HeldTasks
from streams_runtime.state_stores.base import StateStore
from streams_runtime.thread_processes.messages import CopyView, Published
from streams_runtime.thread_processes.remote_stores import RemoteStore, StorePlace, StoreReader
from streams_runtime.threads.thread_status import TaskCopy, ThreadState, ThreadStatus

NEWER_TIMEOUT_S = 2.0
"""A newer snapshot is on its way when somebody waits for it, unless a listener holds up the thread that takes it."""

_NOTHING = HeldTasks("", 0)


class ShownSnapshot:
    """Any thread may look; one thread takes what is new."""

    def __init__(self, name: str) -> None:
        self.held = _NOTHING
        self.has_held_anything = False
        self.copies: tuple[TaskCopy, ...] = ()
        self.status = ThreadStatus(name, ThreadState.CREATED, "", 0, ())
        self._number = 0
        self._changed = threading.Condition()
        self._reader: StoreReader | None = None

    def reads_by(self, reader: StoreReader) -> None:
        self._reader = reader

    def take(self, published: Published) -> None:
        self.status = published.status
        if published.held is not None:
            self.held = published.held
            self.has_held_anything = published.held.generation_id > 0
        if published.number > self._number:
            self.copies = tuple(self._copy(published.number, view) for view in published.copies)
            with self._changed:
                self._number = published.number
                self._changed.notify_all()

    def wait_for_newer(self, number: int) -> None:
        """Until the copies are those of a snapshot with a higher number, or time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number, NEWER_TIMEOUT_S)

    def forget(self) -> None:
        """There is no process any more: nobody has tasks or stores."""
        self.held, self.copies = _NOTHING, ()
        status = self.status
        self.status = ThreadStatus(
            status.name, status.state, status.member_id, status.generation_id, (), *_counts(status)
        )

    def _copy(self, number: int, view: CopyView) -> TaskCopy:
        reader = self._reader
        assert reader is not None, "there is a process"
        stores: dict[str, StateStore] = {
            name: RemoteStore(reader, StorePlace(number, view.task_id, name), persistent=persistent)
            for name, persistent in view.stores.items()
        }
        return TaskCopy(view.task_id, view.role, view.state, stores, view.lags)


def _counts(status: ThreadStatus) -> tuple[int, int, int]:
    return status.processed, status.dropped, status.passed_over
