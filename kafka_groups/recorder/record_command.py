"""The command `assignor record`: writes the rebalances of real Kafka Streams groups as `rebalance/1` lines, as they
happen.

If the records of a group in `__consumer_offsets` cannot be read, use `--from-log` to read the log files of JVM members.
The Kafka and HTTP libraries are imported only when the command runs. The other commands of `assignor` do not need these
libraries.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import logging
import math
import signal
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from assignor.errors import InputError
from assignor.recording.fields import line_of_document
from assignor.types import JAVA_INT_MAX
from assignor_cli.console import EXIT_NO, EXIT_UNUSABLE, leave, print_message
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, shown
from kafka_groups.kafka_command_options import KAFKA, KafkaCommand
from operating_system.private_files import private_opener
from operating_system.whole_files import input_errors, whole_file

if TYPE_CHECKING:
    from kafka_groups.recorder.following import Following

_STDIN = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_BOOTSTRAP_HELP = "Brokers of the cluster. Required, except with --from-log."
_GROUP_HELP = "The application.id; repeat for more groups."
_OUTPUT_HELP = "Append to this file, and continue where the last run stopped. Default: stdout, new rebalances only."
_FROM_START_HELP = "Also record the past rebalances that the topic still has. Their offsets are no longer known."
_FOR_HELP = "Stop after this many seconds."
_TOPOLOGY_HELP = (
    "Topology#describe text, or the JSON of input.topology in rebalance/1. Default: inferred from the members."
)
_CONFIG_HELP = "[GROUP:]key=value of the application, such as num.standby.replicas=1; repeat for more."
_CONFIG_FILE_HELP = "The application's properties. Keys that are not the assignor's are ignored."
_POLL_HELP = "Seconds between two polls of topics and offsets while no rebalance takes place."
_LOG_HELP = "Read what JVM assignors logged instead, and write it as placement/1 lines."


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    if KAFKA.is_missing:
        KAFKA.register_missing(app, "record")
        return
    app.command("record", epilog=example("record --bootstrap-server kafka:9092 --group orders --output o.jsonl"))(
        record
    )


@dataclass(frozen=True, slots=True)
class RecordOptions(KafkaCommand):
    """The command-line options of `assignor record`. The constructor raises InputError if options contradict each
    other.
    """

    bootstrap_server: Annotated[
        str | None, typer.Option("--bootstrap-server", metavar="HOST:PORT,...", help=_BOOTSTRAP_HELP)
    ] = None
    group: Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help=_GROUP_HELP)] = None
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE.jsonl", help=_OUTPUT_HELP)] = None
    from_start: Annotated[bool, typer.Option("--from-start", help=_FROM_START_HELP)] = False
    once: Annotated[bool, typer.Option("--once", help="Stop at the current end of __consumer_offsets.")] = False
    until_generations: Annotated[
        int | None, typer.Option(min=1, max=JAVA_INT_MAX, metavar="N", help="Stop after N lines.")
    ] = None
    for_seconds: Annotated[
        float | None, typer.Option("--for", min=0, max=JAVA_INT_MAX, metavar="SECONDS", help=_FOR_HELP)
    ] = None
    topology: Annotated[list[str] | None, typer.Option(metavar="[GROUP=]FILE", help=_TOPOLOGY_HELP)] = None
    assignor: Annotated[str | None, typer.Option(help="The task assignor of the application.")] = None
    config: Annotated[list[str] | None, typer.Option(metavar="key=value", help=_CONFIG_HELP)] = None
    config_file: Annotated[list[str] | None, typer.Option(metavar="[GROUP=]FILE", help=_CONFIG_FILE_HELP)] = None
    look_every: Annotated[float, typer.Option(min=0.05, max=JAVA_INT_MAX, metavar="SECONDS", help=_POLL_HELP)] = 0.5
    from_log: Annotated[str | None, typer.Option(metavar="FILE|-", help=_LOG_HELP)] = None
    format: Annotated[Format, typer.Option("--format", "-o", help="Format of the summary on stderr.")] = Format.TEXT

    def __post_init__(self) -> None:
        for option, seconds in (("--for", self.for_seconds), ("--look-every", self.look_every)):
            if seconds is not None and math.isnan(seconds):
                raise InputError("must be a number of seconds, not NaN", option)
        if self.from_log is not None and (self.bootstrap_server is not None or self.group):
            raise InputError("reads a log alone; leave out --bootstrap-server and --group", "--from-log")
        if self.from_log is None and self.bootstrap_server is None:
            raise InputError("is missing: where a broker of the cluster listens, as host:port", "--bootstrap-server")

    def following(self) -> Following:
        """Makes the recorder. Reads the files that the options name, and opens the output. The caller has to close the
        output. Raises InputError.
        """
        from kafka_client.settings.client_settings import client_settings
        from kafka_groups.recorder.choices import group_choices
        from kafka_groups.recorder.following import Following, RecordingLimits
        from kafka_groups.recorder.output import OutputFile, StandardOutput

        assert self.bootstrap_server is not None
        settings = client_settings(self.bootstrap_server, self.client_properties())
        groups = group_choices(
            self.group or (),
            self.topology or (),
            self.config_file or (),
            self.configs_with_version(self.config),
            self.assignor,
            self.facts(),
        )
        return Following(
            settings=settings,
            groups=groups,
            output=StandardOutput() if self.output is None else OutputFile(self.output),
            limits=RecordingLimits(self.until_generations, self.for_seconds, self.once),
            report=print_message,
            from_start=self.from_start,
            poll_interval_s=self.look_every,
            coordinator=self.coordinator_address(),
        )


@options_of(options=RecordOptions)
def record(options: RecordOptions) -> None:
    """Record the rebalances of Kafka Streams groups.

    Follows the groups and writes each rebalance as one rebalance/1 line.

    Needs the rights READ and DESCRIBE on __consumer_offsets, and DESCRIBE on the application's topics. Does not join
    any group.
    """
    if options.from_log is not None:
        _import_log(options.from_log, options)
        return
    following = options.following()
    try:
        asyncio.run(_run(following))
    finally:
        following.output.close()
    summary = {"lines": following.lines, "differing": following.differing, "unusable": following.unusable}
    text = f"{following.lines} lines, {following.differing} of them not as Kafka decides"
    print_message(shown(summary, text, options.format))
    if following.unusable:
        leave(EXIT_UNUSABLE)


async def _run(following: Following) -> None:
    """Runs the recorder. On SIGINT or SIGTERM, the recorder finishes the line that it is writing and stops."""
    # hide aiokafka's log lines: this program reports the same errors itself
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    logging.getLogger("kafka_client").setLevel(logging.ERROR)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, following.stop.set)
    await following.run()


def _import_log(log: str, options: RecordOptions) -> None:
    """Converts a log file of a JVM member to placement/1 lines. `log`: the path of a plain file or a gzip file, or `-`
    for stdin. Each run reads the whole log file and writes the whole output: a run cannot continue an earlier run.
    """
    from kafka_groups.recorder.choices import explicit_configs
    from kafka_groups.recorder.jvm_log import placements_from_log

    configs = explicit_configs((), options.configs_with_version(options.config))
    count = 0
    with _lines(log) as lines, _written(options.output) as stream:
        for document in placements_from_log(lines, configs, assignor=options.assignor, on_skipped=print_message):
            stream.write(line_of_document(document) + "\n")
            if options.output is None:
                stream.flush()
            count += 1
    print_message(shown({"lines": count}, f"{count} lines", options.format))
    if count == 0:
        leave(EXIT_NO)


@contextlib.contextmanager
def _lines(log: str) -> Iterator[TextIO]:
    if log == _STDIN:
        yield sys.stdin
        return
    with input_errors("cannot be read", log, EOFError, zlib.error), open(log, "rb") as raw:
        is_gzip = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if is_gzip else raw
        yield io.TextIOWrapper(stream, encoding="utf-8", errors="replace")


@contextlib.contextmanager
def _written(output: Path | None) -> Iterator[TextIO]:
    """A context manager that yields a stream which writes to the output. An output file appears under its name only
    when it is complete.
    """
    if output is None:
        yield sys.stdout
        return
    with (
        input_errors("cannot be written", output),
        whole_file(output, private_opener) as raw,
        io.TextIOWrapper(raw, encoding="utf-8") as stream,
    ):
        yield stream
