"""`python -m benchmarks group-load` runs every row; `python -m benchmarks.group_load ROW ...` those that are named;
`--stores` and `--beside DIR` compare coordinators in turns instead.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.group_load.checkouts import NoCheckout
from benchmarks.group_load.comparison import TURNS, compare
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
    parser.add_argument("--stores", action="store_true", help="no rows: SQLite and PostgreSQL, in turns")
    parser.add_argument(
        "--beside", metavar="DIR", type=Path, help="as --stores, and in turns with them another checkout on SQLite"
    )
    parser.add_argument("--turns", metavar="N", type=int, help=f"of --stores and --beside; {TURNS}")
    options = parser.parse_args(arguments)
    if options.stores or options.beside is not None:
        if options.rows or options.table:
            parser.error("--stores and --beside run no rows and print no table of rows")
        return _compare(parser, options)
    if options.turns is not None:
        parser.error("--turns is of --stores and --beside")
    if unknown := [row for row in options.rows if row not in ROWS]:
        parser.error(f"there is no row {', '.join(unknown)}; choose from {', '.join(ROWS)}")
    console = Console(width=150)
    if options.table:
        print_table(console, newest(options.results, quick=options.quick), TITLE)
        return 0
    results = Results(options.results, options.quick)
    run_rows(console, options.rows or list(ROWS), results)
    return 1 if missed(results.figures) else 0


def run_with_options(console: Console, arguments: Sequence[str]) -> None:
    """As `main`, for `python -m benchmarks group-load`. Raises SystemExit for figures that missed their goal."""
    if code := main(arguments):
        raise SystemExit(code)


def _compare(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.turns is not None and options.turns < 1:
        parser.error("--turns takes 1 or more")
    try:
        compare(Console(width=150), options.beside, options.turns, quick=options.quick)
    except NoCheckout as reason:
        parser.error(str(reason))
    return 0
