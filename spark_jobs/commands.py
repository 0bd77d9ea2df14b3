"""The commands of this package for the one `assignor` program: `demo` and `workers run`.

Spark and HTTP are imported when a command runs, so that the other commands of `assignor` start without them.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, Format, as_line, leave, say
from assignor.errors import AssignorFault, InputError

TOKEN_VARIABLE = "ASSIGNOR_AUTH_TOKEN"  # noqa: S105 (the name of a variable)
DEMO_WIDTH = 120
GOOD_ENDS = frozenset({"left", "stopped", "shutdown-requested"})
EXTRA = "spark"
_APP_HELP = "module:name of a GroupDefinition, of a mapping with group_id and input, or of a function that gives one."

# an installation without the extra leaves these commands out and says so
if importlib.util.find_spec("pyspark") is None:
    raise ImportError(f"pip install 'assignor[{EXTRA}]'")


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`."""
    app.command("demo")(demo)
    workers = typer.Typer(help="Instances as long-running Spark tasks.", no_args_is_help=True)
    workers.callback()(_all_commands)
    workers.command("run")(run)
    app.add_typer(workers, name="workers")


def demo() -> None:
    """Members on Spark executors, one executor killed, its tasks taken over; then Kafka's own recorded rounds again."""
    from spark_jobs.demo import Demo
    from streams_runtime.coordinator_errors import CoordinatorError, CoordinatorUnavailable

    console = Console()
    if not console.is_terminal:
        console = Console(width=DEMO_WIDTH)
    _interrupt_on_sigterm()
    try:
        Demo(console).run()
    except KeyboardInterrupt:
        _fail("interrupted; everything that was started is stopped", EXIT_NO)
    except (AssignorFault, CoordinatorError, CoordinatorUnavailable) as fault:
        _fail(str(fault), EXIT_NO)


def run(
    app: Annotated[str, typer.Argument(help=_APP_HELP, metavar="MODULE:APP")],
    master: Annotated[
        str, typer.Option(help="Spark master: local[*], local-cluster[..], spark://.., ...")
    ] = "local[*]",
    instances: Annotated[int, typer.Option(min=1, help="Instances, each one Spark task.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Member threads of each instance.")] = 1,
    coordinator: Annotated[str, typer.Option(metavar="URL")] = "http://127.0.0.1:8080",
    token_file: Annotated[Path | None, typer.Option(help=f"File with its token; else {TOKEN_VARIABLE}.")] = None,
    state_dir: Annotated[Path | None, typer.Option(help="Where instances keep their id and state.")] = None,
    log_dir: Annotated[Path | None, typer.Option(help="Where members write down what they hold.")] = None,
    session_timeout_ms: Annotated[int, typer.Option(min=1, help="After which silence a member is gone.")] = 10_000,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Declare the group of MODULE:APP and run its members until the coordinator tells them to stop, or Ctrl-C."""
    from spark_jobs.definition import load_definition
    from spark_jobs.session import spark_session
    from spark_jobs.workers import instance_settings, run_members
    from streams_runtime.coordinator_errors import CoordinatorError, CoordinatorUnavailable

    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does: MODULE is the caller's own
    state = state_dir or Path(tempfile.gettempdir()) / "kafka-streams"  # Kafka's default of state.dir
    try:
        definition = load_definition(app)
        settings = replace(
            instance_settings(definition, coordinator, str(state), str(log_dir or state / "ownership")),
            threads=threads,
            token=_token(token_file),
            session_timeout_ms=session_timeout_ms,
        )
        _interrupt_on_sigterm()
        with spark_session(master, f"members of {definition.group_id}") as spark:
            workers = run_members(spark, definition, settings, instances)
            say(f"{instances} instances of {definition.group_id} are on their way; Ctrl-C stops them")
            try:
                ends = workers.wait() or []
            except KeyboardInterrupt:
                ends = workers.stop()
    except InputError as fault:
        _fail(str(fault), EXIT_UNUSABLE)
    except (AssignorFault, CoordinatorError, CoordinatorUnavailable) as fault:
        _fail(str(fault), EXIT_NO)
    for end in ends:
        if format is Format.JSON:
            typer.echo(as_line(asdict(end)))
        else:
            for member, how in end.members.items():
                typer.echo(f"{member}: {how}")
    if any(how not in GOOD_ENDS for end in ends for how in end.members.values()):
        leave(EXIT_NO)


def _all_commands() -> None:
    """A callback keeps `run` a command although it is the only one."""


def _token(token_file: Path | None) -> str | None:
    if token_file is None:
        return os.environ.get(TOKEN_VARIABLE)
    try:
        return token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise InputError(f"{token_file} cannot be read: {fault}", "--token-file") from None


def _interrupt_on_sigterm() -> None:
    """SIGTERM unwinds like Ctrl-C, so that members leave and Spark stops."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def _fail(message: str, code: int) -> NoReturn:
    say(f"assignor: {message}")
    leave(code)
