"""Computes the ownership history of a group from its ownership logs. The history shows when each task had one owner,
two owners at once, or no owner.

An interval of ownership begins with the first line in which a thread has the task as active. The interval ends with the
thread's next line in which the task is not active. If the thread's process dies earlier, the interval ends at the time
of the death.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

from spark_jobs.ownership.ownership_log import OwnershipLine


@dataclass(frozen=True, slots=True)
class Interval:
    """A period in which one thread owns a task. Times are in milliseconds since the epoch. `end_ms`: the end of the
    ownership; None if the thread still owns the task.
    """

    task: str
    thread: str
    pid: int
    start_ms: float
    end_ms: float | None


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two threads that owned one task at the same time."""

    first: Interval
    second: Interval


@dataclass(frozen=True, slots=True)
class Gap:
    """A period in which a task has no owner, although it had an owner before. `end_ms`: the end of the period; None if
    the task still has no owner.
    """

    task: str
    start_ms: float
    end_ms: float | None

    @property
    def length_ms(self) -> float | None:
        return None if self.end_ms is None else self.end_ms - self.start_ms


def ownership_intervals(
    lines: Iterable[OwnershipLine], deaths: Mapping[int, float] | None = None
) -> dict[str, list[Interval]]:
    """Returns, for each task, its intervals of ownership, sorted by start. `deaths`: the time of death of each dead
    process, by process id, in milliseconds since the epoch.
    """
    deaths = deaths or {}
    running: dict[tuple[str, int], dict[str, float]] = {}
    intervals: dict[str, list[Interval]] = {}

    def end(task: str, thread: str, pid: int, start_ms: float, end_ms: float | None) -> None:
        died_ms = deaths.get(pid)
        if died_ms is not None:
            if start_ms >= died_ms:
                return
            end_ms = died_ms if end_ms is None else min(end_ms, died_ms)
        intervals.setdefault(task, []).append(Interval(task, thread, pid, start_ms, end_ms))

    for line in sorted(lines, key=lambda line: line.at_ms):
        owned = running.setdefault((line.thread, line.pid), {})
        for task in [task for task in owned if task not in line.active]:
            end(task, line.thread, line.pid, owned.pop(task), line.at_ms)
        for task in line.active:
            owned.setdefault(task, line.at_ms)
    for (thread, pid), owned in running.items():
        for task, start_ms in owned.items():
            end(task, thread, pid, start_ms, None)
    return {task: sorted(found, key=lambda interval: interval.start_ms) for task, found in intervals.items()}


def overlaps(intervals: Mapping[str, list[Interval]]) -> list[Overlap]:
    """Returns every pair of intervals of one task that overlap."""
    return [
        Overlap(first, second)
        for of_task in intervals.values()
        for first, second in combinations(of_task, 2)
        if second.start_ms < min(_or_forever(first.end_ms), _or_forever(second.end_ms))
    ]


def gaps(intervals: Mapping[str, list[Interval]], *, after_ms: float = 0.0) -> list[Gap]:
    """Returns every period in which a task had no owner after its first owner. Leaves out periods that ended at or
    before `after_ms`.
    """
    found = []
    for task, of_task in intervals.items():
        covered_ms = _or_forever(of_task[0].end_ms)
        for _, later in pairwise(of_task):
            if later.start_ms > covered_ms and later.start_ms > after_ms:
                found.append(Gap(task, covered_ms, later.start_ms))
            covered_ms = max(covered_ms, _or_forever(later.end_ms))
        if covered_ms != _or_forever(None):
            found.append(Gap(task, covered_ms, None))
    return found


def executors_of_members(lines: Iterable[OwnershipLine]) -> dict[str, str]:
    """Maps each member id to its executor id."""
    return {line.member_id: line.executor for line in lines if line.member_id is not None}


def members_behind(lines: Iterable[OwnershipLine], member_ids: Iterable[str], generation_id: int) -> set[str]:
    """Returns the members whose last log line does not have the generation `generation_id`. Also returns members
    without a log line. `member_ids`: the members to check.
    """
    holds = {line.member_id: line.generation_id for line in sorted(lines, key=lambda line: line.at_ms)}
    return {member_id for member_id in member_ids if holds.get(member_id) != generation_id}


def _or_forever(at_ms: float | None) -> float:
    return float("inf") if at_ms is None else at_ms
