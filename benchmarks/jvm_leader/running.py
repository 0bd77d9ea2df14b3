"""CPU and wall of a whole rebalance and of the task assignor alone, beside Kafka Streams' own classes in a JVM.

Both get the same bytes, run in turns, and have to send the same bytes. Cold: the first run of a fresh process. Warm:
the median of later runs, after a warm-up. The ratio is our CPU time over that of the JVM's leader thread, without its
GC and JIT threads; the whole JVM process' CPU stands beside it.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from assignor.pipeline import assign
from assignor.task_assignors import task_movement
from benchmarks.jvm_leader.cells import ASSIGNORS, QUICK, REBALANCES, SECOND, SHAPE_NAMES, STRATEGIES, Cell, Choice
from benchmarks.jvm_leader.codec import measure_codec
from benchmarks.jvm_leader.contenders import HARNESS, JVM, RunTimes
from benchmarks.jvm_leader.growth import growing_cells, measure_growth
from benchmarks.jvm_leader.measuring import Effort, measure
from benchmarks.jvm_leader.results import MeasuredCells
from benchmarks.jvm_leader.tables import codec_page, growth_page, pages, ratios
from benchmarks.shapes import PLAIN, Placing, Shape, first_rebalance, second_rebalance
from benchmarks.turns import progress
from tests.oracle import jars

QUICK_EFFORT = Effort(cold_runs=1, runs=3, warm_up_s=0.5, our_warm_up_runs=1)
CODEC_SHAPE, QUICK_CODEC_SHAPE = "5000x50", "1000x10"
MINUTES = 40.0
_WIDTH = 160


def run(console: Console, *, quick: bool = False) -> None:
    """Everything that fits into 40 minutes, or with `quick` two small shapes."""
    _Run(_wide(console), QUICK if quick else Choice(), QUICK_EFFORT if quick else Effort()).print()


def run_with_options(console: Console, arguments: Sequence[str]) -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks jvm-leader",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--assignor", choices=ASSIGNORS, action="append", help="may be repeated; all of them")
    parser.add_argument("--racks", choices=STRATEGIES, action="append", help="rack.aware.assignment.strategy")
    parser.add_argument("--shape", choices=SHAPE_NAMES, action="append", help="tasks x clients")
    parser.add_argument("--rebalance", choices=REBALANCES, action="append")
    parser.add_argument("--quick", action="store_true", help="two small shapes, HighAvailability, a few seconds")
    parser.add_argument("--ours-only", action="store_true", help="without a JVM, so without ratios")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="begin no cell later (default %(default)g)")
    parser.add_argument("--results", type=Path, help="a file that cells are added to; what it has is not run again")
    parser.add_argument("--markdown", type=Path, help="a file for the tables as Markdown")
    options = parser.parse_args(arguments)
    default = QUICK if options.quick else Choice()
    choice = Choice(
        options.assignor or default.assignors,
        options.racks or default.strategies,
        options.shape or default.shapes,
        options.rebalance or default.rebalances,
    )
    effort = QUICK_EFFORT if options.quick else Effort()
    _Run(_wide(console), choice, effort, options.ours_only, options.minutes, options.results, options.markdown).print()


def _wide(console: Console) -> Console:
    return Console(file=console.file, width=max(console.width, _WIDTH))


def _form() -> str:
    """What runs: setup.py says what is compiled, if anything is."""
    form = "in Python" if (task_movement.__file__ or "").endswith(".py") else "compiled"
    return f"ours: the hottest part runs {form}"


class _Run:
    """`print` measures what the choice has and the results do not, and prints all of it."""

    def __init__(
        self,
        console: Console,
        choice: Choice,
        effort: Effort,
        ours_only: bool = False,
        minutes: float = MINUTES,
        results: Path | None = None,
        markdown: Path | None = None,
    ) -> None:
        self._console = console
        self._choice = choice
        self._effort = effort
        self._with_jvm = not ours_only
        self._until = time.monotonic() + 60 * minutes
        self._results = MeasuredCells(results)
        self._markdown = markdown
        self._sent_first: tuple[tuple[Placing, Shape], Mapping[str, bytes]] | None = None

    def print(self) -> None:
        self._console.print(_form())
        if self._with_jvm:
            try:
                jars.compiled(HARNESS)
            except jars.JarsUnavailable as reason:
                self._console.print(f"without the JVM: {reason}")
                self._with_jvm = False
        cells = self._choice.cells()
        left = self._measure(cells)
        measured = self._results.all_of(cells)
        tables = pages(measured)
        grown = self._growth(cells)
        if grown:
            tables.append(growth_page(grown))
        tables.append(codec_page(self._codec()))
        for table in tables:
            self._console.print(table.for_console())
        if self._markdown is not None:
            self._markdown.write_text("\n".join(table.as_markdown() for table in tables), encoding="utf-8")
        if left:
            self._console.print(f"not measured in time: {left} of {len(cells)} cells; --minutes gives more")
        worst = max(ratios(measured), default=None)
        if worst is None:
            self._console.print("no JVM, no ratio")
        else:
            self._console.print(str(worst), soft_wrap=True)
            self._console.print(f"worst ratio {worst.value:.2f}")

    def _measure(self, cells: Sequence[Cell]) -> int:
        """How many cells there was no time for."""
        left = 0
        with progress() as bar, tempfile.TemporaryDirectory(prefix="bench-jvm-leader-") as directory:
            work = bar.add_task("cells", total=len(cells))
            for cell in cells:
                if self._results.of(cell, with_jvm=self._with_jvm) is None and not self._jvm_gave_up_on(cell, cells):
                    if time.monotonic() > self._until:
                        left += 1
                    else:
                        self._measure_cell(cell, Path(directory), lambda what: bar.update(work, description=what))
                bar.advance(work)
        return left

    def _measure_cell(self, cell: Cell, directory: Path, say: Callable[[str], None]) -> None:
        def say_of_cell(what: str) -> None:
            say(f"{cell.name}: {what}")

        say_of_cell("the first rebalance, before the clock")
        snapshot = cell.snapshot(self._first_assignments(cell))
        measured = measure(cell, snapshot, directory, self._effort, with_jvm=self._with_jvm, say=say_of_cell)
        self._results.add(measured)

    def _growth(self, cells: Sequence[Cell]) -> Mapping[tuple[str, str], Sequence[tuple[int, RunTimes]]]:
        """By assignor and rebalance, as far as there is time."""
        grown: dict[tuple[str, str], Sequence[tuple[int, RunTimes]]] = {}
        with progress() as bar, tempfile.TemporaryDirectory(prefix="bench-jvm-leader-") as directory:
            series = growing_cells(cells)
            work = bar.add_task("growth", total=len(series))
            for of_sizes in series:
                if time.monotonic() <= self._until:
                    cell = of_sizes[0]
                    grown[cell.placing.assignor, cell.rebalance] = measure_growth(
                        of_sizes,
                        self._first_assignments,
                        Path(directory),
                        self._effort,
                        lambda what: bar.update(work, description=what),
                    )
                bar.advance(work)
        return grown

    def _jvm_gave_up_on(self, cell: Cell, cells: Sequence[Cell]) -> bool:
        """With racks, whether the JVM did not finish a smaller shape of the same series."""
        if not cell.placing.has_racks:
            return False
        smaller = [
            other
            for other in cells
            if replace(other, shape=cell.shape) == cell
            and other.shape.threads == cell.shape.threads
            and other.shape.tasks < cell.shape.tasks
        ]
        return any(JVM in each.cold and each.cold[JVM].over for each in self._results.all_of(smaller))

    def _first_assignments(self, cell: Cell) -> Mapping[str, bytes]:
        key = (cell.placing, cell.shape)
        if self._sent_first is None or self._sent_first[0] != key:
            result = assign(first_rebalance(cell.shape, cell.placing), 0)
            self._sent_first = (key, result.assignments)
        return self._sent_first[1]

    def _codec(self) -> Mapping[str, Mapping[str, float]]:
        quick = self._effort == QUICK_EFFORT
        cell = Cell(PLAIN, SHAPE_NAMES[QUICK_CODEC_SHAPE if quick else CODEC_SHAPE], SECOND)
        snapshot = second_rebalance(cell.shape, self._first_assignments(cell))
        with progress() as bar, tempfile.TemporaryDirectory(prefix="bench-jvm-leader-") as directory:
            work = bar.add_task("codec", total=None)
            return measure_codec(
                snapshot,
                Path(directory),
                self._effort,
                with_jvm=self._with_jvm,
                say=lambda what: bar.update(work, description=what),
            )
