"""Results of commands: the one place for `-o/--format`, `-w/--watch` and what goes to stdout.

A command that prints one result once takes `format: FormatOption = Format.TEXT` and calls
`show(document, text, format)`. `document` is what JSON and YAML print. `text` is what people read: a string, or a
function that makes it for a `View` (its width in columns, whether `-o wide` asks for everything, the time for AGE
columns) and is called only when text is asked for. A command with several results calls `show` for each.

A command whose result changes over time takes `output: ResultOutput` made by `output_from_options` (see
`option_groups.py`) and calls `output.show(ask, as_text)`: `ask()` gives the document, `as_text(document, view)` its
text. With `--watch` both are called again and again until Ctrl-C:

    @options_of(output=output_from_options)
    def list_topics(log: LogOption, output: ResultOutput) -> None:
        output.show(lambda: topics_document(log), topic_table)

    def topic_table(document: Any, view: View) -> str:
        return table_text("No topics.", COLUMNS, rows_of(document), view)

Tables are made by `tables.py`: headings as kubectl has them, and never wider than the view.
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
from assignor_cli.console import say
from assignor_cli.tables import View

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_COLUMNS = 80
FEWEST_COLUMNS = 40
DEFAULT_INTERVAL_S = 2.0
_WITHOUT_A_LIMIT = 10_000

Document = TypeVar("Document")


class Format(StrEnum):
    """How a result is printed. `json` and `yaml` are data: whole, with full names."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_data(self) -> bool:
        return self in (Format.JSON, Format.YAML)


FormatOption = Annotated[
    Format, typer.Option("--format", "-o", help="text for people, wide with full names and all details, json or yaml.")
]


ResultText = str | Callable[[View], str]


def show(document: object, text: ResultText, format: Format) -> None:
    """Prints one result to stdout. JSON is one line. YAML is one document after `---`, so that several can follow
    each other.
    """
    print(shown(document, text, format), flush=True)


def shown(document: object, text: ResultText, format: Format) -> str:
    """What `show` prints, without the last line end."""
    if format.is_data:
        return data_text(document, format)
    return lines(text if isinstance(text, str) else text(view_of(format)))


def data_text(document: object, format: Format) -> str:
    """The document as JSON, or as YAML when that is asked for; without the last line end."""
    if format is not Format.YAML:
        return json_text(line_of_document(document))
    import yaml  # loaded for this format alone: most runs of a command do without

    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, explicit_start=True)
    if lines(text) != text:  # then it escapes everything that is not ASCII
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False, explicit_start=True)
    return text.removesuffix("\n").removesuffix("\n...")


def view_of(format: Format) -> View:
    """The width is that of COLUMNS or of the terminal, and 80 where there is neither, as in a pipe."""
    return View(max(_columns(), FEWEST_COLUMNS), format is Format.WIDE, int(time.time() * 1000))


def console_of(format: Format) -> Console:
    """For what rich prints: as wide as the text of every other command, and with `-o wide` without a limit."""
    from rich.console import Console  # loaded for those that print tables of rich alone

    view = view_of(format)
    return Console(width=_WITHOUT_A_LIMIT if view.wide else view.width)


def _columns() -> int:
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isascii() and wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    with contextlib.suppress(OSError):  # a terminal that does not know its size
        if sys.stdout.isatty():
            return os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_COLUMNS
    return DEFAULT_COLUMNS


@dataclass(frozen=True, slots=True)
class ResultOutput:
    """What the options say of a result that can be watched. `interval_s`: None to show it once."""

    format: Format = Format.TEXT
    interval_s: float | None = None

    def show(self, ask: Callable[[], Document], as_text: Callable[[Document, View], str]) -> None:
        """Prints the result; with --watch until Ctrl-C: a later `ask` that fails is reported and repeated. Raises
        what `ask` raises the first time.
        """

        def result() -> str:
            document = ask()
            return shown(document, lambda view: as_text(document, view), self.format)

        if self.interval_s is None:
            print(result(), flush=True)
        else:
            watch_results(result, self.interval_s, repaint=not self.format.is_data)


def output_from_options(
    *,
    format: FormatOption = Format.TEXT,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show the result again and again, until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval", metavar="SECONDS", help=f"How often --watch looks. Default: {DEFAULT_INTERVAL_S:g}."
        ),
    ] = None,
) -> ResultOutput:
    """Raises InputError for an interval without --watch, or one that is too short."""
    if interval is not None and not watch:
        raise InputError("says how often --watch looks, so it needs --watch", "--interval")
    if interval is not None and not 0.1 <= interval <= 3600:
        raise InputError(f"must be from 0.1 to 3600 seconds, not {interval:g}", "--interval")
    return ResultOutput(format, (interval or DEFAULT_INTERVAL_S) if watch else None)


def watch_results(result: Callable[[], str], interval_s: float, *, repaint: bool) -> None:
    """Returns at Ctrl-C. On a terminal, with `repaint`, the result replaces the one before, and the last one stays on
    the screen. Otherwise each result that differs from the one before is printed, after a blank line when it has
    several lines. Raises what `result` raises the first time; a later AssignorFault is reported, and the result is
    asked for again.
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
                say(f"error: {failure}")
            continue
        if now != last:
            last = now
            print(f"\n{now}" if "\n" in now and not now.startswith("---") else now, flush=True)


def _repaint(first: str, result: Callable[[], str], interval_s: float) -> None:
    """The result has the whole screen, and what it was at the end stays when the screen is given back."""
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
