"""`assignor what-if`: runs recorded rebalances again under other conditions, and shows the differences.

With --all, the command prints a row after each rebalance, and the totals at the end.
"""

import contextlib
import gzip
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from assignor.errors import InputError
from assignor.names.printable import one_line
from assignor.names.short_names import shortened
from assignor.recording import line_of_document
from assignor_cli.console import LinesSetAside
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, data_text, show, view_of
from assignor_cli.tables import fitted
from operating_system.private_files import private_opener
from operating_system.whole_files import input_errors, whole_file
from rebalance_analysis.commands.pictures import PictureOption, draw_what_if
from rebalance_analysis.commands.shared_options import (
    Recordings,
    RestoreRateOption,
    changes_from_options,
    choice_from_options,
    results_of_choice,
)
from rebalance_analysis.figures import check_picture_path, save_figure
from rebalance_analysis.measures import RebalanceMeasures
from rebalance_analysis.presentation.comparisons import difference_text, not_placed, seconds_text
from rebalance_analysis.presentation.quantities import UNKNOWN, count_text, counted
from rebalance_analysis.reading.lines import Line, LineChoice
from rebalance_analysis.reading.own_assignors import load_own_assignor
from rebalance_analysis.rerun import Rerun, parse_recorded, run_recorded
from rebalance_analysis.what_if import Changes, changed, difference, difference_document
from rebalance_analysis.what_if.changed_rebalance import changed_document
from rebalance_analysis.what_if.difference import RESTORE_RECORDS_PER_S, ComparedRebalance, Difference

_Write = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """The command-line options of `what-if` for measures and output. The constructor raises InputError if the restore
    rate is not above 0.
    """

    restore_rate: RestoreRateOption = RESTORE_RECORDS_PER_S
    picture: PictureOption = None
    write: Annotated[
        str | None,
        typer.Option("--write", metavar="F", help="Write the changed rebalances to F, as input of other commands."),
    ] = None
    format: FormatOption = Format.TEXT

    def __post_init__(self) -> None:
        if not (math.isfinite(self.restore_rate) and self.restore_rate > 0):
            raise InputError(f"must be a number above 0, not {self.restore_rate:g}", "--restore-rate")


@dataclass(frozen=True, slots=True)
class _Compared:
    """A recorded rebalance and two results: without the changes and with the changes."""

    before: Rerun
    after: Rerun
    difference: Difference

    def document(self) -> dict[str, object]:
        return {"id": self.before.id, **difference_document(self.difference)}


@options_of(choice=choice_from_options, changes=changes_from_options, options=WhatIfOptions)
def what_if_files(files: Recordings, *, choice: LineChoice, changes: Changes, options: WhatIfOptions) -> None:
    """Show the effect of other conditions on recorded rebalances.

    Runs each rebalance without and with the changes, and compares the two results.

    By default, uses the last rebalance of each group. --id chooses another rebalance, and --all chooses every
    rebalance.
    """
    if changes == Changes():
        raise InputError("nothing is to be different; say what with --set, --add-instances, --remove, ... (--help)")
    if options.picture is not None:
        if choice.all:
            raise InputError("shows one rebalance, so it cannot go with --all", "--picture")
        check_picture_path(options.picture)
    set_aside = LinesSetAside()
    history = _History(options.format)
    last: _Compared | None = None
    count = 0
    with _lines_written(options.write) as write:
        compare = partial(_compare, changes=changes, restore_rate=options.restore_rate)
        for last in results_of_choice(files, choice, compare, set_aside):
            count += 1
            if write is not None:
                write(f"{line_of_document(changed_document(last.after.recorded, changes))}\n".encode())
            if choice.all:
                history.add(last)
            else:
                text = difference_text(last.before, last.after, last.difference, changes)
                show(last.document(), fitted(text, view_of(options.format)), options.format)
        if choice.all:
            history.print_totals()
        if options.picture is not None and last is not None:
            if count > 1:
                raise InputError(
                    f"shows one rebalance, and these are {count}; choose with --group or --id", "--picture"
                )
            save_figure(draw_what_if(last.before, last.after), options.picture)
    set_aside.leave_if_any()


def _compare(line: Line, changes: Changes, restore_rate: float) -> _Compared:
    """Runs the rebalance of one input line with and without the changes, and compares the results. Raises AssignorFault
    for a line that cannot be used.
    """
    recorded = parse_recorded(line.usable_document())
    before = run_recorded(recorded, load_own_assignor)
    after = run_recorded(changed(recorded, changes), load_own_assignor)
    return _Compared(before, after, difference(before, after, restore_records_per_s=restore_rate))


@contextlib.contextmanager
def _lines_written(file: str | None) -> Iterator[_Write | None]:
    """Yields a function that writes a line to a file; None if no file is given. If the name of the file ends in .gz,
    the file is compressed with gzip. If an error occurs, no file is written.
    """
    if file is None:
        yield None
        return
    # private_opener: only the owner of the file may read the changed recordings
    with input_errors("cannot be written", file), whole_file(file, private_opener) as raw:
        if file.endswith(".gz"):
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
                yield packed.write
        else:
            yield raw.write


