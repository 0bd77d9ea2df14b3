"""Prints the results of all commands to stdout, and declares the options `-o/--format` and `-w/--watch`.

A command without the option `--watch` has the parameter `format: FormatOption = Format.TEXT`, and calls `show(document,
text, format)`. `show` prints `document` as JSON or YAML. `text` is the text for people: a string, or a function that
makes the string for a `View`. A `View` has the width, a flag for `-o wide`, and the time for AGE columns. If `text` is
a function, `show` calls it only for the formats text and wide. A command with several results calls `show` for each
result.

If the result of a command changes over time, the command has a parameter `output: ResultOutput`. `output_from_options`
makes this value (see `option_groups.py`). The command calls `output.show(ask, as_text)`, where `ask()` returns the
document, and `as_text(document, view)` returns its text. With `--watch`, `ask` and `as_text` are called periodically
until Ctrl-C:

    @options_of(output=output_from_options)
    def list_topics(log: LogOption, output: ResultOutput) -> None:
        output.show(lambda: topics_document(log), topic_table)

    def topic_table(document: Any, view: View) -> str:
        return table_text("No topics.", COLUMNS, rows_of(document), view)

The module `tables.py` makes tables with headings as in kubectl, and narrows the tables to the view.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from assignor.errors import AssignorFault, InputError
from assignor.names.printable import json_text, lines
from assignor.recording import line_of_document
from assignor_cli.console import print_message
from assignor_cli.tables import View

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_COLUMNS = 80
FEWEST_COLUMNS = 40
DEFAULT_INTERVAL_S = 2.0
_WITHOUT_A_LIMIT = 10_000

Document = TypeVar("Document")


class Format(StrEnum):
    """The output format of a result. The formats `json` and `yaml` are for programs, and have complete data with full
    names.
    """

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_data(self) -> bool:
        return self in (Format.JSON, Format.YAML)


FormatOption = Annotated[
    Format,
    typer.Option(
        "--format", "-o", help="Output format: text for people, wide with full names and all details, json or yaml."
    ),
]


ResultText = str | Callable[[View], str]


def show(document: object, text: ResultText, format: Format) -> None:
    """Prints one result to stdout. A JSON result is one line. A YAML result begins with `---`, so that several results
    can follow each other.
    """
    print(shown(document, text, format), flush=True)


def shown(document: object, text: ResultText, format: Format) -> str:
    """Returns the text that `show` prints, without the last line end."""
    if format.is_data:
        return data_text(document, format)
    return lines(text if isinstance(text, str) else text(view_of(format)))


def data_text(document: object, format: Format) -> str:
    """Returns the document as YAML if `format` is YAML, otherwise as JSON, without the last line end."""
    if format is not Format.YAML:
        return json_text(line_of_document(document))
    import yaml  # imported here, because most runs of a command do not need the yaml module

    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, explicit_start=True)
    # escape all non-ASCII characters, because some characters of the text must not be sent to a terminal
    if lines(text) != text:
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False, explicit_start=True)
    return text.removesuffix("\n").removesuffix("\n...")


def view_of(format: Format) -> View:
    """Returns the view for `format`. The width of the view is the value of the environment variable COLUMNS. If COLUMNS
    is not set, the view has the width of the terminal. Without a terminal, the view is 80 characters wide.
    """
    return View(max(_columns(), FEWEST_COLUMNS), format is Format.WIDE, int(time.time() * 1000))


def console_of(format: Format) -> Console:
    """Returns the console for rich tables. The console has the width of the view for `format`. For `-o wide`, the width
    of the console has no limit.
    """
    from rich.console import Console

    view = view_of(format)
    return Console(width=_WITHOUT_A_LIMIT if view.wide else view.width)


def _columns() -> int:
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isascii() and wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    with contextlib.suppress(OSError):  # some terminals do not report their size
        if sys.stdout.isatty():
            return os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_COLUMNS
    return DEFAULT_COLUMNS


@dataclass(frozen=True, slots=True)
class ResultOutput:
    """The output options of a command whose result can be watched. `interval_s`: the time between two updates, in
    seconds; None to print the result once.
    """

    format: Format = Format.TEXT
    interval_s: float | None = None

    def show(self, ask: Callable[[], Document], as_text: Callable[[Document, View], str]) -> Document:
        """Prints the result once, or with --watch periodically until Ctrl-C. Returns the document that was shown last.
        If the first call of `ask` raises an error, the error ends the command. If a later call of `ask` raises an
        AssignorFault, the error is printed, and `ask` is called again after the interval.
        """
        document: Document

        def result() -> str:
            nonlocal document
            document = ask()
            return shown(document, lambda view: as_text(document, view), self.format)

        if self.interval_s is None:
            print(result(), flush=True)
        else:
            watch_results(result, self.interval_s, repaint=not self.format.is_data)
        return document


def output_from_options(
    *,
    format: FormatOption = Format.TEXT,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show the result periodically, until Ctrl-C.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval", metavar="SECONDS", help=f"Time between updates of --watch. Default: {DEFAULT_INTERVAL_S:g}."
        ),
    ] = None,
) -> ResultOutput:
    """Makes the ResultOutput from the options. Raises InputError for an interval without --watch, and for an interval
    outside 0.1 to 3600 s.
    """
    if interval is not None and not watch:
        raise InputError("says how often --watch looks, so it needs --watch", "--interval")
    if interval is not None and not 0.1 <= interval <= 3600:
        raise InputError(f"must be from 0.1 to 3600 seconds, not {interval:g}", "--interval")
    return ResultOutput(format, (interval or DEFAULT_INTERVAL_S) if watch else None)


def watch_results(result: Callable[[], str], interval_s: float, *, repaint: bool) -> None:
    """Shows the result periodically, until Ctrl-C. If stdout is a terminal and `repaint` is True, each result replaces
    the previous result, and the last result stays on the screen. If stdout is not a terminal or `repaint` is False, a
    result is printed only if it differs from the previous result. A blank line precedes a result of several lines. If
    the first call of `result` raises an error, the error ends the command. If a later call of `result` raises an
    AssignorFault, the error is printed, and `result` is called again after the interval.
    """
    with contextlib.suppress(KeyboardInterrupt):
        first = result()
        if repaint and sys.stdout.isatty():
            _repaint(first, result, interval_s)
        else:
            _print_changes(first, result, interval_s)


def _print_changes(first: str, result: Callable[[], str], interval_s: float) -> None:
    last, failure = first, ""
    print(first, flush=True)
    while True:
        time.sleep(interval_s)
        try:
            now, failure = result(), ""
        except AssignorFault as fault:
            if str(fault) != failure:
                failure = str(fault)
                print_message(f"error: {failure}")
            continue
        if now != last:
            last = now
            print(f"\n{now}" if "\n" in now and not now.startswith("---") else now, flush=True)


def _repaint(first: str, result: Callable[[], str], interval_s: float) -> None:
    """Shows the result on the whole terminal (alternate screen). On Ctrl-C, restores the terminal and prints the last
    result.
    """
    last, last_at = first, datetime.now()
    try:
        with Live(Text(first), console=Console(), screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval_s)
                try:
                    last, last_at = result(), datetime.now()
                except AssignorFault as fault:
                    live.update(Text(f"No news since {last_at:%H:%M:%S}: {lines(str(fault))}\n\n{last}"), refresh=True)
                else:
                    live.update(Text(last), refresh=True)
    except KeyboardInterrupt:
        print(last, flush=True)
