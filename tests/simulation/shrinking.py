"""Makes a history that fails shorter, as long as it breaks the same rule: fewer faults, then fewer processes, then an
earlier end, then shorter and milder faults.

Source: the minimizing delta debugging of Zeller and Hildebrandt (ddmin).
"""

from collections.abc import Callable
from dataclasses import replace

from tests.simulation.faults import Fault, Kind, Of
from tests.simulation.running import Run, run
from tests.simulation.schedule import Schedule

MOST_RUNS = 400

Fails = Callable[[Schedule], bool]


def shrunk(failed: Run, *, most_runs: int = MOST_RUNS) -> Run:
    """The shortest history that was found to break the rule of `failed`."""
    assert failed.rule is not None, "it failed"
    shortest, runs = failed, 0

    def fails(schedule: Schedule) -> bool:
        nonlocal shortest, runs
        if runs >= most_runs or schedule == shortest.schedule:
            return False
        runs += 1
        found = run(schedule)
        if found.rule == failed.rule:
            shortest = found
            return True
        return False

    before = None
    while before != shortest.schedule and runs < most_runs:
        before = shortest.schedule
        _fewer_faults(shortest.schedule, fails)
        _fewer_processes(shortest.schedule, fails)
        _earlier_end(shortest.schedule, fails)
    return shortest


def _fewer_faults(schedule: Schedule, fails: Fails) -> None:
    """ddmin: leave out parts of the list, and smaller ones when no part can be left out."""
    faults, parts = schedule.faults, 2
    if faults and fails(replace(schedule, faults=())):
        return
    while len(faults) >= 2:
        size = -(-len(faults) // parts)
        for at in range(0, len(faults), size):
            left = (*faults[:at], *faults[at + size :])
            if fails(replace(schedule, faults=left)):
                faults, parts = left, max(parts - 1, 2)
                break
        else:
            if parts >= len(faults):
                break
            parts = min(2 * parts, len(faults))


def _fewer_processes(schedule: Schedule, fails: Fails) -> None:
    """Whole groups, then processes, then threads; with what happens to them."""
    for group in schedule.groups:
        if len(schedule.groups) > 1:
            gone = {one.number for one in schedule.processes if one.group == group.number}
            smaller = replace(
                schedule,
                groups=tuple(one for one in schedule.groups if one is not group),
                processes=tuple(one for one in schedule.processes if one.number not in gone),
                faults=tuple(one for one in schedule.faults if not _is_of(one, gone, {group.number})),
            )
            if smaller.processes and fails(smaller):
                schedule = smaller
    for process in schedule.processes:
        if len(schedule.processes) > 1:
            smaller = replace(
                schedule,
                processes=tuple(one for one in schedule.processes if one is not process),
                faults=tuple(one for one in schedule.faults if not _is_of(one, {process.number}, set())),
            )
            if fails(smaller):
                schedule = smaller
    for process in schedule.processes:
        if process.threads > 1:
            fewer = tuple(replace(one, threads=1) if one is process else one for one in schedule.processes)
            smaller = replace(schedule, processes=fewer)
            if fails(smaller):
                schedule = smaller


def _earlier_end(schedule: Schedule, fails: Fails) -> None:
    last_ms = max((one.at_ms for one in schedule.faults), default=0)
    for end_ms in (last_ms + 100, last_ms + 1_000, last_ms + 5_000):
        if end_ms < schedule.faults_ms and fails(replace(schedule, faults_ms=end_ms)):
            return


def _is_of(fault: Fault, processes: set[int], groups: set[int]) -> bool:
    kind: Kind = fault.kind
    if kind.of is Of.GROUP:
        return fault.target in groups
    return kind.of in (Of.PROCESS, Of.STATIC_PROCESS) and fault.target in processes
