"""How our CPU grows with the group: the same rebalance of groups of several sizes, in turns.

Cells are measured minutes apart, and a machine that others use is a fifth faster or slower by then, which is as much as
there is to find out. So here all sizes are warm at the same time, and each runs once before any runs again.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from math import log
from pathlib import Path

from benchmarks.jvm_leader.cells import Cell
from benchmarks.jvm_leader.contenders import OURS, Contender, RunTimes
from benchmarks.jvm_leader.measuring import Effort, Say, prepared, warm_up
from benchmarks.shapes import NO_RACKS
from benchmarks.turns import in_turns

GROWTH_THREADS = 8
LEAST_SHAPES = 3
_RUNS = 9

FirstAssignments = Callable[[Cell], Mapping[str, bytes]]


def growing_cells(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Of these cells those that differ in nothing but their size, if there are enough of them; without racks."""
    by_rebalance: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if cell.shape.threads == GROWTH_THREADS and cell.placing.strategy == NO_RACKS:
            by_rebalance.setdefault((cell.placing.assignor, cell.rebalance), []).append(cell)
    return [of_sizes for of_sizes in by_rebalance.values() if len(of_sizes) >= LEAST_SHAPES]


def measure_growth(
    cells: Sequence[Cell], first_assignments: FirstAssignments, directory: Path, effort: Effort, say: Say
) -> list[tuple[int, RunTimes]]:
    """Of each cell its `size`, and the median of its warm runs. `directory`: for the files of the groups."""
    with ExitStack() as stack:
        running: dict[Cell, Contender] = {}
        for number, cell in enumerate(cells):
            say(f"growth, {cell.name}: a fresh process")
            own = directory / str(number)
            own.mkdir(parents=True, exist_ok=True)
            start = prepared(cell.snapshot(first_assignments(cell)), own, with_jvm=False)[OURS]
            running[cell] = contender = stack.enter_context(start())
            warm_up(contender.run, effort.warm_up_s, effort.warm_up_runs(OURS))
        say("growth: runs in turns")
        runs = in_turns({cell: contender.run for cell, contender in running.items()}, _RUNS)
    return [(size(cell), RunTimes.median_of(of_it)) for cell, of_it in runs.items()]


def size(cell: Cell) -> int:
    """Tasks, clients, and copies of tasks that are standbys."""
    return cell.shape.tasks + cell.shape.clients + cell.shape.tasks * cell.shape.standbys


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the least-squares line through the logarithms."""
    xs, ys = [log(x) for x, _ in points], [log(y) for _, y in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
