"""`assignor consume`: prints the records of a topic as lines, like `kafka-console-consumer.sh`. The command joins no
group.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assignor.errors import AssignorFault, InputError
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX, Offsets, TopicPartition
from assignor_cli.console import EXIT_INTERRUPTED, EXIT_NO, EXIT_NOBODY_READS, EXIT_UNUSABLE, leave, print_message
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, data_text
from streams_runtime.cli.data_options import (
    KeyDeserializer,
    LogAddress,
    SchemaRegistry,
    ValueDeserializer,
    check_one_choice,
    count_text,
    time_ms,
)
from streams_runtime.cli.named_serdes import NAMES, named_serde
from streams_runtime.logs.base import Consumer, IsolationLevel, Log, RecordBatch

if TYPE_CHECKING:
    from streams_runtime.cli.record_lines import LineWriter
    from streams_runtime.logs.topic_reading import ConsumedRecord, UndecodableRecord

_POLL_S = 0.2
_POLL_RECORDS = 2_000

_OFFSET_HELP = "Start at earliest, latest, an offset, or -N for the last N records of each partition. Default: latest."
_SINCE_HELP = "Start at the first record since this time: milliseconds, or 2026-11-22T19:00:00Z."
_ISOLATION_HELP = "read_committed leaves out records of open and aborted transactions; read_uncommitted shows them."
_TIMEOUT_HELP = "Stop if no record arrives for this many milliseconds. Default: wait without limit."


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The options that determine which records are printed. Raises InputError if options exclude each other."""

    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to read.")]
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="The same as --offset earliest.")] = False
    offset: Annotated[str | None, typer.Option(metavar="OFFSET", help=_OFFSET_HELP)] = None
    since: Annotated[str | None, typer.Option(metavar="TIME", help=_SINCE_HELP)] = None
    partition: Annotated[
        list[int] | None,
        typer.Option(min=0, max=JAVA_INT_MAX, help="Partition to read; repeat for more. Default: all partitions."),
    ] = None
    max_messages: Annotated[
        int | None, typer.Option(min=1, max=JAVA_LONG_MAX, metavar="N", help="Stop after N records.")
    ] = None
    until_end: Annotated[bool, typer.Option("--until-end", help="Stop at the topic's present end.")] = False
    timeout_ms: Annotated[int | None, typer.Option(min=0, max=JAVA_LONG_MAX, metavar="MS", help=_TIMEOUT_HELP)] = None
    isolation_level: Annotated[IsolationLevel, typer.Option(help=_ISOLATION_HELP)] = IsolationLevel.READ_COMMITTED
    skip_bad_records: Annotated[
        bool, typer.Option("--skip-bad-records", help="Report and skip unreadable records; then the exit code is 2.")
    ] = False

    def __post_init__(self) -> None:
        given = {"--from-beginning": self.from_beginning, "--offset": self.offset, "--since": self.since}
        check_one_choice([name for name, value in given.items() if value not in (None, False)])

    @property
    def begins_at_the_end(self) -> bool:
        return not self.from_beginning and self.since is None and self.offset in (None, "latest")

    def starts(self, log: Log, partitions: list[TopicPartition]) -> Offsets:
        """Returns, for each partition, the offset of the first record to read. Raises InputError for an invalid
        offset.
        """
        begins, ends = log.begin_offsets(partitions), log.end_offsets(partitions, self.isolation_level)
        if self.since is not None:
            since = log.offsets_for_time(partitions, time_ms(self.since, "--since"))
            return {each: since.get(each, ends[each]) for each in partitions}
        text = "earliest" if self.from_beginning else self.offset or "latest"
        if text in ("earliest", "latest"):
            return begins if text == "earliest" else ends
        try:
            offset = int(text)
        except ValueError:
            raise InputError(f"must be earliest, latest or a number, not {text!r}", "--offset") from None
        if offset < 0:
            return {each: max(begins[each], ends[each] + offset) for each in partitions}
        outside = [each for each in partitions if not begins[each] <= offset <= ends[each]]
        if outside:
            where = f"{outside[0]} has the offsets {begins[outside[0]]} to {ends[outside[0]]}"
            raise InputError(f"{where}, and {offset} is none of them; --partition names where it counts", "--offset")
        return dict.fromkeys(partitions, offset)


@dataclass(frozen=True, slots=True)
class LineOptions:
    """The options that determine the output for each record."""

    key_deserializer: KeyDeserializer = "string"
    value_deserializer: ValueDeserializer = "string"
    schema_registry: SchemaRegistry = None
    print_key: Annotated[bool, typer.Option("--print-key", help="Print the key as well.")] = False
    print_timestamp: Annotated[bool, typer.Option("--print-timestamp", help="Print the timestamp in milliseconds.")] = (
        False
    )
    print_partition: Annotated[bool, typer.Option("--print-partition", help="Print the partition.")] = False
    print_offset: Annotated[bool, typer.Option("--print-offset", help="Print the offset.")] = False
    print_headers: Annotated[
        bool, typer.Option("--print-headers", help="Print the headers as name:value,name:value.")
    ] = False
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Separator of the printed fields. Default: a tab.")
    ] = None
    null_marker: Annotated[str, typer.Option(metavar="TEXT", help="Text to print for null.")] = "null"
    format: FormatOption = Format.TEXT

    def writer(self, topic: str) -> LineWriter:
        """Returns the object that writes the lines. Raises InputError for an unknown serde name."""
        from streams_runtime.cli.record_lines import LineWriter

        everything = self.format is Format.WIDE
        return LineWriter(
            named_serde(self.key_deserializer, "--key-deserializer", topic, self.schema_registry),
            named_serde(self.value_deserializer, "--value-deserializer", topic, self.schema_registry),
            timestamp=self.print_timestamp or everything,
            partition=self.print_partition or everything,
            offset=self.print_offset or everything,
            headers=self.print_headers or everything,
            print_key=self.print_key or everything,
            separator="\t" if self.key_separator is None else self.key_separator.replace("\\t", "\t"),
            null_marker=self.null_marker,
        )


