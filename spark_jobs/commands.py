"""The commands of this package for the one `assignor` program: `demo` and `workers run`.

Spark and HTTP are imported when a command runs, so that the other commands of `assignor` start without them.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, Format, leave, say
from assignor.errors import AssignorFault, InputError
from assignor.recording import line_of_document
from spark_jobs.session.interrupts import interruptible

TOKEN_VARIABLE = "ASSIGNOR_AUTH_TOKEN"  # noqa: S105 (the name of a variable)
DEMO_WIDTH = 120
EXTRA = "spark"
_APP_HELP = "module:name of an Application, or of a function that gives one; looked for in this directory, too."
_EXECUTORS_PATH = "A path of the executors; if relative, below their directory for temporary files."

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
    """A word count on Spark executors, one of them killed, checked to the last count; then Kafka's recorded
    rebalances.
    """
    from spark_jobs.demo.scenario import Demo

    console = Console()
    if not console.is_terminal:
        console = Console(width=DEMO_WIDTH)
    try:
        with interruptible():
            Demo(console).run()
    except KeyboardInterrupt:
        _fail("interrupted; everything that was started is stopped", EXIT_NO)
    except AssignorFault as fault:
        _fail(str(fault), EXIT_NO)


def run(
    app: Annotated[str, typer.Argument(help=_APP_HELP, metavar="MODULE:APP")],
    master: Annotated[
        str, typer.Option(help="Spark master: local[*], local-cluster[..], spark://.., ...")
    ] = "local[*]",
    instances: Annotated[int, typer.Option(min=1, help="Instances, each one Spark task.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Stream threads of each instance, instead of num.stream.threads.")
    ] = None,
    coordinator: Annotated[str, typer.Option(metavar="URL")] = "http://127.0.0.1:8080",
    token_file: Annotated[Path | None, typer.Option(help=f"File with its token; else {TOKEN_VARIABLE}.")] = None,
    state_dir: Annotated[Path | None, typer.Option(help=f"Where instances keep their state. {_EXECUTORS_PATH}")] = None,
    log_dir: Annotated[Path | None, typer.Option(help=f"Where threads note what they own. {_EXECUTORS_PATH}")] = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Run instances of MODULE:APP and show how they do, until the coordinator drains the group, or Ctrl-C does.

    The coordinator has to allow the application's log by its setting cluster.bootstrap.servers; an embedded log is
    named by an absolute directory.
    """
    from spark_jobs.session.spark_session import spark_session
    from spark_jobs.workers.live_table import show_until_ended
    from spark_jobs.workers.running import run as workers_run
    from streams_runtime.application import load_application
    from streams_runtime.membership.coordinator_client import CoordinatorClient
    from streams_runtime.membership.group_definition import group_body

    try:
        application = load_application(app)
        group_body(application)  # says what is wrong before Spark starts
        token = _token(token_file)
        with interruptible(), spark_session(master, f"instances of {application.id}") as spark:
            workers = workers_run(
                spark,
                application,
                instances=instances,
                threads=threads,
                coordinator_url=coordinator,
                token=token,
                state_dir=None if state_dir is None else str(state_dir),
                log_dir=None if log_dir is None else str(log_dir),
            )
            with CoordinatorClient(coordinator, token=token) as client:
                ends = show_until_ended(workers, client, application.id, Console(stderr=True))
    except InputError as fault:
        _fail(str(fault), EXIT_UNUSABLE)
    except AssignorFault as fault:
        _fail(str(fault), EXIT_NO)
    if not ends:
        _fail("the instances did not end in time and were killed", EXIT_NO)
    for end in ends:
        typer.echo(line_of_document(asdict(end)) if format is Format.JSON else str(end))
    if not all(end.is_good for end in ends):
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


def _fail(message: str, code: int) -> NoReturn:
    say(f"assignor: {message}")
    leave(code)
