"""CPU a record and records a second of our stream thread, beside Kafka Streams 4.3.1 on the JVM.

The same topologies read the same records, exactly-once, with one stream thread and its default commit interval (100
ms): ours on the embedded log and on Kafka, Kafka Streams on the same broker. Ours is a whole instance in a group, as
`LocalRun` starts it. Everything else is left at the defaults of each side, but the record cache, which is named. Each
run has fresh state. The JVM runs the same application before, until its compiler has settled.

The clock starts after the first part of the records and stops with the last commit. CPU is that of the process, with GC
and JIT during this time; that of the stream thread alone stands beside it. The CPU of broker and coordinator does not
count. The results of all contenders have to be equal, with their timestamps: all results where each record has one, the
last of each key with a record cache.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.jvm_runtime.cells import APPLICATIONS, CACHES, KEYS, PROCESSOR, QUICK, TYPICAL_KEYS, Cell, Choice
from benchmarks.jvm_runtime.contenders import CONTENDERS, EMBEDDED, ON_KAFKA, QUIX, SEVERAL_THREADS, Places
from benchmarks.jvm_runtime.goals import goals_page
from benchmarks.jvm_runtime.input_records import Input, first_timestamp_ms
from benchmarks.jvm_runtime.measuring import QUICK as QUICK_EFFORT
from benchmarks.jvm_runtime.measuring import Effort, measure
from benchmarks.jvm_runtime.programs import HARNESS, has_quix
from benchmarks.jvm_runtime.results import MeasuredCells
from benchmarks.jvm_runtime.spark_row import measure_on_spark, spark_page
from benchmarks.jvm_runtime.tables import pages, ratios
from benchmarks.turns import load_average, progress
from tests.oracle import jars
from tests.oracle.broker import Broker

MINUTES = 60.0
_BROKER_HEAP_MB = 1024
_WIDTH = 180
_LEAD_IN_SHARE = 4


def run(console: Console, *, quick: bool = False) -> None:
    """Everything that fits into an hour, or with `quick` one application with few records."""
    _Run(
        console, QUICK if quick else Choice(), QUICK_EFFORT if quick else Effort(), CONTENDERS, with_spark=not quick
    ).print()


def run_with_options(console: Console, arguments: Sequence[str]) -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks jvm-runtime",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--application", choices=APPLICATIONS, action="append", help="may be repeated; all of them")
    parser.add_argument("--keys", type=int, action="append", help=f"how many different keys; {_listed(KEYS)}")
    parser.add_argument("--cache", choices=CACHES, action="append", help="the record cache; both")
    parser.add_argument("--contender", choices=CONTENDERS, action="append", help="may be repeated; all of them")
    parser.add_argument("--records", type=int, help="events of a run; a quarter of them comes before the clock starts")
    parser.add_argument("--runs", type=int, help="measured runs of each contender")
    parser.add_argument("--warm-up-records", type=int, help="that a JVM processes before its first measured run")
    parser.add_argument("--spark", action="store_true", help="also the keyed count on Spark, as without options")
    parser.add_argument("--quick", action="store_true", help="one application, few records, a few seconds a cell")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="begin no cell later (default %(default)g)")
    parser.add_argument("--results", type=Path, help="a file that cells are added to; what it has is not run again")
    parser.add_argument("--markdown", type=Path, help="a file for the tables as Markdown")
    options = parser.parse_args(arguments)
    default = QUICK if options.quick else Choice()
    choice = Choice(
        options.application or default.applications, options.keys or default.keys, options.cache or default.caches
    )
    effort = QUICK_EFFORT if options.quick else Effort()
    if options.records:
        effort = replace(effort, records=options.records, lead_in=options.records // _LEAD_IN_SHARE)
    effort = replace(
        effort, runs=options.runs or effort.runs, warm_up_records=options.warm_up_records or effort.warm_up_records
    )
    contenders = options.contender or CONTENDERS
    _Run(
        console,
        choice,
        effort,
        contenders,
        with_spark=options.spark,
        minutes=options.minutes,
        results=options.results,
        markdown=options.markdown,
    ).print()


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


class _Run:
    """`print` measures what the choice has and the results do not, and prints all of it."""

    def __init__(
        self,
        console: Console,
        choice: Choice,
        effort: Effort,
        contenders: Sequence[str],
        *,
        with_spark: bool,
        minutes: float = MINUTES,
        results: Path | None = None,
        markdown: Path | None = None,
    ) -> None:
        self._console = Console(file=console.file, width=max(console.width, _WIDTH))
        self._choice = choice
        self._effort = effort
        self._contenders = tuple(name for name in CONTENDERS if name in contenders)
        self._with_spark = with_spark
        self._until = time.monotonic() + 60 * minutes
        self._first_ms = first_timestamp_ms(time.time_ns() // 1_000_000)
        self._results = MeasuredCells(results)
        self._markdown = markdown

    def print(self) -> None:
        """Raises AssertionError when the results of two contenders differ."""
        cells = self._choice.cells()
        left = self._measure(cells)
        left_out_spark = self._with_spark and not self._measure_spark()
        measured, on_spark = self._results.all_of(cells), self._results.spark()
        tables = [*pages(measured), *([spark_page(on_spark)] if on_spark else []), goals_page(measured, on_spark)]
        for table in tables:
            self._console.print(table.for_console())
        if self._markdown is not None:
            self._markdown.write_text("\n".join(table.as_markdown() for table in tables), encoding="utf-8")
        self._console.print(load_average())
        if self._effort.warm_up_records < Effort().warm_up_records:
            self._console.print("with so little warm-up of the JVM: this shows that it works, not how fast it is")
        if left:
            self._console.print(f"not measured in time: {left} of {len(cells)} cells; --minutes gives more")
        if left_out_spark:
            self._console.print("not measured in time: the keyed count on Spark; --minutes gives more")
        worst = max(ratios(measured), default=None)
        if worst is None:
            self._console.print("no Kafka Streams beside ours, no ratio")
        else:
            self._console.print(str(worst), soft_wrap=True)
            self._console.print(f"worst ratio {worst.value:.2f}")

    def _measure(self, cells: Sequence[Cell]) -> int:
        """How many cells there was no time for."""
        left = 0
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-jvm-runtime-")))
            places = Places(directory / "places", self._servers(directory, stack))
            bar = stack.enter_context(progress())
            work = bar.add_task("cells", total=len(cells))
            for cell in cells:
                names = self._of_cell(cell)
                if names and self._results.of(cell, names) is None:
                    if time.monotonic() > self._until:
                        left += 1
                    else:
                        effort = self._effort.of_cell(cell)
                        what = Input(effort.records, cell.keys, self._first_ms)
                        say = _of_cell(cell, lambda words: bar.update(work, description=words))
                        self._results.add(measure(cell, what, names, places, effort, say))
                bar.advance(work)
        return left

    def _measure_spark(self) -> bool:
        """Whether there was time for it."""
        if not self._results.spark():
            if time.monotonic() > self._until:
                return False
            what = Input(self._effort.records, TYPICAL_KEYS, self._first_ms)
            with progress() as bar, tempfile.TemporaryDirectory(prefix="bench-jvm-runtime-") as directory:
                work = bar.add_task("Spark", total=None)
                self._results.add_spark(
                    measure_on_spark(what, Path(directory), lambda words: bar.update(work, description=words))
                )
        return True

    def _servers(self, directory: Path, stack: ExitStack) -> str | None:
        """Of a broker for those who need one. Without its jars they are left out."""
        if not set(ON_KAFKA) & set(self._contenders):
            return None
        try:
            jars.compiled(HARNESS)
            broker = Broker(directory / "broker", heap_mb=_BROKER_HEAP_MB, starts_fast=False)
        except jars.JarsUnavailable as reason:
            self._console.print(f"without a broker and Kafka Streams: {reason}")
            self._contenders = tuple(name for name in self._contenders if name not in ON_KAFKA)
            return None
        stack.callback(broker.stop)
        broker.start()
        return broker.bootstrap_servers

    def _of_cell(self, cell: Cell) -> tuple[str, ...]:
        """Those who have something to be compared with in this cell."""
        if cell.compares_threads:
            found = tuple(name for name in self._contenders if name in (EMBEDDED, *SEVERAL_THREADS))
            return () if found == (EMBEDDED,) else found
        left_out = SEVERAL_THREADS if cell.application == PROCESSOR and has_quix() else (*SEVERAL_THREADS, QUIX)
        return tuple(name for name in self._contenders if name not in left_out)


def _of_cell(cell: Cell, say: Callable[[str], None]) -> Callable[[str], None]:
    return lambda what: say(f"{cell.name}: {what}")
