"""The program `assignor`. This package brings `assign`, `decode`, `explain`, `diff`, `what-if`, `simulate`; others
register theirs through the entry-point group `assignor.commands`, each a function `register(app: typer.Typer) -> None`.

Rules: a command makes frozen values of its options (`option_groups.py`) and works with those alone. Results go to
stdout, messages to stderr. A fault leaves a command as an AssignorFault, and `main` alone makes one line and an exit
code of it: 0; 1 the answer is no; 2 wrong usage or unusable input.
"""

from __future__ import annotations

import io
import os
import sys
from importlib.metadata import EntryPoint, entry_points

import typer

from assignor.commands import assign, decode, diff, explain, simulate, what_if
from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, exit_code_of, say
from assignor.errors import AssignorFault

__all__ = ["ENTRY_POINT_GROUP", "build_app", "main"]

ENTRY_POINT_GROUP = "assignor.commands"
_HELP = "Kafka Streams' task placement outside the JVM."


def build_app() -> typer.Typer:
    """All commands that are installed. A package whose extra is missing leaves out its own commands and no others."""
    app = typer.Typer(
        name="assignor",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    for package in (assign, decode, explain, diff, what_if, simulate):
        package.register(app)
    missing = []
    for entry_point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        error = _register(entry_point, app)
        if error is not None:
            missing.append(f"{entry_point.name} ({error})")
    app.callback(help=_HELP, epilog=f"Not installed: {', '.join(missing)}." if missing else None)(_all_commands)
    return app


def main() -> None:
    """Entry point of the program `assignor`; leaves by SystemExit. Quiet when the reader of stdout goes away."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a name still shows the rest
    try:
        try:
            build_app()()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_NO)
    except AssignorFault as error:
        say(f"error: {error}")
        sys.exit(exit_code_of(error))
    except OSError as error:
        say(f"error: {error.filename or 'output'}: {error.strerror or error}")
        sys.exit(EXIT_UNUSABLE)


def _register(entry_point: EntryPoint, app: typer.Typer) -> ImportError | None:
    try:
        register = entry_point.load()
    except ImportError as error:
        return error
    register(app)
    return None


def _all_commands() -> None:
    """A callback keeps `assign` a command even when it is the only one."""
