"""What goes wrong for a while with the logs and the disks that stream threads work on.

The log and the disks count what they do. A fault has struck when a count has gone up that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.disk import SimulatedDisk
from tests.simulation.faults import Fault, Kind
from tests.simulation.log import SharedLog
from tests.simulation.timeline import Timeline
from tests.simulation.windows import Struck


class StorageFaults:
    """Of one group: its log, and the disks of its hosts. Call `look` after each thing that a thread does."""

    def __init__(self, timeline: Timeline, struck: Struck) -> None:
        self._timeline = timeline
        self._struck = struck
        self._open: list[tuple[Fault, Callable[[], int], int]] = []

    def look(self) -> None:
        if self._open:
            still = []
            for fault, count, before in self._open:
                if count() != before:
                    self._struck(fault)
                else:
                    still.append((fault, count, before))
            self._open = still

    def of_log(self, log: SharedLog, fault: Fault) -> None:
        match fault.kind:
            case Kind.LOG_AWAY:
                log.is_away = True
                self._until(fault, lambda: log.time_outs, lambda: setattr(log, "is_away", False))
            case Kind.LOG_SLOW:
                log.slow_ms = fault.amount
                self._until(fault, lambda: log.commits, lambda: setattr(log, "slow_ms", 0))
            case _:
                log.answer_loss = fault.amount / 100
                self._until(fault, lambda: log.lost_answers, lambda: setattr(log, "answer_loss", 0.0))

    def of_disk(self, disk: SimulatedDisk, fault: Fault) -> None:
        if fault.kind is Kind.DISK_FULL:
            disk.is_full = True
            self._until(fault, lambda: disk.refusals, lambda: setattr(disk, "is_full", False))
        else:
            disk.slow_ms = fault.amount
            self._until(fault, lambda: disk.writes, lambda: setattr(disk, "slow_ms", 0))

    def heal(self, log: SharedLog) -> None:
        log.is_away, log.slow_ms, log.answer_loss = False, 0, 0.0
        self._open.clear()

    def _until(self, fault: Fault, count: Callable[[], int], end: Callable[[], None]) -> None:
        watched = (fault, count, count())
        self._open.append(watched)

        def over() -> None:
            end()
            if watched in self._open:
                self._open.remove(watched)

        self._timeline.after(fault.for_ms, over)


def heal_disk(disk: SimulatedDisk) -> None:
    disk.is_full, disk.slow_ms, disk.damages_stores = False, 0, False
