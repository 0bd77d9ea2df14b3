"""The commands `demo` and `workers run` of the `assignor` program.

Spark and HTTP libraries are imported only when a command runs. So the other commands of `assignor` start faster.
`workers run --local` needs no Spark at all.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX
from assignor_cli.console import EXIT_NO, exit_code_of_signal, leave, print_message
from assignor_cli.extras import Extra, ExtraMissing
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, console_of, show
from coordinator_client.calls import (
    COORDINATOR_METAVAR,
    DEFAULT_URL,
    SEVERAL_COORDINATORS,
    TOKEN_VARIABLE,
    read_token,
    token_file_of,
)
from spark_engine.session.interrupts import interruptible
from spark_engine.session.spark_options import LOG_LEVELS, SparkOptions, parsed_confs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.workers.member_process import InstanceResult, InstanceSettings
    from streams_runtime.membership.coordinator_client import CoordinatorClient

SPARK = Extra("spark", ("pyspark", "pandas", "pyarrow", "httpx", "rocksdict"))
WORKERS = Extra("spark", ("httpx", "rocksdict", "tenacity"))
"""The installation extras of this project that instances need, on Spark and as plain processes. `assignor[spark]`
contains `assignor[streams]`, which is enough for `workers run --local`.
"""
_APP_HELP = "module:name of an Application, or of a function that returns one; also looked for in this directory."
_EXECUTORS_PATH = (
    "A path on the executors, a relative one below their directory for temporary files; with --local one of this "
    "machine, below this directory."
)


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`."""
    if SPARK.is_missing:
        SPARK.register_missing(app, "demo")
    else:
        app.command("demo", epilog=example("demo --keep"))(demo)
    if WORKERS.is_missing:
        WORKERS.register_missing(app, "workers")
        return
    workers = typer.Typer(help="Instances as long-running Spark tasks, or as processes.", no_args_is_help=True)
    workers.callback()(_all_commands)
    run_example = example(
        "workers run wordcount:app --instances 2 --master spark://master:7077",
        "workers run wordcount:app --local --instances 2",
    )
    workers.command("run", epilog=run_example)(run)
    app.add_typer(workers, name="workers", epilog=run_example)


def demo(
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Leave the group running at the end, until Ctrl-C, so that you can inspect it."),
    ] = False,
) -> None:
    """Count words on Spark, kill an executor, and check.

    Starts a word count on Spark executors, kills an executor and checks every count. Then runs recorded rebalances of
    Kafka again and compares the results. A web page shows the state of the group while the group runs. The command
    prints the address of this web page.
    """
    from spark_jobs.demo.scenario import Demo

    try:
        with interruptible():
            Demo(console_of(Format.TEXT), keep=keep).run()
    except KeyboardInterrupt as interrupt:
        print_message("interrupted; everything that was started is stopped")
        leave(exit_code_of_signal(interrupt))


@dataclass(frozen=True, slots=True)
class WorkersOptions:
    """The command-line options of `workers run` for the instances."""

    app: Annotated[str, typer.Argument(help=_APP_HELP, metavar="MODULE:APP")]
    local: Annotated[
        bool, typer.Option("--local", help="Run instances as processes of this machine, without Spark.")
    ] = False
    instances: Annotated[
        int,
        typer.Option(
            min=1, max=JAVA_INT_MAX, help="Number of instances: of Spark tasks, or of processes with --local."
        ),
    ] = 1
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=1_000, help="Stream threads of each instance, instead of num.stream.threads."),
    ] = None
    coordinator: Annotated[
        str, typer.Option(metavar=COORDINATOR_METAVAR, help=f"Coordinator of the group; {SEVERAL_COORDINATORS}.")
    ] = DEFAULT_URL
    wait_for_coordinator: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Longest wait for a coordinator that does not answer.")
    ] = 60.0
    token_file: Annotated[
        Path | None, typer.Option(help=f"File with the coordinator's bearer token. Default: {TOKEN_VARIABLE}.")
    ] = None
    state_dir: Annotated[Path | None, typer.Option(help=f"Directory of the instances' state. {_EXECUTORS_PATH}")] = None
    log_dir: Annotated[
        Path | None, typer.Option(help=f"Directory of the threads' ownership logs. {_EXECUTORS_PATH}")
    ] = None
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace the topology while members run; members that cannot run the new topology end."
        ),
    ] = False
    format: FormatOption = Format.TEXT


def spark_options(
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark master: local[*], spark://host:port, yarn, k8s://.., .... "
            "Default: spark.master of Spark's configuration, else local[*]."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be given several times.")
    ] = None,
    properties_file: Annotated[
        Path | None, typer.Option(help="File with settings of Spark, instead of its spark-defaults.conf.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help=f"Log level of Spark: {', '.join(LOG_LEVELS)}.")
    ] = None,
    driver_log: Annotated[
        Path | None, typer.Option(help="File to which the driver's Spark writes its log. Default: a temporary file.")
    ] = None,
) -> SparkOptions:
    """Makes the options of Spark from the command line. Raises InputError for options that cannot be used."""
    return SparkOptions(master, parsed_confs(conf or ()), properties_file, log_level, driver_log)


