"""The program `assignor`. Packages register their commands through the entry-point group `assignor.commands`. Each
entry point is a function `register(app: typer.Typer) -> None`.

The options of a command are converted to frozen values (`option_groups.py`), and the command uses only these values. A
command writes results to stdout (`output.py`) and messages to stderr. A command's help ends with an example
(`help_texts.py`). The help lists a command even if the extra that the command needs is not installed (`extras.py`). A
command raises an AssignorFault on failure. Only `main` converts the AssignorFault to one line and an exit code
(`console.py`). The exit code is 130 after Ctrl-C, 143 after SIGTERM, and 141 if the reader of stdout has closed the
pipe. A shell reports the codes 130, 143 and 141 for SIGINT, SIGTERM and SIGPIPE.
"""

import contextlib
import functools
import io
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from assignor.errors import AssignorFault
from assignor.names.near_names import near_name
from assignor_cli.console import EXIT_NOBODY_READS, EXIT_UNUSABLE, exit_code_of, exit_code_of_signal, print_message
from assignor_cli.help_texts import example

__all__ = ["ENTRY_POINT_GROUP", "build_app", "main", "program"]

ENTRY_POINT_GROUP = "assignor.commands"
_HELP = """Kafka Streams' task placement as a library, a coordinator over HTTP, and stateful Python on Spark executors.

Every command explains itself: assignor COMMAND --help.
"""
_EXAMPLE = example("explain recordings/orders.jsonl.gz", "groups describe orders --watch", "--install-completion")


class _ReaderGone(Exception):
    """Raised if the reader of stdout has closed the pipe. The class is not an OSError, because typer would convert an
    OSError to exit code 1. In this program, exit code 1 stands for the answer "no".
    """


class _Interrupted(Exception):
    """Raised if a signal ended the command. The class is not a KeyboardInterrupt, because typer would convert a
    KeyboardInterrupt to exit code 130, whatever the signal was.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Program(TyperGroup):
    """The Click group of all commands. It sets the exit codes for signals and for a closed stdout."""

    def make_context(self, *names: Any, **more: Any) -> Any:
        with _own_ends():
            # a signal may interrupt make_context, which prints the help and the version
            return super().make_context(*names, **more)

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        with _own_ends():
            return super().invoke(ctx)


@contextlib.contextmanager
def _own_ends() -> Iterator[None]:
    """Replaces BrokenPipeError and KeyboardInterrupt, because typer would convert them to exit codes. Typer does not
    change the new errors.
    """
    try:
        yield
    except BrokenPipeError:
        raise _ReaderGone from None
    except KeyboardInterrupt as interrupt:
        raise _Interrupted(exit_code_of_signal(interrupt)) from None


def build_app() -> typer.Typer:
    """Returns the program `assignor` with all commands. If a package cannot be imported, its commands are left out, and
    the help text names the package.
    """
    app = typer.Typer(
        name="assignor",
        cls=_Program,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    missing = []
    for entry_point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        error = _register(entry_point, app)
        if error is not None:
            missing.append(f"{entry_point.name} ({error})")
    epilog = f"{_EXAMPLE}\n\nNot installed: {', '.join(missing)}." if missing else _EXAMPLE
    app.callback(help=_HELP, epilog=epilog)(_all_commands)
    return app


@functools.cache
def program() -> Any:
    """Returns the program that `main` runs. The program is cached, because building it takes longer than running most
    commands.
    """
    return typer.main.get_command(build_app())


def main() -> None:
    """Entry point of the program `assignor`; always raises SystemExit. Prints nothing if the reader of stdout has
    closed the pipe.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # characters that the terminal's encoding lacks are printed as escape sequences
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            sys.exit(program()(prog_name="assignor", standalone_mode=False))
        finally:
            sys.stdout.flush()
    except UsageError as error:
        print_message(usage_text(error))
        sys.exit(EXIT_UNUSABLE)
    except (BrokenPipeError, _ReaderGone):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_NOBODY_READS)
    except _Interrupted as interrupted:
        sys.exit(interrupted.code)
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code_of_signal(interrupt))
    except AssignorFault as error:
        print_message(f"error: {error}")
        sys.exit(exit_code_of(error))
    except UnicodeEncodeError as error:
        print_message(f"error: {_not_utf8(error)!r}: is not UTF-8 text, which only the name of a file may be")
        sys.exit(EXIT_UNUSABLE)
    except OSError as error:
        print_message(f"error: {error.filename or 'output'}: {error.strerror or error}")
        sys.exit(EXIT_UNUSABLE)


def _not_utf8(error: UnicodeEncodeError) -> str:
    """Returns the command-line argument that a command could not encode, because its bytes are not UTF-8. Raises
    `error` if no argument contains the faulty bytes.
    """
    bad = error.object[error.start : error.end]
    for argument in sys.argv[1:]:
        if bad in argument:
            return argument
    raise error


def _register(entry_point: EntryPoint, app: typer.Typer) -> ImportError | None:
    try:
        register = entry_point.load()
    except ImportError as error:
        return error
    register(app)
    return None


def _show_version(asked: bool) -> None:
    if asked:
        print(f"assignor {version('assignor')} (Python {platform.python_version()})")
        raise typer.Exit


def _all_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Defines the options of the program itself. Without this callback, typer would drop the name of a command if the
    program had only one command.
    """


UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Click's class UsageError. The class comes from typer's own copy of click, or from the installed package click. The
`exit_code` of a UsageError is 2.
"""

_BEFORE_THE_PROBLEM = "Value error, "


def usage_text(error: Any) -> str:
    """Returns the text that `main` prints for a UsageError. If a command was called without arguments, the text is the
    help. Otherwise, the text is one line.
    """
    message = str(error.format_message())
    if "\n" in message:
        return message
    context = error.ctx
    if context is None:
        return f"error: {message}"
    wrong = getattr(error, "option_name", None)
    if getattr(error, "possibilities", None) is not None and wrong is not None:
        message = f"no such option: {wrong}{_nearest(wrong, context.command)}"
    text = message.replace(_BEFORE_THE_PROBLEM, "").rstrip(".")
    return f"error: {text[:1].lower()}{text[1:]} (see {context.command_path} --help)"


def _nearest(wrong: str, command: Any) -> str:
    known = [name for each in command.params for name in each.opts if name.startswith("--")]
    near = near_name(wrong, [*known, "--help"])
    return "" if near is None else f"; did you mean {near}?"
