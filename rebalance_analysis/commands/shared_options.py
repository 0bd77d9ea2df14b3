"""The command-line options that several commands share, and the functions that convert their values. An option is
defined only once, so it has the same meaning in what-if, simulate, replay and sweep.
"""

import gzip
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress, TaskID

from assignor.configs import KAFKA_VERSION
from assignor.configs.kafka_versions import kafka_version_named
from assignor.errors import AssignorFault, InputError
from assignor.recording import document_of_line
from assignor.recording.fields import Value, as_assignor, as_configs, as_object, as_partitions
from assignor.recording.topology_fields import as_topology
from assignor.topology.group_topology import GroupTopology
from assignor_cli.console import LinesSetAside
from operating_system.whole_files import input_errors
from rebalance_analysis.reading.lines import Line, LineChoice, read_lines
from rebalance_analysis.reading.sources import ReadingProgress
from rebalance_analysis.simulate.model import ForecastModel, check_model
from rebalance_analysis.what_if.changes import (
    EVERY_PROCESS,
    Changes,
    typed_configs,
    typed_instances,
    typed_lags,
    typed_number,
    typed_pairs,
    typed_tag,
    typed_threads,
)

Recordings = Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings, or - for stdin.")]


def choice_from_options(
    *,
    id: Annotated[str | None, typer.Option("--id", help="Only the rebalance with this id.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="G", help="Only rebalances of this group.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Every rebalance, not only the last one of each group.")] = False,
) -> LineChoice:
    return LineChoice(id, group, all)


def read_with_bar(inputs: Sequence[str]) -> Iterator[Line]:
    """Yields every line of all inputs except blank lines, and shows a progress bar if stderr is a terminal. Raises
    InputError for an input that cannot be opened.
    """
    if not sys.stderr.isatty():
        yield from read_lines(inputs)
        return
    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        yield from read_lines(inputs, _Bars(progress))


class _Bars(ReadingProgress):
    """A terminal progress bar for each input source."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar = TaskID(0)

    def begin(self, name: str, size: int | None) -> None:
        self._bar = self._progress.add_task(name, total=size)

    def advance(self, position: int | None) -> None:
        if position is None:
            self._progress.advance(self._bar)
        else:
            self._progress.update(self._bar, completed=position)

    def end(self) -> None:
        self._progress.stop_task(self._bar)


def results_of_choice(
    files: Sequence[str], choice: LineChoice, use: Callable[[Line], Value], set_aside: LinesSetAside
) -> Iterator[Value]:
    """Calls the function `use` for each chosen line of the files, and yields the results. If `use` raises AssignorFault
    for a line, calls `set_aside` with the line. Raises InputError if no line was chosen.
    """
    is_empty = True
    for found in usable(choice.among(read_with_bar(files)), use, set_aside):
        is_empty = False
        yield found
    if is_empty and not set_aside.count:
        raise InputError("there is no such rebalance", " ".join(files))


def usable(lines: Iterable[Line], use: Callable[[Line], Value], set_aside: LinesSetAside) -> Iterator[Value]:
    """Calls the function `use` for each line, and yields the results. If `use` raises AssignorFault for a line, calls
    `set_aside` with the line and continues with the next line.
    """
    for line in lines:
        try:
            found = use(line)
        except AssignorFault as error:
            set_aside(line.where, error)
        else:
            yield found


KafkaVersionOption = Annotated[
    str | None,
    typer.Option(
        "--kafka-version", metavar="V", help="Follow the rules of Kafka 4.3 or 4.4, in place of the recorded version."
    ),
]
_ASSIGNOR_AS_CONFIG = "assignor"
"""The key for the assignor: `--set` with this key does the same as `--assignor`. In a recording, the assignor is not
one of the configs.
"""

Several = list[str] | None


def changes_from_options(
    *,
    set: Annotated[
        Several,
        typer.Option(
            metavar="KEY=VALUE", help="Change a config, by its dotted name, or the assignor; may be repeated."
        ),
    ] = None,
    add_instances: Annotated[
        Several,
        typer.Option(
            metavar="NxT[,TAG=V]", help="Add N empty instances of T threads: 3x4, 2 or 3x4,zone=a; may be repeated."
        ),
    ] = None,
    remove: Annotated[
        Several,
        typer.Option(
            metavar="P",
            help="Remove the instance with this process, client, member or instance id, or with ids that begin so.",
        ),
    ] = None,
    threads: Annotated[
        Several, typer.Option(metavar="[P=]N", help="Stream threads of every instance, or of P; may be repeated.")
    ] = None,
    tags: Annotated[
        Several,
        typer.Option(metavar="[P:]TAG=V,..", help="Client tags to add to every instance, or to P; may be repeated."),
    ] = None,
    assignor: Annotated[
        str | None, typer.Option(metavar="NAME", help="A task assignor, or your own class as module:Class.")
    ] = None,
    partitions: Annotated[
        Several, typer.Option(metavar="TOPIC=N", help="Change the partition count of a topic; may be repeated.")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Another topology: a file with its JSON, a group definition or a rebalance/1 line."
        ),
    ] = None,
    lags: Annotated[
        Several,
        typer.Option(
            metavar="TASK=N",
            help="Lag in records: 0_3=5000, P/0_3=5000 for instance P, *=0 for all tasks; may be repeated.",
        ),
    ] = None,
    kafka_version: KafkaVersionOption = None,
) -> Changes:
    """Makes the `Changes` that the options describe. Without options, the result is `Changes()`. Reads the file that
    `topology` names. Raises InputError for an invalid value; the error names the option. This function does not check
    that the named processes, topics and tasks exist. The names are checked when the changes are applied to a rebalance.
    """
    pairs = typed_configs(set or (), "--set")
    also_set = pairs.pop(_ASSIGNOR_AS_CONFIG, None)
    if also_set is not None and assignor not in (None, also_set):
        raise InputError(f"names another assignor than --assignor {assignor}", f"--set {_ASSIGNOR_AS_CONFIG}")
    assignor = assignor or also_set
    configs: dict[str, object] = {**pairs}
    if kafka_version is not None:
        if configs.get(KAFKA_VERSION, kafka_version) != kafka_version:
            raise InputError(f"is another version than --kafka-version {kafka_version}", f"--set {KAFKA_VERSION}")
        configs[KAFKA_VERSION] = str(kafka_version_named(kafka_version, "--kafka-version"))
    as_configs(configs, "--set")
    for process in remove or ():
        if not process or process == EVERY_PROCESS:
            raise InputError(f"must name one instance, not {process!r}", "--remove")
    return Changes(
        assignor=None if assignor is None else as_assignor(assignor, "--assignor"),
        configs=configs,
        add_instances=tuple(typed_instances(text, "--add-instances") for text in add_instances or ()),
        remove=tuple(dict.fromkeys(remove or ())),
        threads=typed_threads(threads or (), "--threads"),
        tags=_tags(tags or (), "--tags"),
        partitions=typed_pairs(partitions or (), "--partitions", "TOPIC=N", _partition_count),
        topology=None if topology is None else _topology(topology),
        lags=typed_lags(lags or (), "--lags"),
    )


def _partition_count(topic: str, value: str) -> tuple[str, int]:
    return topic, as_partitions(typed_number(value, "--partitions"), "--partitions")


def _tags(texts: Sequence[str], where: str) -> dict[str, dict[str, str]]:
    by_process: dict[str, dict[str, str]] = {}
    for text in texts:
        before, equals, value = text.partition("=")
        process, colon, first_key = before.rpartition(":")
        if colon and not process:
            raise InputError(f"must be [P:]TAG=VALUE,.., not {text!r}", where)
        tags = by_process.setdefault(process or EVERY_PROCESS, {})
        tags.update(typed_tag(tag, where) for tag in f"{first_key}{equals}{value}".split(","))
    return by_process


def _topology(file: str) -> GroupTopology:
    """Reads a topology from a file. The content of the file is a topology, a group definition as in a PUT request, or a
    rebalance/1 document.
    """
    where = f"--topology {file}"
    with input_errors("cannot be read", where, EOFError, ValueError):
        content = Path(file).read_bytes()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    try:
        document: object = document_of_line(content)
    except InputError as error:
        raise InputError(f"{error} (one JSON document is wanted)", where) from None
    at = where
    for field in ("input", "topology"):
        fields = as_object(document, at)
        if field in fields:
            document, at = fields[field], f"{at}: {field}" if at == where else f"{at}.{field}"
    return as_topology(document, at)


RestoreRateOption = Annotated[
    float,
    typer.Option("--restore-rate", metavar="R", help="Number of records that a stream thread restores per second."),
]
_MODEL = ForecastModel()
_OPTIONS = {
    "restore_records_per_s": "--restore-rate",
    "standby_records_per_s": "--standby-rate",
    "appended_records_per_s": "--append-rate",
}
"""The fields of `ForecastModel` that have an option with a different name, and the names of these options."""


class ForecastAsked(NamedTuple):
    """The requested forecast. `max_rounds`: the largest number of rebalances in the forecast, including the recorded
    rebalance.
    """

    model: ForecastModel
    max_rounds: int


def forecast_from_options(
    *,
    max_rounds: Annotated[
        int, typer.Option(metavar="N", help="Maximum number of rebalances in a forecast, including the recorded one.")
    ] = 1000,
    restore_rate: RestoreRateOption = _MODEL.restore_records_per_s,
    standby_rate: Annotated[
        float, typer.Option(metavar="R", help="Number of records that standbys and warm-ups read per second.")
    ] = _MODEL.standby_records_per_s,
    append_rate: Annotated[
        float, typer.Option(metavar="R", help="Number of records that a stateful task writes per second.")
    ] = _MODEL.appended_records_per_s,
    rebalance_ms: Annotated[int, typer.Option(metavar="MS", help="Duration of one rebalance.")] = _MODEL.rebalance_ms,
    session_timeout_ms: Annotated[
        int, typer.Option(metavar="MS", help="Time until the group notices that an instance is gone.")
    ] = _MODEL.session_timeout_ms,
    state_cleanup_delay_ms: Annotated[
        int, typer.Option(metavar="MS", help="Time that the state of a closed task stays on disk.")
    ] = _MODEL.state_cleanup_delay_ms,
    jitter: Annotated[
        float, typer.Option(metavar="J", help="0 to 1: the largest fraction by which an instance is faster or slower.")
    ] = _MODEL.jitter,
    seed: Annotated[int, typer.Option(help="Seed of the random jitter.")] = _MODEL.seed,
) -> ForecastAsked:
    """Makes the forecast model from the options. Raises InputError for a value that is out of bounds; the error names
    the option.
    """
    model = ForecastModel(
        restore_rate, standby_rate, append_rate, rebalance_ms, session_timeout_ms, state_cleanup_delay_ms, jitter, seed
    )
    try:
        check_model(model, max_rounds)
    except InputError as error:
        field = error.where or ""
        option = _OPTIONS.get(field) or f"--{field.replace('_', '-')}"
        raise InputError(str(error).removeprefix(f"{field}: "), option) from None
    return ForecastAsked(model, max_rounds)
