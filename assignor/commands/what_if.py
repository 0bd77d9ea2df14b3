"""`assignor what-if`: a recorded round, or a whole history, run again under other conditions, and what is different."""

from __future__ import annotations

import contextlib
import gzip
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from assignor.commands.change_options import changes_from_options
from assignor.commands.console import EXIT_UNUSABLE, Format, as_line, leave, say
from assignor.commands.option_groups import options_of
from assignor.commands.what_if_history import History
from assignor.commands.what_if_picture import draw
from assignor.commands.what_if_text import difference_text
from assignor.errors import AssignorFault, InputError
from assignor.figures import check_picture_path, save_figure
from assignor.reading.chosen_rebalances import ChosenRebalances
from assignor.reading.lines import Line
from assignor.reading.own_assignors import load_own_assignor
from assignor.rerun import Rerun, parse_recorded, run_recorded
from assignor.what_if import Changes, Difference, changed, changed_document, difference, difference_document
from assignor.what_if.difference import RESTORE_RECORDS_PER_S


def register(app: typer.Typer) -> None:
    app.command("what-if")(what_if_files)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is wanted of the rounds: which, changed how, shown how."""

    rounds: ChosenRebalances
    changes: Changes
    restore_rate: float


@dataclass(frozen=True, slots=True)
class _Answer:
    before: Rerun
    after: Rerun
    difference: Difference


@options_of(changes=changes_from_options)
def what_if_files(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings, or - for stdin.")],
    *,
    id: Annotated[str | None, typer.Option("--id", help="Only the round with this id.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="G", help="Only rounds of this group.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Every round: a row for each, and totals.")] = False,
    changes: Changes,
    restore_rate: Annotated[
        float, typer.Option("--restore-rate", metavar="R", help="Records a stream thread restores in a second.")
    ] = RESTORE_RECORDS_PER_S,
    picture: Annotated[
        str | None, typer.Option("--picture", metavar="F", help="Draw the one round: a .svg or .png file.")
    ] = None,
    write: Annotated[
        str | None, typer.Option("--write", metavar="F", help="Write the changed rounds here, for the other commands.")
    ] = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Run recorded rounds as they are and as they would be, and say what is different.

    Takes the last round of each group, unless --id names one or --all asks for every one.
    """
    if changes == Changes():
        raise InputError("nothing is to be different; say what with --set, --add-instances, --remove, ... (--help)")
    if not (math.isfinite(restore_rate) and restore_rate > 0):
        raise InputError(f"must be a number above 0, not {restore_rate:g}", "--restore-rate")
    if picture is not None:
        if all:
            raise InputError("shows one round, so it cannot go with --all", "--picture")
        check_picture_path(picture)
    asked = _Asked(ChosenRebalances(tuple(files), id, group, all), changes, restore_rate)
    with _lines_written(write) as out:
        unusable = _answer_all(asked, format, picture, out)
    if unusable:
        leave(EXIT_UNUSABLE)


_Write = Callable[[bytes], object]


def _answer_all(asked: _Asked, format: Format, picture: str | None, out: _Write | None) -> int:
    """Gives the number of lines that could not be used."""
    history = History() if asked.rounds.all else None
    answered = unusable = 0
    shown: _Answer | None = None
    for line in asked.rounds.lines():
        try:
            shown = _answer(line, asked)
        except AssignorFault as error:
            unusable += 1
            say(f"{line.where}: {error}")
            continue
        answered += 1
        if out is not None:
            out(f"{as_line(changed_document(shown.after.recorded, asked.changes))}\n".encode())
        if history is not None:
            history.add(shown.before, shown.after, shown.difference, format)
        else:
            _print(shown, asked, format)
    if history is not None:
        history.print_totals(format)
    if not answered and not unusable:
        raise InputError("there is no such round", " ".join(asked.rounds.files))
    if picture is not None and shown is not None:
        if answered > 1:
            raise InputError(f"shows one round, and these are {answered}; choose with --group or --id", "--picture")
        save_figure(draw(shown.before, shown.after), picture)
    return unusable


def _answer(line: Line, asked: _Asked) -> _Answer:
    if line.document is None:
        raise InputError(line.problem or "is not usable")
    recorded = parse_recorded(line.document)
    before = run_recorded(recorded, load_own_assignor)
    after = run_recorded(changed(recorded, asked.changes), load_own_assignor)
    return _Answer(before, after, difference(before, after, restore_records_per_s=asked.restore_rate))


def _print(answer: _Answer, asked: _Asked, format: Format) -> None:
    if format is Format.JSON:
        print(as_line({"id": answer.before.id, **difference_document(answer.difference)}))
    else:
        print(difference_text(answer.before, answer.after, answer.difference, asked.changes))


@contextlib.contextmanager
def _lines_written(file: str | None) -> Iterator[_Write | None]:
    """A file is complete or not there at all; gzip when its name ends so."""
    if file is None:
        yield None
        return
    partial = f"{file}.partial"
    try:
        with open(partial, "wb") as raw:
            if file.endswith(".gz"):
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
                    yield packed.write
            else:
                yield raw.write
        os.replace(partial, file)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file) from None
    finally:
        with contextlib.suppress(OSError):
            os.remove(partial)