@options_of(options=WorkersOptions, spark=spark_options)
def run(options: WorkersOptions, spark: SparkOptions) -> None:
    """Run instances of an application on Spark, or on this machine.

    Instances are Spark tasks on executors, or, with --local, processes of this machine, without Spark.

    The command shows the state of the instances. The command ends after a drain of the group or after Ctrl-C. The exit
    code is 0 if all instances ended without an error. The exit code is 1 if an instance ended with an error, or if its
    last four starts failed.

    The coordinator's setting cluster.bootstrap.servers has to contain the application's bootstrap.servers. If
    bootstrap.servers names an embedded log of records, its directory must be an absolute path.
    """
    from spark_jobs.workers.instance_starts import WorkersFailed
    from spark_jobs.workers.member_process import InstanceSettings
    from streams_runtime.instance.application import group_body, load_application

    if options.local and spark != SparkOptions():
        raise InputError("there is no Spark, and none of its options goes with it", "--local")
    if not options.local and SPARK.is_missing:
        raise ExtraMissing(
            f"assignor workers run needs an extra that is not installed: {SPARK.remedy}; without Spark, "
            "--local runs processes of this machine"
        )
    application = load_application(options.app)
    group_body(application)  # before Spark is started, check that the application can be declared
    token_file = token_file_of(options.token_file)
    settings = InstanceSettings(
        application,
        options.coordinator,
        options.threads,
        None if options.state_dir is None else str(options.state_dir),
        None if options.log_dir is None else str(options.log_dir),
        read_token(options.token_file),
        None if token_file is None else str(token_file.absolute()),
    )
    try:
        with interruptible():
            ends = _run_locally(settings, options) if options.local else _run_on_spark(settings, options, spark)
    except KeyboardInterrupt as interrupt:
        print_message("interrupted; the instances were killed" if options.local else "interrupted; Spark is stopped")
        leave(exit_code_of_signal(interrupt))
    if not ends:
        raise WorkersFailed("the instances did not end in time and were killed")
    for end in ends:
        show(asdict(end), str(end), options.format)
    if not all(end.is_good for end in ends):
        leave(EXIT_NO)


def _run_locally(settings: InstanceSettings, options: WorkersOptions) -> Sequence[InstanceResult]:
    from spark_jobs.workers.live_table import print_line, show_until_ended
    from spark_jobs.workers.local_instance import LocalInstance
    from spark_jobs.workers.local_instances import LocalInstances
    from streams_runtime.local_run.local_run import check_endpoint

    configs = settings.application.configs
    check_endpoint(configs, options.instances)
    # otherwise httpx would write a log line to stderr for each request
    logging.getLogger("httpx").setLevel(logging.WARNING)
    settings = replace(
        settings,
        state_dir=str((options.state_dir or configs.state_dir).absolute()),
        log_dir=None if options.log_dir is None else str(options.log_dir.absolute()),
        host=socket.gethostname(),
    )
    console = Console(stderr=True)
    with (
        _declared(settings, options) as client,
        LocalInstances(
            LocalInstance.of(options.app, settings), options.instances, functools.partial(print_line, console)
        ) as instances,
    ):
        return show_until_ended(instances, client, settings.application, console)


def _run_on_spark(settings: InstanceSettings, options: WorkersOptions, spark: SparkOptions) -> Sequence[InstanceResult]:
    """Declares the group, and then starts Spark and the instances. The group is declared first, so that the user sees
    errors of the declaration at once, before Spark starts.
    """
    from spark_engine.session.spark_session import spark_session
    from spark_jobs.workers.live_table import print_line, show_until_ended
    from spark_jobs.workers.running import check_picklable, start
    from spark_jobs.workers.spark_confs import checked_defaults

    application, instances = settings.application, options.instances
    check_picklable(application)
    defaults = functools.partial(checked_defaults, instances=instances)
    console = Console(stderr=True)
    with _declared(settings, options) as client, contextlib.ExitStack() as undo:
        print_message(f"starting Spark on {spark.known_master()}")
        with _seconds_shown(console, "Spark starts"):
            title = f"instances of {application.id}"
            session = undo.enter_context(spark_session(None, title, options=spark, defaults=defaults))
        print_message(_started(session))
        workers = start(session, settings, instances=instances, report=functools.partial(print_line, console))
        return show_until_ended(workers, client, application, console)


@contextlib.contextmanager
def _declared(settings: InstanceSettings, options: WorkersOptions) -> Iterator[CoordinatorClient]:
    from spark_jobs.workers.declaring import declare
    from streams_runtime.membership.coordinator_client import CoordinatorClient

    with CoordinatorClient(options.coordinator, token=settings.caller_token()) as client:
        declare(
            settings,
            client,
            instances=options.instances,
            report=print_message,
            wait_s=options.wait_for_coordinator,
            replace=options.replace,
        )
        yield client


@contextlib.contextmanager
def _seconds_shown(console: Console, what: str) -> Iterator[None]:
    """On a terminal, shows the elapsed time while the block runs. The line with the time is removed at the end of the
    block.
    """
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(what, total=None)
        yield


def _started(session: SparkSession) -> str:
    context = session.sparkContext
    ui = f"its UI is {context.uiWebUrl}" if context.uiWebUrl else "without its UI"
    return f"Spark {context.version} runs as {context.applicationId}, {ui}"


def _all_commands() -> None:
    """Does nothing. Without this callback, Typer would turn the only command `workers run` into a command `workers`."""
