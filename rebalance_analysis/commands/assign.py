"""`assignor assign`: computes the leader's decision for each input line, and writes it or compares it with the recorded
decision.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated

import typer

from assignor.configs.kafka_versions import KafkaVersion, kafka_version_named
from assignor.errors import AssignorFault, InputError, NotBuiltYet
from assignor.names.short_names import short_members
from assignor.pipeline.snapshot import RebalanceResult
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.recording import line_of_document
from assignor.recording.streams_group import STREAMS_GROUP_FORMAT, parse_recorded_streams_group
from assignor.task_assignors.base import Placement
from assignor.types import JAVA_LONG_MAX, AssignorErrorCode, TaskId
from assignor_cli.console import EXIT_NO, LinesSetAside, leave, print_message
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, show
from assignor_cli.tables import View, fitted
from operating_system.whole_files import input_errors, whole_file
from rebalance_analysis.commands.shared_options import KafkaVersionOption, read_with_bar
from rebalance_analysis.reading.lines import Line
from rebalance_analysis.reading.own_assignors import load_own_assignor
from rebalance_analysis.reading.sources import shown
from rebalance_analysis.rerun import (
    Rerun,
    RerunPlacement,
    RerunRebalance,
    RerunStreamsGroup,
    parse_recorded,
    run_recorded,
    run_streams_group,
    with_kafka_version,
)

Result = Rerun | RerunStreamsGroup

_DIFFERENCES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class AssignOptions:
    """The options of `assign`: the inputs, the output, and the comparison with the recording."""

    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="JSON Lines, plain or gzip; - for stdin.")]
    output: Annotated[
        str | None, typer.Option("--output", metavar="F", help='Write {"id", "output"} lines here, not on stdout.')
    ] = None
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the recorded output; exit 1 on any difference.")
    ] = False
    kafka_version: KafkaVersionOption = None
    format: Annotated[
        Format | None,
        typer.Option("--format", "-o", help="text, wide, json or yaml. Default: json for results, text for --check."),
    ] = None


@options_of(options=AssignOptions)
def assign_files(options: AssignOptions) -> None:
    """Run recorded rebalances and placement problems again.

    If an input line is invalid, the command reports its position as file:line and continues with the next line. The
    exit code for an invalid input line is 2.
    """
    tally, set_aside = Tally(), LinesSetAside()
    asked = options.kafka_version
    version = None if asked is None else kafka_version_named(asked, "--kafka-version")
    with _results_written(options) as write:
        for line in read_with_bar(options.files):
            ran = _run(line, tally, set_aside, version, compares=options.check)
            if ran is not None:
                write(ran)
    if options.check:
        if tally.total == 0:
            raise InputError("there is no line to check", " ".join(map(shown, options.files)))
        show(tally.as_document(), lambda view: fitted(tally.as_text(), view), options.format or Format.TEXT)
    set_aside.leave_if_any()
    if tally.refused or not tally.all_equal:
        leave(EXIT_NO)


def _run(
    line: Line, tally: Tally, set_aside: LinesSetAside, version: KafkaVersion | None, *, compares: bool
) -> Result | None:
    """Runs one input line. If the line cannot be run, reports and counts it, and returns None. `version`: the Kafka
    version whose rules apply; None for the recorded version.
    """
    tally.total += 1
    try:
        ran = _ran(line.usable_document(), version)
        if compares:
            tally.compare(line.where, ran)
    except NotBuiltYet as error:
        tally.add_refused(str(error))
        print_message(f"error: {line.where}: refused: {error}")
        return None
    except AssignorFault as error:
        tally.unusable += 1
        set_aside(line.where, error)
        return None
    return ran


def _ran(document: Mapping[str, object], version: KafkaVersion | None) -> Result:
    if document.get("format") == STREAMS_GROUP_FORMAT:
        group = parse_recorded_streams_group(document)
        return run_streams_group(group if version is None else replace(group, kafka_version=version))
    recorded = parse_recorded(document)
    return run_recorded(recorded if version is None else with_kafka_version(recorded, version), load_own_assignor)


@contextlib.contextmanager
def _results_written(options: AssignOptions) -> Iterator[Callable[[Result], object]]:
    """Yields a function that writes one result to the file of --output or to stdout. If --check is given without
    --output, the function writes nothing. If an error occurs, no file of --output is written.
    """
    if options.output is None:
        if options.check:
            yield lambda ran: None
        else:
            format = options.format or Format.JSON
            yield lambda ran: show(_document(ran), lambda view: output_text(ran, view), format)
        return
    with input_errors("cannot be written", options.output), whole_file(options.output) as stream:
        yield lambda ran: stream.write(f"{line_of_document(_document(ran))}\n".encode())


@dataclass(slots=True)
class Tally:
    """Counts the results by the outcome of their comparison with the recorded results. `refused`: the number of lines
    that need a later release. `unusable`: the number of invalid lines. `errors`: the number of recordings in which
    Kafka's leader threw an exception. `errors_equal_in_text`: the number of results whose exception has the recorded
    message and cause. `differences`: texts about the first differences from recorded results. `error_differences`:
    texts about the first differences between error messages.
    """

    total: int = 0
    compared: int = 0
    equal_after_decoding: int = 0
    compared_bytes: int = 0
    equal_to_the_byte: int = 0
    errors: int = 0
    errors_equal_in_text: int = 0
    not_compared: int = 0
    refused: int = 0
    unusable: int = 0
    differences: list[str] = field(default_factory=list)
    error_differences: list[str] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)

    def compare(self, where: str, ran: Result) -> None:
        comparison = ran.comparison()
        if comparison is None:
            self.not_compared += 1
            return
        self.compared += 1
        self.equal_after_decoding += comparison.equal
        if isinstance(ran, RerunRebalance):
            self.compared_bytes += 1
            self.equal_to_the_byte += comparison.bytes_equal
        if comparison.is_error:
            self.errors += 1
            self.errors_equal_in_text += comparison.equal and not comparison.error_differences
        for first_ones, texts in (
            (self.differences, comparison.differences),
            (self.error_differences, comparison.error_differences),
        ):
            room = max(_DIFFERENCES_SHOWN - len(first_ones), 0)
            first_ones.extend(f"{where} {ran.id}: {text}" for text in texts[:room])

    def add_refused(self, reason: str) -> None:
        self.refused += 1
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    @property
    def all_equal(self) -> bool:
        return self.equal_after_decoding == self.compared and not self.refused

    def as_text(self) -> str:
        rows = [
            f"total                 {self.total}",
            f"equal after decoding  {_of(self.equal_after_decoding, self.compared)}",
            f"equal to the byte     {_of(self.equal_to_the_byte, self.compared_bytes)}",
            *([f"errors equal in text  {_of(self.errors_equal_in_text, self.errors)}"] if self.errors else []),
            f"not compared          {self.not_compared}{' (led by another leader)' if self.not_compared else ''}",
            f"refused               {self.refused}{' (a later release)' if self.refused else ''}",
            f"unusable              {self.unusable}",
        ]
        rows += [f"refused: {reason} ({count} lines)" for reason, count in self.refusals.items()]
        rows += [f"difference: {text}" for text in self.differences]
        rows += [f"difference in text: {text}" for text in self.error_differences]
        return "\n".join(rows)

    def as_document(self) -> dict[str, object]:
        return {**asdict(self), "all_equal": self.all_equal}


def _of(count: int, total: int) -> str:
    return f"{count} of {total} ({100 * count / total:.1f} %)" if total else "nothing to compare"


def _document(ran: Result) -> dict[str, object]:
    return {"id": ran.id, "output": ran.output()}


def output_text(ran: Result, view: View) -> str:
    """Returns the leader's decision as text, one line for each member or process."""
    if isinstance(ran, RerunStreamsGroup):
        lines = [_copies(f"{member}:", each.active, each.standby) for member, each in sorted(ran.placed.items())]
    else:
        lines = _placement_lines(ran.placement) if isinstance(ran, RerunPlacement) else _result_lines(ran.result, view)
    return fitted("\n".join([ran.id, *(f"  {line}" for line in lines)]), view)


