"""Reads the effects of an executor's death from the members' ownership logs: the new owners of the tasks, and the
rebalances.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_jobs.ownership.ownership_history import Gap, gaps, ownership_intervals
from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine


@dataclass(frozen=True, slots=True)
class Takeover:
    """The move of one task from a dead process to the task's new owner. Times are in milliseconds since the death. A
    time is None if the event has not happened yet.

    `assigned_ms`: the time until another thread owned the task. `processed_ms`: the time until the new owner processed
    its first record of the task. `origin`: the kind of state from which the task started on the new owner, such as a
    checkpoint. `records`: the number of changelog records that the task read before it ran. `records` is None for a
    task without state. `had_standby`: True if a thread of the new owner's instance had the task as a standby when the
    old owner died. Such a standby means that the instance of the new owner already had the task's state.
    """

    task: str
    thread: str | None
    assigned_ms: float | None
    processed_ms: float | None
    origin: str | None
    records: int | None
    had_standby: bool


def takeovers(lines: Iterable[OwnershipLine], died_ms: float, deaths: Mapping[int, float]) -> list[Takeover]:
    """Returns Takeovers, sorted by task: one for each active task of the processes that died at `died_ms`. `deaths`:
    the time of death of each dead process, by process id.
    """
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
    """Returns the standby tasks that the threads of an instance had just before the time `at_ms`."""
    newest = {
        (line.thread, line.pid): line.standby for line in ordered if line.instance == instance and line.at_ms < at_ms
    }
    return {task for standby in newest.values() for task in standby}


@dataclass(frozen=True, slots=True)
class WitnessedRebalance:
    """One generation of the group, according to the ownership logs of the members. Times are in milliseconds since the
    epoch.

    `started_ms`: the time at which the first thread sent its subscription. `ended_ms`: the time at which the last
    thread received its assignment.
    `moved`: the number of active tasks that moved from their last owner to another thread.
    """

    generation_id: int
    started_ms: float
    ended_ms: float
    moved: int

    @property
    def duration_ms(self) -> float:
        return self.ended_ms - self.started_ms


def witnessed_rebalances(lines: Iterable[OwnershipLine]) -> list[WitnessedRebalance]:
    """Returns the generations in ascending order. Leaves out a generation in which no member received an assignment."""
    joining_ms: dict[tuple[str, int], float] = {}
    taken: dict[int, list[tuple[OwnershipLine, float]]] = {}
    for line in sorted(lines, key=lambda line: line.at_ms):
        thread = (line.thread, line.pid)
        if line.event is OwnershipEvent.JOINING:
            joining_ms.setdefault(thread, line.at_ms)
        elif line.event is OwnershipEvent.ASSIGNED and line.generation_id is not None:
            taken.setdefault(line.generation_id, []).append((line, joining_ms.pop(thread, line.at_ms)))
    last_owner: dict[str, str] = {}
    rebalances = []
    for generation_id, of_generation in sorted(taken.items()):
        moved = 0
        for line, _ in of_generation:
            for task in line.active:
                moved += last_owner.get(task, line.thread) != line.thread
                last_owner[task] = line.thread
        rebalances.append(
            WitnessedRebalance(
                generation_id,
                min(started_ms for _, started_ms in of_generation),
                max(line.at_ms for line, _ in of_generation),
                moved,
            )
        )
    return rebalances
