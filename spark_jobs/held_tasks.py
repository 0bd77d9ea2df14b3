"""A `TaskHolder` that does nothing with its tasks but hold them: it writes down what it has and reports growing
offsets.

An active task restores first, as in Kafka: until its copy has reached the end of its changelogs it reports how far it
is, from then on it runs and reports LATEST_OFFSET. Source: `TaskManager.taskOffsetSums`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from assignor.types import LATEST_OFFSET, TaskId
from spark_jobs.ownership_log import OwnershipEvent, OwnershipLog
from spark_jobs.task_positions import TaskPositions
from streams_runtime.task_holder import HeldTasks

_NOTHING = HeldTasks("", 0)


class HoldingTasks:
    """The tasks of one thread. `positions` are its instance's, `log` is its own."""

    def __init__(self, thread: str, positions: TaskPositions, log: OwnershipLog) -> None:
        self._thread = thread
        self._positions = positions
        self._log = log
        self._held = _NOTHING
        self._lock = threading.Lock()
        log.write(OwnershipEvent.STARTED)

    def rebalance_started(self) -> None:
        self._positions.claim(self._thread)
        with self._lock:
            self._write(OwnershipEvent.JOINING)

    def offset_sums(self) -> Mapping[TaskId, int]:
        sums = self._positions.offset_sums(self._thread)
        with self._lock:
            active = tuple(self._held.active)
        for task in active:
            if task in sums and self._positions.is_restored(task):
                sums[task] = LATEST_OFFSET
        return sums

    def revoke(self, tasks: frozenset[TaskId]) -> None:
        with self._lock:
            kept = {task: of_task for task, of_task in self._held.active.items() if task not in tasks}
            self._held = HeldTasks(self._held.member_id, self._held.generation_id, kept, self._held.standby)
            self._hold()
            self._write(OwnershipEvent.REVOKED)

    def assign(self, held: HeldTasks) -> None:
        with self._lock:
            self._held = held
            self._write(OwnershipEvent.ASSIGNED)
            self._hold()

    def lost(self, reason: str) -> None:
        self._drop(OwnershipEvent.LOST, reason)

    def close(self) -> None:
        self._drop(OwnershipEvent.CLOSED, None)

    def _drop(self, event: OwnershipEvent, reason: str | None) -> None:
        with self._lock:
            self._held = _NOTHING
            self._write(event, reason)
            self._hold()

    def _hold(self) -> None:
        self._positions.hold(self._thread, (*self._held.active, *self._held.standby))

    def _write(self, event: OwnershipEvent, reason: str | None = None) -> None:
        self._log.write(
            event,
            generation_id=self._held.generation_id or None,
            member_id=self._held.member_id or None,
            active=(str(task) for task in self._held.active),
            standby=(str(task) for task in self._held.standby),
            reason=reason,
        )
