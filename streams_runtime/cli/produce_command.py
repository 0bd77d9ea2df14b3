"""`assignor produce`: writes each line of stdin or of a file as a record, like `kafka-console-producer.sh`."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, BinaryIO

import typer

from assignor.errors import AssignorFault, InputError
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX
from assignor_cli.console import EXIT_INTERRUPTED, EXIT_UNUSABLE, leave, print_message
from assignor_cli.option_groups import options_of
from streams_runtime.cli.data_options import LogAddress, SchemaRegistry, checked_timestamp_ms, count_text, time_ms
from streams_runtime.logs.log_errors import InvalidRecord, RecordTooLarge, UnknownTopicOrPartition

if TYPE_CHECKING:
    from streams_runtime.cli.record_lines import LineReader, RecordLine
    from streams_runtime.common.records import Headers
    from streams_runtime.logs.record_producer import RecordProducer

CERTAIN_EVERY = 10_000
"""Whenever the command has sent this number of records, it waits until the log has acknowledged all of them."""
_SHOWN_EVERY_S = 0.5
_STDIN = "-"
_CHUNK_BYTES = 256 * 1024

_FILE_HELP = "File with the lines to write. Default: - for stdin."
_SEPARATOR_HELP = "Text between key and value; \\t for a tab. Default: the whole line is the value."
_JSON_HELP = "Each line is an object with key, value, headers, timestamp, partition, as `consume -o json` writes it."
_SERDE_HELP = (
    "string, boolean, short, integer, long, float, double, uuid, void, json, bytes (base64), list-of-string and so on; "
    "of a schema registry: avro, json-schema, protobuf"
)
_TIMESTAMP_HELP = (
    "Timestamp of records without one: milliseconds, or 2026-11-22T19:00:00Z. Default: the time of writing."
)
_FROM_LINE_HELP = "First line to write, if an earlier run has written the lines before."


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    """The options of `produce`. Raises InputError if options exclude each other."""

    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to write to.")]
    file: Annotated[str, typer.Argument(metavar="[FILE]", help=_FILE_HELP, show_default=False)] = _STDIN
    key_separator: Annotated[str | None, typer.Option(metavar="TEXT", help=_SEPARATOR_HELP)] = None
    json: Annotated[bool, typer.Option("--json", help=_JSON_HELP)] = False
    null_marker: Annotated[str | None, typer.Option(metavar="TEXT", help="Text that means null.")] = None
    key_serializer: Annotated[str, typer.Option(metavar="NAME", help=f"Type of keys: {_SERDE_HELP}.")] = "string"
    value_serializer: Annotated[str, typer.Option(metavar="NAME", help=f"Type of values: {_SERDE_HELP}.")] = "string"
    schema_registry: SchemaRegistry = None
    timestamp: Annotated[str | None, typer.Option(metavar="TIME", help=_TIMESTAMP_HELP)] = None
    partition: Annotated[
        int | None,
        typer.Option(min=0, max=JAVA_INT_MAX, help="Partition for all records. Default: by the key, as in Kafka."),
    ] = None
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Header of every record; repeat for more headers.")
    ] = None
    from_line: Annotated[int, typer.Option(min=1, max=JAVA_LONG_MAX, metavar="N", help=_FROM_LINE_HELP)] = 1
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Report and skip lines without a valid record; exit code 2.")
    ] = False

    def __post_init__(self) -> None:
        if self.json and (self.key_separator is not None or self.null_marker is not None):
            raise InputError("has key, value and null of its own; leave out --key-separator, --null-marker", "--json")
        if self.key_separator == "":
            raise InputError("must not be empty", "--key-separator")

    def reader(self) -> LineReader:
        from streams_runtime.cli.named_serdes import named_serde
        from streams_runtime.cli.record_lines import LineReader

        separator = self.key_separator
        return LineReader(
            named_serde(self.key_serializer, "--key-serializer", self.topic, self.schema_registry),
            named_serde(self.value_serializer, "--value-serializer", self.topic, self.schema_registry),
            None if separator is None else separator.replace("\\t", "\t"),
            self.null_marker,
            self.json,
        )

    def headers(self) -> Headers:
        from streams_runtime.cli.record_lines import BadLine, header_of

        try:
            return tuple(header_of(each) for each in self.header or ())
        except BadLine as error:
            raise InputError(str(error), "--header") from None

    def timestamp_ms(self) -> int | None:
        if self.timestamp is None:
            return None
        return checked_timestamp_ms(time_ms(self.timestamp, "--timestamp"), "--timestamp")


@options_of(options=ProduceOptions, address=LogAddress)
def produce(options: ProduceOptions, address: LogAddress) -> None:
    """Write each line as a record to a topic.

    A record with a key goes to the partition that Kafka's own clients would choose. When all lines are written, the
    command prints the number of records.
    """
    from streams_runtime.logs.record_producer import RecordProducer
    from streams_runtime.serdes import BYTES

    reader, headers, timestamp_ms = options.reader(), options.headers(), options.timestamp_ms()
    with address.opened() as log:
        count = address.checked_topic(log, options.topic)
        if options.partition is not None and options.partition >= count:
            raise InputError(f"topic {options.topic} has partitions 0 to {count - 1}", "--partition")
        if options.file == _STDIN and sys.stdin.isatty():
            print_message("one record a line; Ctrl-D ends")
        with RecordProducer(log, BYTES, BYTES) as producer:
            _Production(options, reader, headers, timestamp_ms, producer).run()


@dataclass
class _Production:
    """One run of `produce`: reads the lines, sends the records, and counts the records that the log has
    acknowledged.
    """

    options: ProduceOptions
    reader: LineReader
    headers: Headers
    timestamp_ms: int | None
    producer: RecordProducer[bytes, bytes]

    def __post_init__(self) -> None:
        self._taken = self._written = self._bad = 0
        self._line = 1  # The number of the next line to read.
        self._next_line = 1  # All lines before this line were skipped or acknowledged.
        self._began = time.monotonic()
        self._shown_at = self._began if sys.stderr.isatty() else float("inf")

    def run(self) -> None:
        """Writes all lines. Exits with a nonzero exit code if the run was interrupted or a line was skipped."""
        try:
            self._take_all()
            self._make_certain()
        except KeyboardInterrupt:
            self._end("interrupted; ")
            leave(EXIT_INTERRUPTED)
        except AssignorFault as fault:
            self._give_up(fault)
        self._report_end("")
        if self._bad:
            print_message(f"{self._bad} of the lines are no records and were left out")
            leave(EXIT_UNUSABLE)

    def _take_all(self) -> None:
        for number, line in _input_lines(self.options.file, self._make_certain):
            if number >= self.options.from_line:
                self._take(number, line)
            self._line = number + 1
            if self._taken - self._written >= CERTAIN_EVERY:
                self._make_certain()
            if time.monotonic() - self._shown_at >= _SHOWN_EVERY_S:
                self._show()

    def _take(self, number: int, line: bytes) -> None:
        from streams_runtime.cli.record_lines import BadLine

        try:
            record = self.reader.record(line)
            if record is not None:
                self._send(record)
        except BadLine as error:
            self._set_aside(f"{_name_of(self.options.file)}, line {number} {error}")
        except (InvalidRecord, RecordTooLarge, UnknownTopicOrPartition) as error:
            self._set_aside(f"{_name_of(self.options.file)}, line {number}: {error}")

    def _set_aside(self, problem: str) -> None:
        if not self.options.skip_bad_lines:
            raise _LineRefused(problem)
        self._bad += 1
        print_message(problem)

    def _send(self, record: RecordLine) -> None:
        self.producer.send(
            self.options.topic,
            record.key,
            record.value,
            timestamp_ms=self.timestamp_ms if record.timestamp_ms is None else record.timestamp_ms,
            headers=(*record.headers, *self.headers),
            partition=self.options.partition if record.partition is None else record.partition,
        )
        self._taken += 1

    def _make_certain(self) -> None:
        self.producer.flush()
        self._written, self._next_line = self._taken, self._line

    def _give_up(self, fault: AssignorFault) -> None:
        """Raises the error. The error message states which lines were written, so that the user can continue with the
        next line.
        """
        try:
            self._make_certain()
        except AssignorFault as error:
            fault = fault if isinstance(fault, _LineRefused) else error
            self.producer.discard()
        if not self._taken and not isinstance(fault, _LineRefused):
            raise fault
        progress = f"what came before line {self._next_line} is written ({count_text(self._written, 'record')})"
        if self._taken > self._written:
            progress += f", and of {count_text(self._taken - self._written, 'record')} after that it is not known"
        if not isinstance(fault, _LineRefused):
            raise type(fault)(f"{fault}; {progress}") from fault
        raise InputError(
            f"{fault}; {progress}: correct the line, and go on with --from-line {self._next_line}"
        ) from fault

    def _end(self, why: str) -> None:
        try:
            self._make_certain()
        except AssignorFault as error:
            self.producer.discard()
            print_message(f"error: {error}")
        self._report_end(why)

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        print(f"\r{count_text(self._taken, 'record')} ", end="", file=sys.stderr, flush=True)

    def _report_end(self, why: str) -> None:
        start = "\r" if self._shown_at > self._began and self._shown_at != float("inf") else ""
        seconds = time.monotonic() - self._began
        unknown = self._taken - self._written
        more = f"; of {unknown} more it is not known" if unknown else ""
        written = count_text(self._written, "record")
        print_message(f"{start}{why}{written} written to {self.options.topic} in {seconds:.1f} s{more}")


class _LineRefused(AssignorFault):
    """A line is not a valid record, or the topic does not accept the record. The error message begins with the file
    name and the line number.
    """


def _name_of(source: str) -> str:
    """Returns the name that messages show for the input."""
    return "stdin" if source == _STDIN else source


def _input_lines(source: str, about_to_wait: Callable[[], None]) -> Iterator[tuple[int, bytes]]:
    """Yields the number of each line, counted from 1, and the line without its line break. The last line may have no
    line break.

    `source`: the path of a file, or `-` for stdin. `about_to_wait`: the iterator calls this function each time before
    it waits for more input. Raises InputError for a file that cannot be read.
    """
    with ExitStack() as closing:
        try:
            stream = sys.stdin.buffer if source == _STDIN else closing.enter_context(Path(source).open("rb"))
            number, rest = 0, b""
            while chunk := _next_chunk(stream, about_to_wait):
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    number += 1
                    yield number, line.removesuffix(b"\r")
            if rest:
                yield number + 1, rest.removesuffix(b"\r")
        except OSError as error:
            if error.filename is None and not isinstance(error, IsADirectoryError):
                raise  # the code of the caller raised this error during a `yield`
            raise InputError(f"cannot be read: {error.strerror}", _name_of(source)) from None


def _next_chunk(stream: BinaryIO | IO[bytes], about_to_wait: Callable[[], None]) -> bytes:
    try:
        is_there = bool(select.select([stream], [], [], 0)[0])
    # The stream has no file descriptor, so `select` is not possible. `select` is not needed either, because the content
    # is available at once.
    except (OSError, ValueError):
        is_there = True
    if not is_there:
        about_to_wait()
    return stream.read1(_CHUNK_BYTES)  # type: ignore[union-attr,no-any-return]
