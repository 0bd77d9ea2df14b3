"""Writes down what a stream thread tells of its tasks, the moment it tells it: the ownership log of that thread."""

from __future__ import annotations

from assignor.types import TaskId
from spark_jobs.workers.ownership_log import OwnershipEvent, OwnershipLog
from streams_runtime.membership.task_holder import HeldTasks
from streams_runtime.task_manager.thread_listener import TaskRestored

_NOTHING = HeldTasks("", 0)


class OwnershipListener:
    """A `ThreadListener` of one thread; all calls come from that thread."""

    def __init__(self, log: OwnershipLog) -> None:
        self._log = log
        self._held = _NOTHING
        self._write(OwnershipEvent.STARTED)

    def joining(self, held: HeldTasks) -> None:
        self._held = held
        self._write(OwnershipEvent.JOINING)

    def assigned(self, held: HeldTasks) -> None:
        self._held = held
        self._write(OwnershipEvent.ASSIGNED)

    def revoked(self, held: HeldTasks) -> None:
        self._held = held
        self._write(OwnershipEvent.REVOKED)

    def dropped(self, reason: str, *, clean: bool) -> None:
        self._held = _NOTHING
        self._write(OwnershipEvent.CLOSED if clean else OwnershipEvent.LOST, reason=reason)

    def restored(self, task: TaskRestored) -> None:
        self._write(OwnershipEvent.RESTORED, task=str(task.task_id), origin=str(task.origin), records=task.records)

    def processed_first(self, task_id: TaskId, at_ms: int) -> None:
        self._write(OwnershipEvent.PROCESSED, task=str(task_id))

    def _write(
        self,
        event: OwnershipEvent,
        *,
        reason: str | None = None,
        task: str | None = None,
        origin: str | None = None,
        records: int | None = None,
    ) -> None:
        self._log.write(
            event,
            generation_id=self._held.generation_id or None,
            member_id=self._held.member_id or None,
            active=(str(each) for each in self._held.active),
            standby=(str(each) for each in self._held.standby),
            reason=reason,
            task=task,
            origin=origin,
            records=records,
        )
