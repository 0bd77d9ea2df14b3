"""One cell: the first run in fresh processes, then runs in turns once both are warm."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from assignor.pipeline.snapshot import RebalanceSnapshot
from benchmarks.jvm_leader.cells import Cell
from benchmarks.jvm_leader.contenders import JVM, OURS, Contender, RunTimes, jvm, ours
from benchmarks.jvm_leader.group_file import write_for_java, write_for_python
from benchmarks.turns import in_turns

EQUAL, SAME_SIZE, NOT_COMPARED = "equal", "same size", "not compared"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How often. A warm-up ends after `warm_up_s` or after so many runs, whichever comes first: after 30 runs of a
    small group the JVM still takes half as much again as after 200, and ours has no compiler to wait for. Where a run
    takes longer than `long_run_ms`, it is cold once, and there are `few_runs` warm ones.
    """

    cold_runs: int = 3
    runs: int = 5
    few_runs: int = 3
    long_run_ms: float = 5_000
    warm_up_s: float = 10
    jvm_warm_up_runs: int = 200
    our_warm_up_runs: int = 5

    def warm_up_runs(self, contender: str) -> int:
        return self.jvm_warm_up_runs if contender == JVM else self.our_warm_up_runs


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """`cold`, `warm`: medians by contender. `sent`: how the assignments of both compare. `peak_bytes`: the most memory
    that our process had in its first run.
    """

    cell: Cell
    cold: Mapping[str, RunTimes]
    warm: Mapping[str, RunTimes]
    sent: str
    peak_bytes: int


def measure(
    cell: Cell, snapshot: RebalanceSnapshot, directory: Path, effort: Effort, *, with_jvm: bool, say: Say
) -> MeasuredCell:
    """`directory`: for the files of this group. `say`: hears what is going on. Raises AssertionError when the two sent
    other bytes, and JarsUnavailable.
    """
    start = prepared(snapshot, directory, with_jvm=with_jvm)
    cold: dict[str, list[RunTimes]] = {name: [] for name in start}
    sent, peak_bytes = NOT_COMPARED, 0
    while True:
        with ExitStack() as stack:
            say("fresh processes")
            running = {name: stack.enter_context(begin()) for name, begin in start.items()}
            for name, contender in running.items():
                say(f"{name}, first run")
                cold[name].append(contender.run())
            if not peak_bytes:
                peak_bytes = running[OURS].peak_memory() if not cold[OURS][0].over else 0
                sent = compared(cell, running, cold, directory)
            takes_long = any(runs[0].wall > effort.long_run_ms for runs in cold.values())
            if takes_long or len(cold[OURS]) == effort.cold_runs:
                warm = _warm(running, effort, takes_long=takes_long, say=say)
                break
    return MeasuredCell(
        cell,
        {name: RunTimes.median_of(runs) for name, runs in cold.items()},
        {name: RunTimes.median_of(runs) for name, runs in warm.items()},
        sent,
        peak_bytes,
    )


def prepared(snapshot: RebalanceSnapshot, directory: Path, *, with_jvm: bool) -> dict[str, Callable[[], Contender]]:
    """How to start each contender on this group, whose files are written here."""
    for_python, for_java = directory / "group.pickle", directory / "group.bin"
    write_for_python(snapshot, for_python)
    start = {OURS: lambda: ours(for_python)}
    if with_jvm:
        write_for_java(snapshot, for_java)
        start[JVM] = lambda: jvm(for_java)
    return start


def compared(cell: Cell, running: Mapping[str, Contender], times: Mapping[str, list[RunTimes]], directory: Path) -> str:
    """Whether both sent the same bytes to every member. Raises AssertionError when they did not."""
    if JVM not in running or any(runs[0].over for runs in times.values()):
        return NOT_COMPARED
    digests = {name: contender.digests(directory / f"{name}.txt") for name, contender in running.items()}
    if digests[OURS] == digests[JVM]:
        return EQUAL
    sizes = {name: sum(size for size, _ in members.values()) for name, members in digests.items()}
    assert cell.orders_by_identity, f"{cell.name}: our assignments are not Kafka's"
    assert sizes[OURS] == sizes[JVM], f"{cell.name}: we sent {sizes[OURS]:,} bytes, Kafka {sizes[JVM]:,}"
    return SAME_SIZE


def _warm(running: Mapping[str, Contender], effort: Effort, *, takes_long: bool, say: Say) -> dict[str, list[RunTimes]]:
    for name, contender in running.items():
        say(f"{name}, warm-up")
        warm_up(contender.run, effort.warm_up_s, effort.warm_up_runs(name))
    say("runs in turns")
    return in_turns(
        {name: contender.run for name, contender in running.items()}, effort.few_runs if takes_long else effort.runs
    )


def warm_up(run: Callable[[], object], longest_s: float, runs: int) -> None:
    until = time.monotonic() + longest_s
    for _ in range(runs):
        run()
        if time.monotonic() > until:
            break