@options_of(options=ConsumeOptions, lines=LineOptions, address=LogAddress)
def consume(options: ConsumeOptions, lines: LineOptions, address: LogAddress) -> None:
    """Print the records of a topic, one record per line.

    Without --from-beginning, --offset or --since, the command prints only new records. The command commits no offsets
    of any group.
    """
    writer = lines.writer(options.topic)
    with address.opened() as log:
        partitions = _partitions(options, address.checked_topic(log, options.topic))
        ends = log.end_offsets(partitions, options.isolation_level)
        starts = options.starts(log, partitions)
        if options.begins_at_the_end and not options.until_end and sys.stderr.isatty():
            print_message("waiting for new records; --from-beginning shows those that are there; Ctrl-C ends")
        with closing(log.consumer(options.isolation_level)) as consumer:
            consumer.assign(partitions)
            for partition, offset in starts.items():
                consumer.seek(partition, offset)
            _Consumption(options, lines, writer, consumer, ends).run()


def _partitions(options: ConsumeOptions, count: int) -> list[TopicPartition]:
    numbers = sorted(set(options.partition or range(count)))
    if numbers[-1] >= count:
        raise InputError(f"topic {options.topic} has partitions 0 to {count - 1}, no {numbers[-1]}", "--partition")
    return [TopicPartition(options.topic, number) for number in numbers]


@dataclass
class _Consumption:
    """One run of `consume`. `ends`: the end offsets of the partitions when the run began."""

    options: ConsumeOptions
    lines: LineOptions
    writer: LineWriter
    consumer: Consumer
    ends: Mapping[TopicPartition, int]
    printed: int = 0
    bad: int = 0

    def run(self) -> None:
        """Prints the records. Exits with a nonzero exit code if some of the requested records were not printed. Raises
        UndecodableRecord, LogError.
        """
        try:
            self._print_until_the_end()
        except KeyboardInterrupt:
            print_message(count_text(self.printed, "record"))
            leave(EXIT_INTERRUPTED)
        except BrokenPipeError:
            # the program that reads stdout has closed the pipe; for example, `head` closes the pipe when it has enough
            # lines
            leave(EXIT_NOBODY_READS)
        most = self.options.max_messages
        is_short = most is not None and self.printed < most and not self.options.until_end
        print_message(f"{count_text(self.printed, 'record')}{f' of {most}' if is_short else ''}")
        if self.bad:
            leave(EXIT_UNUSABLE)
        if is_short:
            leave(EXIT_NO)

    def _print_until_the_end(self) -> None:
        longest_s = float("inf") if self.options.timeout_ms is None else self.options.timeout_ms / 1_000
        last_at = time.monotonic()
        while not self._is_done():
            wait_s = min(_POLL_S, max(0.0, last_at + longest_s - time.monotonic()))
            batches = self.consumer.poll(round(wait_s * 1_000), _POLL_RECORDS)
            for batch in batches:
                self._print(batch)
            if batches:
                last_at = time.monotonic()
            elif time.monotonic() - last_at >= longest_s:
                return

    def _is_done(self) -> bool:
        if self.options.max_messages is not None and self.printed >= self.options.max_messages:
            return True
        return self.options.until_end and all(
            (self.consumer.position(each) or 0) >= end for each, end in self.ends.items()
        )

    def _print(self, batch: RecordBatch) -> None:
        """Prints the records of a batch. If a record cannot be decoded, the records before it are printed, and then the
        error is raised.
        """
        from streams_runtime.logs.topic_reading import consumed_records

        most = self.options.max_messages
        left = len(batch) if most is None else most - self.printed
        lines = []
        try:
            for record in consumed_records(
                batch.part(0, min(left, len(batch))), self.writer.key.serde, self.writer.value.serde, self._unreadable
            ):
                lines.append(self._line(record))  # noqa: PERF401 - lines made before an error have to be printed
        finally:
            self.printed += len(lines)
            if lines:
                print("\n".join(lines), flush=True)

    def _line(self, record: ConsumedRecord[Any, Any]) -> str:
        if self.lines.format.is_data:
            return data_text(self.writer.document(record), self.lines.format)
        return self.writer.text(record)

    def _unreadable(self, error: UndecodableRecord) -> None:
        option = f"--{error.part}-deserializer"
        named = self.writer.key if error.part == "key" else self.writer.value
        reason = f" ({error.__cause__})" if isinstance(error.__cause__, AssignorFault) else ""
        problem = f"{error}{reason}; {option} {named.name} does not fit: one of {', '.join(NAMES)}?"
        if not self.options.skip_bad_records:
            raise InputError(f"{problem} --skip-bad-records goes on without it") from error
        self.bad += 1
        print_message(problem)
