"""`assignor what-if`: recorded rebalances run again under other conditions, and what is different."""

from __future__ import annotations

import contextlib
import gzip
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from assignor.errors import AssignorFault, InputError
from assignor.recording import line_of_document
from assignor_cli.console import LinesSetAside
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, show
from assignor_cli.tables import fitted
from operating_system.private_files import private_opener
from operating_system.whole_files import whole_file
from rebalance_analysis.commands.change_options import changes_from_options
from rebalance_analysis.commands.model_options import RestoreRateOption
from rebalance_analysis.commands.pictures import PictureOption, draw_what_if
from rebalance_analysis.commands.recorded_lines import Recordings, choice_from_options, read_with_bar
from rebalance_analysis.commands.what_if_history import History
from rebalance_analysis.figures import check_picture_path, save_figure
from rebalance_analysis.presentation.comparisons import difference_text
from rebalance_analysis.reading.lines import Line, LineChoice
from rebalance_analysis.reading.own_assignors import load_own_assignor
from rebalance_analysis.rerun import Rerun, parse_recorded, run_recorded
from rebalance_analysis.what_if import Changes, Difference, changed, changed_document, difference, difference_document
from rebalance_analysis.what_if.difference import RESTORE_RECORDS_PER_S

_Write = Callable[[bytes], object]


def register(app: typer.Typer) -> None:
    app.command("what-if", epilog=example("what-if orders.jsonl.gz --add-instances 2x4 --remove orders-7"))(
        what_if_files
    )


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """How a what-if is measured and shown. Raises InputError for a rate or a picture that cannot be."""

    restore_rate: RestoreRateOption = RESTORE_RECORDS_PER_S
    picture: PictureOption = None
    write: Annotated[
        str | None,
        typer.Option("--write", metavar="F", help="Write the changed rebalances here, for the other commands."),
    ] = None
    format: FormatOption = Format.TEXT

    def __post_init__(self) -> None:
        if not (math.isfinite(self.restore_rate) and self.restore_rate > 0):
            raise InputError(f"must be a number above 0, not {self.restore_rate:g}", "--restore-rate")


@dataclass(frozen=True, slots=True)
class _Compared:
    """One recorded rebalance, run as it was recorded and with the changes."""

    before: Rerun
    after: Rerun
    difference: Difference


@options_of(choice=choice_from_options, changes=changes_from_options, options=WhatIfOptions)
def what_if_files(files: Recordings, *, choice: LineChoice, changes: Changes, options: WhatIfOptions) -> None:
    """Show what other conditions would have changed.

    Runs recorded rebalances as recorded and as changed, and compares the two.

    Takes the last rebalance of each group, unless --id names one or --all asks for every one.
    """
    if changes == Changes():
        raise InputError("nothing is to be different; say what with --set, --add-instances, --remove, ... (--help)")
    if options.picture is not None:
        if choice.all:
            raise InputError("shows one rebalance, so it cannot go with --all", "--picture")
        check_picture_path(options.picture)
    set_aside = LinesSetAside()
    with _lines_written(options.write) as write:
        compared = _compare(choice.among(read_with_bar(files)), changes, options, set_aside, write)
        last, count = _show_history(compared, options) if choice.all else _show_each(compared, changes, options)
        if not count and not set_aside.count:
            raise InputError("there is no such rebalance", " ".join(files))
        if options.picture is not None and last is not None:
            if count > 1:
                raise InputError(
                    f"shows one rebalance, and these are {count}; choose with --group or --id", "--picture"
                )
            save_figure(draw_what_if(last.before, last.after), options.picture)
    set_aside.leave_if_any()


def _compare(
    lines: Iterator[Line], changes: Changes, options: WhatIfOptions, set_aside: LinesSetAside, write: _Write | None
) -> Iterator[_Compared]:
    """One after the other, as each is shown: a history may be longer than memory."""
    for line in lines:
        try:
            recorded = parse_recorded(line.usable_document())
            before = run_recorded(recorded, load_own_assignor)
            after = run_recorded(changed(recorded, changes), load_own_assignor)
            compared = _Compared(before, after, difference(before, after, restore_records_per_s=options.restore_rate))
        except AssignorFault as error:
            set_aside(line.where, error)
            continue
        if write is not None:
            write(f"{line_of_document(changed_document(after.recorded, changes))}\n".encode())
        yield compared


def _show_each(compared: Iterator[_Compared], changes: Changes, options: WhatIfOptions) -> tuple[_Compared | None, int]:
    """The last one shown, and how many there were."""
    last: _Compared | None = None
    count = 0
    for last in compared:
        count += 1
        text = difference_text(last.before, last.after, last.difference, changes)
        document = {"id": last.before.id, **difference_document(last.difference)}
        show(document, partial(fitted, text), options.format)
    return last, count


def _show_history(compared: Iterator[_Compared], options: WhatIfOptions) -> tuple[_Compared | None, int]:
    """The last one shown, and how many there were."""
    history = History()
    last: _Compared | None = None
    count = 0
    for last in compared:
        count += 1
        history.add(last.before, last.after, last.difference, options.format)
    history.print_totals(options.format)
    return last, count


@contextlib.contextmanager
def _lines_written(file: str | None) -> Iterator[_Write | None]:
    """The file is written as a whole or not at all. It is gzip when its name ends in .gz."""
    if file is None:
        yield None
        return
    try:
        with whole_file(file, private_opener) as raw:  # a recording
            if file.endswith(".gz"):
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
                    yield packed.write
            else:
                yield raw.write
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file) from None
