"""`assignor assign`: rebalance/1 and placement/1 lines in, what the leader decides out; or how that compares."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, TextIO

import typer

from assignor.commands.check import Tally
from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, Format, as_line, leave, say
from assignor.commands.output_text import output_text
from assignor.errors import AssignorFault, InputError, NotBuiltYet
from assignor.reading.lines import read_lines
from assignor.reading.own_assignors import load_own_assignor
from assignor.reading.sources import shown
from assignor.rerun import Rerun, run


def register(app: typer.Typer) -> None:
    app.command("assign")(assign_files)


def assign_files(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="JSON Lines, plain or gzip; - for stdin.")],
    output: Annotated[
        str | None, typer.Option("--output", metavar="F", help='Write {"id", "output"} lines here, not on stdout.')
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the recorded output; exit 1 on any difference.")
    ] = False,
    format: Annotated[
        Format | None, typer.Option("--format", help="Default: json for results, text for --check.")
    ] = None,
) -> None:
    """Run recorded rebalances and placement problems again.

    A line that cannot be used is reported as file:line and the next one is run; then the exit code is 2.
    """
    tally = Tally()
    with _writer(output, check) as out:
        for ran in _rounds(files, tally, check):
            if out is not None:
                out.write(_result_line(ran, Format.JSON if output is not None else format or Format.JSON))
    if check:
        if tally.total == 0:
            raise InputError("there is no line to check", " ".join(map(shown, files)))
        print(as_line(tally.as_document()) if format is Format.JSON else tally.as_text())
    if tally.unusable:
        leave(EXIT_UNUSABLE)
    if tally.refused or not tally.all_equal:
        leave(EXIT_NO)


def _rounds(files: Sequence[str], tally: Tally, check: bool) -> Iterator[Rerun]:
    for line in read_lines(files):
        tally.total += 1
        if line.document is None:
            tally.unusable += 1
            say(f"{line.where}: {line.problem}")
            continue
        try:
            ran = run(line.document, load_own_assignor)
            if check:
                tally.add_round(line.where, ran)
        except NotBuiltYet as error:
            tally.add_refused(str(error))
            say(f"{line.where}: refused: {error}")
        except AssignorFault as error:
            tally.unusable += 1
            say(f"{line.where}: {error}")
        else:
            yield ran


def _result_line(ran: Rerun, format: Format) -> str:
    document: dict[str, object] = {"id": ran.id, "output": ran.output()}
    return f"{output_text(ran) if format is Format.TEXT else as_line(document)}\n"


@contextlib.contextmanager
def _writer(output: str | None, check: bool) -> Iterator[TextIO | None]:
    """Where results go; nowhere when they are only checked. A file is complete or not there at all."""
    if output is None:
        yield None if check else sys.stdout
        return
    partial = f"{output}.partial"
    try:
        with open(partial, "w", encoding="utf-8") as stream:
            yield stream
        os.replace(partial, output)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", output) from None
    finally:
        with contextlib.suppress(OSError):
            os.remove(partial)
