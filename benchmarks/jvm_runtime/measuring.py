"""One cell: the JVM is warmed up, then everybody runs in turns, and what all of them wrote has to be equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from benchmarks.jvm_runtime.cells import Cell
from benchmarks.jvm_runtime.contenders import JVM, LABELS, Contender, MeasuredRun, Places, start
from benchmarks.jvm_runtime.input_records import Input
from benchmarks.jvm_runtime.outputs import check_equal
from benchmarks.jvm_runtime.programs import RunFigures
from benchmarks.turns import in_turns

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """`records`: events of a run, of which `lead_in` are processed before the clock starts: start-up does not count.

    `warm_up_records`: that a JVM has processed before its first measured run, over as many whole runs as it takes.
    """

    records: int = 400_000
    lead_in: int = 100_000
    runs: int = 3
    warm_up_records: int = 2_000_000

    def of_cell(self, cell: Cell) -> Effort:
        """With as many events as make this number of records."""
        share = cell.records_an_event
        records, lead_in = self.records // share * cell.times_records, self.lead_in // share
        return replace(self, records=records, lead_in=lead_in)


QUICK = Effort(records=40_000, lead_in=10_000, runs=1, warm_up_records=80_000)


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """By contender: `runs`, and in `warm_up` the CPU µs a record of the runs before them. `compared`: how many results
    were equal.
    """

    cell: Cell
    runs: Mapping[str, Sequence[RunFigures]]
    warm_up: Mapping[str, Sequence[float]]
    compared: int

    def typical(self, contender: str) -> RunFigures:
        """The run with the median CPU."""
        return typical(self.runs[contender])

    def records_a_second(self, contender: str) -> float:
        """The median: the run with the median CPU may have waited for more or for less than the others."""
        return median(run.records_a_second for run in self.runs[contender])


def typical(runs: Sequence[RunFigures]) -> RunFigures:
    middle = median(run.cpu_us for run in runs)
    return min(runs, key=lambda run: abs(run.cpu_us - middle))


def measure(cell: Cell, what: Input, names: Sequence[str], places: Places, effort: Effort, say: Say) -> MeasuredCell:
    """`names`: of contenders. Raises AssertionError when the results of two differ, and JarsUnavailable."""
    with ExitStack() as stack:
        running = {name: stack.enter_context(start(name, cell, what, places)) for name in names}
        warm_up = {JVM: _warm_up(running[JVM], cell, effort, say)} if JVM in running else {}

        def run(name: str) -> MeasuredRun:
            say(LABELS[name])
            return running[name].run(effort.lead_in, with_outputs=True)

        measured = in_turns({name: partial(run, name) for name in running}, effort.runs)
    outputs = {
        f"{LABELS[name]} (run {number})": each.outputs
        for name, runs in measured.items()
        for number, each in enumerate(runs, 1)
        if each.outputs is not None
    }
    equal = check_equal(cell.name, outputs, every_record=cell.sends_every_record)
    figures = {name: [each.figures for each in runs] for name, runs in measured.items()}
    return MeasuredCell(cell, figures, warm_up, equal.compared)


def _warm_up(contender: Contender, cell: Cell, effort: Effort, say: Say) -> list[float]:
    """CPU µs a record of each run."""
    of_run = effort.records * cell.records_an_event + cell.records_before
    runs = -(-effort.warm_up_records // of_run)
    found = []
    for number in range(runs):
        say(f"warm-up {number + 1} of {runs}")
        found.append(contender.run(effort.lead_in, with_outputs=False).figures.cpu_us)
    return found
