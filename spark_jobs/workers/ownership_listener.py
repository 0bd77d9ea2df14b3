"""Writes the ownership log of a stream thread, as the thread reports each change of its tasks."""

from __future__ import annotations

from dataclasses import replace

from assignor.types import TaskId
from spark_jobs.workers.ownership_log import OwnershipChange, OwnershipEvent, OwnershipLog
from streams_runtime.membership.member_events import HeldTasks
from streams_runtime.task_manager.thread_listener import TaskRestored

_NOTHING = HeldTasks("", 0)


class OwnershipListener:
    """A `ThreadListener` of one thread; only that thread calls it."""

    def __init__(self, log: OwnershipLog) -> None:
        self._log = log
        self._held = _NOTHING
        self._log.write(self._change(OwnershipEvent.STARTED))

    def joining(self, held: HeldTasks) -> None:
        self._hold(OwnershipEvent.JOINING, held)

    def assigned(self, held: HeldTasks) -> None:
        self._hold(OwnershipEvent.ASSIGNED, held)

    def revoked(self, held: HeldTasks) -> None:
        self._hold(OwnershipEvent.REVOKED, held)

    def dropped(self, reason: str, *, clean: bool) -> None:
        self._held = _NOTHING
        event = OwnershipEvent.CLOSED if clean else OwnershipEvent.LOST
        self._log.write(replace(self._change(event), reason=reason))

    def restored(self, task: TaskRestored) -> None:
        change = self._change(OwnershipEvent.RESTORED)
        self._log.write(replace(change, task=str(task.task_id), origin=str(task.origin), records=task.records))

    def processed_first(self, task_id: TaskId, at_ms: int) -> None:
        self._log.write(replace(self._change(OwnershipEvent.PROCESSED), task=str(task_id)))

    def _hold(self, event: OwnershipEvent, held: HeldTasks) -> None:
        self._held = held
        self._log.write(self._change(event))

    def _change(self, event: OwnershipEvent) -> OwnershipChange:
        """`event` with the tasks that the thread holds now."""
        return OwnershipChange(
            event,
            self._held.generation_id or None,
            self._held.member_id or None,
            tuple(str(each) for each in self._held.active),
            tuple(str(each) for each in self._held.standby),
        )