_Columns = tuple[tuple[str, int], ...]

_ID_WIDTH = 15
_SHORTEST_ID = 12
_WIDE_ID_WIDTH = 24
_COLUMNS: _Columns = (("moves", 10), ("standbys", 10), ("warm-ups", 8), ("elsewhere", 9), ("to restore", 18))
_WIDE_COLUMNS: _Columns = (
    ("active moves", 15),
    ("standby moves", 15),
    ("warm-ups", 15),
    ("elsewhere", 9),
    ("to restore", 27),
    ("time", 21),
)


_SUMMED = ("active_moved", "standby_moved", "warm_ups", "records_to_restore")
"""The fields of `RebalanceMeasures` that have a column in the rows and a sum in the totals."""
_UNKNOWN_LAGS, _PROBING = "rounds_with_unknown_lags", "probing_rebalances"


def _no_totals() -> Counter[str]:
    """Returns totals with the value 0. A total includes only rebalances that placed tasks. The total of
    `records_to_restore` leaves out rebalances with unknown lags.
    """
    return Counter(dict.fromkeys((*_SUMMED, _UNKNOWN_LAGS, _PROBING), 0))


def _figures(measures: RebalanceMeasures) -> dict[str, int | None]:
    return {name: getattr(measures, name) for name in _SUMMED}


def _add(totals: Counter[str], figures: Mapping[str, int | None], compared: ComparedRebalance) -> None:
    totals.update({name: count or 0 for name, count in figures.items()})
    totals[_UNKNOWN_LAGS] += figures["records_to_restore"] is None
    totals[_PROBING] += compared.probing_rebalance_needed


class _History:
    """Prints the row of each rebalance immediately, and stores only the totals. The rows of a long history may need too
    much memory.
    """

    def __init__(self, format: Format) -> None:
        self._format = format
        self._rebalances = 0
        self._not_placed = 0
        self._active_elsewhere = 0
        self._before = _no_totals()
        self._after = _no_totals()

    def add(self, compared: _Compared) -> None:
        self._rebalances += 1
        difference = compared.difference
        cells: list[str] = []
        before, after = difference.before.measures, difference.after.measures
        if before is None or after is None:
            self._not_placed += 1
        else:
            _add(self._before, _figures(before), difference.before)
            _add(self._after, _figures(after), difference.after)
            self._active_elsewhere += difference.active_elsewhere
            time = f"{_seconds(difference.before.restore_s)} -> {_seconds(difference.after.restore_s)}"
            cells = _cells(_figures(before), _figures(after), difference.active_elsewhere, time)
        if self._format.is_data:
            print(data_text(compared.document(), self._format))
            return
        if self._rebalances == 1:
            columns = _WIDE_COLUMNS if self._format is Format.WIDE else _COLUMNS
            print(_line("as is > what if", [name for name, _ in columns], self._format))
        problem = not_placed(difference)
        if problem is None:
            print(_line(one_line(compared.before.id), cells, self._format))
        else:
            which, error = problem
            print(fitted(f"{compared.before.id}  {which}, no task is placed: {error}", view_of(self._format)))

    def print_totals(self) -> None:
        if self._format.is_data:
            print(data_text({"totals": self._document()}, self._format))
            return
        if not self._rebalances:
            return
        cells = _cells(self._before, self._after, self._active_elsewhere, "")
        print(_line(counted(self._rebalances, "rebalance"), cells, self._format))
        for count, what in (
            (self._not_placed, "placed no tasks, as they are or what if, and are not in the sums"),
            (self._after[_UNKNOWN_LAGS], "have lags that are not known; their records to restore are not in the sum"),
        ):
            if count:
                print(f"{count:,} of them {what}")

    def _document(self) -> dict[str, object]:
        return {
            "rounds": self._rebalances,
            "not_placed": self._not_placed,
            "active_elsewhere": self._active_elsewhere,
            "before": dict(self._before),
            "after": dict(self._after),
        }


def _cells(before: Mapping[str, int | None], after: Mapping[str, int | None], elsewhere: int, time: str) -> list[str]:
    *moved, records = (_pair(before[name], after[name]) for name in _SUMMED)
    return [*moved, count_text(elsewhere), records, time]


def _line(name: str, cells: list[str], format: Format) -> str:
    """Formats a row of the table. Only the wide table has a column for the time."""
    columns, first = _COLUMNS, f"{shortened(name, _ID_WIDTH):<{_ID_WIDTH}}"
    if format is Format.WIDE:
        columns, first = _WIDE_COLUMNS, f"{name:<{_WIDE_ID_WIDTH}}"
    figures = "  ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, columns, strict=False)).rstrip()
    line = f"{first}  {figures}"
    view = view_of(format)
    if view.wide or len(line) <= view.width:
        return line
    # if numbers are wider than their columns, shorten the name, so that the line still fits
    room = max(view.width - len(figures) - 2, _SHORTEST_ID)
    return fitted(f"{shortened(name, room):<{room}}  {figures}", view)


def _pair(before: int | None, after: int | None) -> str:
    return " -> ".join(UNKNOWN if count is None else count_text(count) for count in (before, after))


def _seconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else seconds_text(seconds)