def _placement_lines(placement: Placement) -> list[str]:
    lines = [
        _copies(f"{process_id}:", client.active, client.standby)
        for process_id, client in sorted(placement.clients.items())
    ]
    return [*lines, "probing rebalance needed"] if placement.probing_rebalance_needed else lines


def _result_lines(result: RebalanceResult, view: View) -> list[str]:
    if result.error is not None:
        return [f"error: {result.error.with_hint()}"]
    short = {} if view.wide else short_members(result.assignments)
    lines = [
        _member_line(short.get(member_id, member_id), raw) for member_id, raw in sorted(result.assignments.items())
    ]
    lines += [f"creates {name} with {topic.partitions} partitions" for name, topic in result.created_topics.items()]
    if result.probing_rebalance_at_ms is not None:
        lines.append(f"probing rebalance at {result.probing_rebalance_at_ms} ms")
    return lines


def _member_line(member: str, raw: bytes) -> str:
    info = decode_assignment_info(decode_assignment(raw).user_data or b"")
    if info.err_code:
        return f"{member}: {_error_name(info.err_code)}"
    line = _copies(f"{member}:", set(info.active_tasks), info.standby_tasks)
    if info.next_rebalance_ms == 0:
        return f"{line}; rejoins at once"
    return line if info.next_rebalance_ms == JAVA_LONG_MAX else f"{line}; rejoins at {info.next_rebalance_ms} ms"


def _copies(what: str, active: Iterable[TaskId], standby: Iterable[TaskId]) -> str:
    return f"{what} active {_tasks(active)}; standby {_tasks(standby)}"


def _error_name(code: int) -> str:
    return AssignorErrorCode(code).name if code in set(AssignorErrorCode) else f"error code {code}"


def _tasks(tasks: Iterable[TaskId]) -> str:
    return " ".join(map(str, sorted(tasks))) or "nothing"
