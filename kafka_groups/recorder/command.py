"""The command `assignor record`: rebalances of real Kafka Streams groups as `rebalance/1` lines, as they happen.

Kafka and HTTP are imported when the command runs, so that the other commands of `assignor` start without them.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, Format, leave, say
from assignor.errors import AssignorFault, InputError
from assignor.recording import line_of_document
from kafka_groups.kafka_command_options import ClientProperties, CoordinatorUrl, TokenFile

if TYPE_CHECKING:
    from kafka_groups.recorder.following import Following

_GROUP_HELP = "The application.id; may be given several times."
_TOPOLOGY_HELP = "[GROUP=]FILE: Topology#describe text, or JSON as input.topology of rebalance/1; inferred without it."
_CONFIG_HELP = "[GROUP:]key=value of the application, such as num.standby.replicas=1."
_CONFIG_FILE_HELP = "[GROUP=]FILE: the application's properties; keys that are not the assignor's are passed over."
_OUTPUT_HELP = "Append here, and go on from where the last run stopped; default: stdout, from now."


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("record")(record)


def record(
    bootstrap_server: Annotated[str | None, typer.Option("--bootstrap-server", metavar="HOST:PORT,...")] = None,
    group: Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help=_GROUP_HELP)] = None,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE.jsonl", help=_OUTPUT_HELP)] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Also what is left of the past; its offsets are not known any more.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop at the end of what is there.")] = False,
    until_generations: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N lines.")] = None,
    for_seconds: Annotated[float | None, typer.Option("--for", min=0, metavar="SECONDS", help="Then stop.")] = None,
    topology: Annotated[list[str] | None, typer.Option(metavar="[GROUP=]FILE", help=_TOPOLOGY_HELP)] = None,
    assignor: Annotated[str | None, typer.Option(help="The task assignor of the application.")] = None,
    config: Annotated[list[str] | None, typer.Option(metavar="key=value", help=_CONFIG_HELP)] = None,
    config_file: Annotated[list[str] | None, typer.Option(metavar="[GROUP=]FILE", help=_CONFIG_FILE_HELP)] = None,
    command_config: ClientProperties = None,
    look_every: Annotated[
        float, typer.Option(min=0.05, metavar="SECONDS", help="Look at topics and offsets between rebalances.")
    ] = 0.5,
    coordinator: CoordinatorUrl = None,
    token_file: TokenFile = None,
    from_log: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Instead: what JVM assignors logged, as placement/1 lines.")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="Of the summary on stderr.")] = Format.TEXT,
) -> None:
    """Follow Kafka Streams groups and write each of their rebalances as one rebalance/1 line.

    Needs READ and DESCRIBE on __consumer_offsets and DESCRIBE on the application's topics; joins no group.
    """
    try:
        if from_log is not None:
            _import(from_log, bootstrap_server, group, output, config, assignor, format)
            return
        following = _following(bootstrap_server, group, output, topology, assignor, config, config_file, command_config)
        _limit(following, from_start, once, until_generations, for_seconds, look_every, coordinator, token_file)
        try:
            asyncio.run(_run(following))
        finally:
            following.output.close()
    except InputError as fault:
        _fail(str(fault), EXIT_UNUSABLE)
    except AssignorFault as fault:
        _fail(str(fault), EXIT_NO)
    summary = {"lines": following.lines, "differing": following.differing, "unusable": following.unusable}
    words = f"{following.lines} lines, {following.differing} of them not as 4.3.1 decides"
    say(line_of_document(summary) if format is Format.JSON else words)
    if following.unusable:
        leave(EXIT_UNUSABLE)


def _following(
    bootstrap_server: str | None,
    group: Sequence[str] | None,
    output: Path | None,
    topology: Sequence[str] | None,
    assignor: str | None,
    config: Sequence[str] | None,
    config_file: Sequence[str] | None,
    command_config: Path | None,
) -> Following:
    from kafka_client.settings.client_settings import client_settings, read_properties_file
    from kafka_groups.recorder.choices import group_choices
    from kafka_groups.recorder.following import Following, RecordingLimits
    from kafka_groups.recorder.output import OutputFile, StandardOutput

    if bootstrap_server is None:
        raise InputError("is missing: where a broker of the cluster listens, as host:port", "--bootstrap-server")
    properties = {} if command_config is None else read_properties_file(command_config)
    settings = client_settings(bootstrap_server, properties)
    groups = group_choices(group or (), topology or (), config_file or (), config or (), assignor)
    return Following(
        settings=settings,
        groups=groups,
        output=StandardOutput() if output is None else OutputFile(output),
        limits=RecordingLimits(),
        say=say,
    )


def _limit(
    following: Following,
    from_start: bool,
    once: bool,
    lines: int | None,
    seconds: float | None,
    look_every_s: float,
    coordinator: str | None,
    token_file: Path | None,
) -> None:
    from kafka_groups.recorder.following import CoordinatorAddress, RecordingLimits

    following.limits = RecordingLimits(lines, seconds, once)
    following.from_start = from_start
    following.look_every_s = look_every_s
    following.coordinator = None if coordinator is None else CoordinatorAddress(coordinator, token_file)


async def _run(following: Following) -> None:
    """SIGINT and SIGTERM stop it after the line that is being written."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what the user has to know is said in words of our own
    logging.getLogger("kafka_client").setLevel(logging.ERROR)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, following.stop.set)
    await following.run()


def _import(
    log: str,
    bootstrap_server: str | None,
    group: Sequence[str] | None,
    output: Path | None,
    config: Sequence[str] | None,
    assignor: str | None,
    format: Format,
) -> None:
    from kafka_groups.recorder.choices import explicit_configs
    from kafka_groups.recorder.log_import import import_log

    if bootstrap_server is not None or group:
        raise InputError("reads a log alone; leave out --bootstrap-server and --group", "--from-log")
    count = import_log(log, output, explicit_configs((), config or ()), assignor, say)
    say(line_of_document({"lines": count}) if format is Format.JSON else f"{count} lines")
    if count == 0:
        leave(EXIT_NO)


def _fail(message: str, code: int) -> NoReturn:
    say(f"assignor: {message}")
    leave(code)
