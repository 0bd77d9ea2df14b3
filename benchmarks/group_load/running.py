"""`python -m benchmarks group-load` runs every row; `python -m benchmarks.group_load ROW ...` those that are named."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.group_load.results import DEFAULT_FILE, Results, missed, newest, print_table
from benchmarks.group_load.rows import ROWS

TITLE = "A group under load, 2 cores, members on the same machine"


def run(console: Console, *, quick: bool = False) -> None:
    """Every row, one after the other, and the table of what they measured."""
    run_rows(console, list(ROWS), Results(DEFAULT_FILE, quick))


def run_rows(console: Console, names: Sequence[str], results: Results) -> None:
    """A row that fails is in the table as missed, and the others run all the same."""
    for name in names:
        begun = time.monotonic()
        try:
            ROWS[name](results)
        except Exception as fault:
            results.add(name, "failed", 1, "", 0, f"{type(fault).__name__}: {fault}"[:300])
        console.print(f"{name}: {time.monotonic() - begun:.0f} s", highlight=False)
    print_table(console, results.figures, TITLE)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.group_load", description="Measure a group under load, and print a table."
    )
    parser.add_argument("rows", metavar="ROW", nargs="*", help=f"one of {', '.join(ROWS)}; none: all of them")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--results", type=Path, default=DEFAULT_FILE, help="JSON Lines to append the figures to")
    parser.add_argument("--table", action="store_true", help="measure nothing; print the newest figures of the file")
    options = parser.parse_args(arguments)
    if unknown := [row for row in options.rows if row not in ROWS]:
        parser.error(f"there is no row {', '.join(unknown)}; choose from {', '.join(ROWS)}")
    console = Console(width=150)
    if options.table:
        print_table(console, newest(options.results, quick=options.quick), TITLE)
        return 0
    results = Results(options.results, options.quick)
    run_rows(console, options.rows or list(ROWS), results)
    return 1 if missed(results.figures) else 0
