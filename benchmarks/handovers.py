"""How a lost task comes to its new owner, in steps, as the threads' ownership logs tell it."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from assignor.errors import AssignorFault
from spark_jobs.ownership.ownership_history import ownership_intervals
from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine

_LOOK_INTERVAL_S = 0.25


@dataclass(frozen=True, slots=True)
class Handover:
    """One lost task, in milliseconds. Each step begins where the one before it ends.

    `detection`: until its new owner was told to join a rebalance. `rebalance`: until it was assigned the task.
    `restore`: until the state was complete. `first_record`: until it had processed a record. `records`: read from the
    changelog. A task without state has nothing to restore.
    """

    detection: float
    rebalance: float
    restore: float
    first_record: float
    records: int

    @property
    def total(self) -> float:
        return self.detection + self.rebalance + self.restore + self.first_record


STEPS: Mapping[str, Callable[[Handover], float]] = {
    "detection": lambda one: one.detection,
    "rebalance": lambda one: one.rebalance,
    "restore": lambda one: one.restore,
    "first record": lambda one: one.first_record,
    "in all": lambda one: one.total,
}


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that at least so many percent of all values do not exceed."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def handovers(
    read: Callable[[], list[OwnershipLine]], died_ms: float, deaths: Mapping[int, float], timeout_s: float
) -> dict[str, Handover]:
    """Wait until all tasks of the one that died at `died_ms` are processed again; by task, its steps.

    `read`: all lines, sorted by time. `deaths`: process id to its time of death, in milliseconds. It looks seldom,
    because looking takes CPU from the instances. Raises AssignorFault when tasks still stand still after `timeout_s`.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        time.sleep(_LOOK_INTERVAL_S)
        lines = read()
        found = {task: handover(lines, task, died_ms, deaths) for task in lost_tasks(lines, died_ms, deaths)}
        finished = {task: one for task, one in found.items() if one is not None}
        if found and len(finished) == len(found):
            return finished
        if time.monotonic() > deadline_s:
            standing = sorted(found.keys() - finished.keys())
            raise AssignorFault(f"tasks still stand still after {timeout_s:g} s: {', '.join(standing)}")


def lost_tasks(lines: Iterable[OwnershipLine], died_ms: float, deaths: Mapping[int, float]) -> list[str]:
    """The active tasks of the one that died at `died_ms`."""
    owned = ownership_intervals(lines, deaths)
    return sorted(task for task, of_task in owned.items() if any(one.end_ms == died_ms for one in of_task))


def handover(lines: Sequence[OwnershipLine], task: str, died_ms: float, deaths: Mapping[int, float]) -> Handover | None:
    """The way of a lost task to the first owner that processed a record of it, None when nobody has.

    `lines`: sorted by time. Owners that the task only passed count as part of the rebalance. An owner that had joined
    a rebalance before the death, which then gave it the task, had nothing to detect.
    """
    processed = first_record(lines, task, died_ms, deaths)
    if processed is None:
        return None
    until_processed = [
        line
        for line in lines
        if (line.thread, line.pid) == (processed.thread, processed.pid) and line.at_ms <= processed.at_ms
    ]
    of_owner = [line for line in until_processed if line.at_ms >= died_ms]
    assigned_ms = died_ms
    for before, line in pairwise(until_processed):
        if task in line.active and task not in before.active and line.at_ms >= died_ms:
            assigned_ms = line.at_ms
    joined = (line.at_ms for line in of_owner if line.event is OwnershipEvent.JOINING and line.at_ms <= assigned_ms)
    told_ms = next(joined, died_ms)
    restored = next((line for line in of_owner if line.event is OwnershipEvent.RESTORED and line.task == task), None)
    restored_ms = assigned_ms if restored is None else restored.at_ms
    return Handover(
        told_ms - died_ms,
        assigned_ms - told_ms,
        restored_ms - assigned_ms,
        processed.at_ms - restored_ms,
        0 if restored is None else restored.records or 0,
    )


def first_record(
    lines: Sequence[OwnershipLine], task: str, died_ms: float, deaths: Mapping[int, float]
) -> OwnershipLine | None:
    """The line in which an owner has processed a first record of a lost task; None when nobody has."""
    return next(
        (
            line
            for line in lines
            if line.event is OwnershipEvent.PROCESSED
            and line.task == task
            and died_ms <= line.at_ms <= deaths.get(line.pid, line.at_ms)
        ),
        None,
    )


def all_run(lines: Sequence[OwnershipLine], deaths: Mapping[int, float], tasks: int) -> bool:
    """Whether each of so many tasks has an owner that has processed a record of it."""
    owned = [one for of_task in ownership_intervals(lines, deaths).values() for one in of_task if one.end_ms is None]
    processed = [line for line in lines if line.event is OwnershipEvent.PROCESSED]
    return len(owned) == tasks and all(
        any(line.task == one.task and line.pid == one.pid and line.at_ms >= one.start_ms for line in processed)
        for one in owned
    )
