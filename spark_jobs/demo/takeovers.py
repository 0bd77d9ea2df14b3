"""What became of a dead executor's tasks, according to the threads that took them over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_jobs.workers.ownership_history import Gap, gaps, ownership_intervals
from spark_jobs.workers.ownership_log import OwnershipEvent, OwnershipLine


@dataclass(frozen=True, slots=True)
class Takeover:
    """One lost task. Times are milliseconds from the death; None: not yet.

    `assigned_ms`: until a thread had it. `processed_ms`: until that thread had processed a record of it. `origin`: what
    it started from. `records`: how many changelog records it read before it ran, None without state. `had_standby`:
    when the old owner died, some thread of the new owner's instance had the task as a standby, so its state was there,
    open or with a checkpoint.
    """

    task: str
    thread: str | None
    assigned_ms: float | None
    processed_ms: float | None
    origin: str | None
    records: int | None
    had_standby: bool


def takeovers(lines: Iterable[OwnershipLine], died_ms: float, deaths: Mapping[int, float]) -> list[Takeover]:
    """One for each task of the dead at `died_ms`, sorted by task. `deaths`: process id to its time of death."""
    ordered = sorted(lines, key=lambda line: line.at_ms)
    lost = [gap for gap in gaps(ownership_intervals(ordered, deaths), after_ms=died_ms) if gap.start_ms == died_ms]
    return sorted((_takeover(gap, died_ms, ordered) for gap in lost), key=lambda one: one.task)


def _takeover(gap: Gap, died_ms: float, ordered: list[OwnershipLine]) -> Takeover:
    later = [line for line in ordered if line.at_ms >= died_ms]
    new_owner = next(
        (line for line in later if gap.end_ms is not None and line.at_ms >= gap.end_ms and gap.task in line.active),
        None,
    )
    of_task = [line for line in later if line.task == gap.task and new_owner and line.thread == new_owner.thread]
    restored = next((line for line in of_task if line.event is OwnershipEvent.RESTORED), None)
    processed = next((line for line in of_task if line.event is OwnershipEvent.PROCESSED), None)
    return Takeover(
        gap.task,
        None if new_owner is None else new_owner.thread,
        gap.length_ms,
        None if processed is None else processed.at_ms - died_ms,
        None if restored is None else restored.origin,
        None if restored is None else restored.records,
        new_owner is not None and gap.task in _standbys(new_owner.instance, died_ms, ordered),
    )


def _standbys(instance: str, at_ms: float, ordered: list[OwnershipLine]) -> set[str]:
    """The standby tasks of the instance's threads at that time."""
    newest = {
        (line.thread, line.pid): line.standby for line in ordered if line.instance == instance and line.at_ms < at_ms
    }
    return {task for standby in newest.values() for task in standby}
