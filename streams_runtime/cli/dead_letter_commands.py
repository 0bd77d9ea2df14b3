"""`assignor dead-letters`: lists and shows dead letters, and puts their records back into the topics they came from."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assignor.errors import InputError
from assignor.names.near_names import near_name
from assignor.names.printable import lines, one_line
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX, TopicPartition
from assignor_cli.console import EXIT_UNUSABLE, leave, print_message
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, ResultOutput, output_from_options, show
from assignor_cli.tables import Column, View, age_text, table_text
from streams_runtime.cli.data_options import (
    KeyDeserializer,
    LogAddress,
    SchemaRegistry,
    ValueDeserializer,
    check_one_choice,
    count_text,
)
from streams_runtime.common.notices import one_line as cut_line

if TYPE_CHECKING:
    from streams_runtime.cli.dead_letter_retry import NotRetried, RetryPlan
    from streams_runtime.cli.named_serdes import NamedSerde
    from streams_runtime.logs.base import Log
    from streams_runtime.logs.dead_letters import DeadLetter
    from streams_runtime.logs.topic_reading import OffsetRanges

dead_letters = typer.Typer(help="List and show dead letters, and put their records back.", no_args_is_help=True)

DeadLetterTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="The dead-letter topic.")]

_LONGEST_ERROR = 60
_LONGEST_WIDE_ERROR = 300
_LABEL_WIDTH = 11
_POSITION = re.compile(r"([0-9]{1,10}):([0-9]{1,19})\Z")
_COUNTED_TWICE = (
    "A step that had processed a record before another step failed processes it again: its results count it twice."
)

_MAX_READ_HELP = "Read at most N records, the newest of each partition."
_RECORD_HELP = "Partition and offset of a dead letter; repeat for more."
_TO_HELP = "Write all records to this topic. Default: the topic that each record came from."
_SKIP_HELP = "Report and leave out records that cannot be put back; then the exit code is 2."


@dead_letters.command("list", epilog=example("dead-letters list failed --bootstrap-server embedded:log"))
@options_of(address=LogAddress, output=output_from_options)
def list_dead_letters(
    topic: DeadLetterTopic,
    address: LogAddress,
    output: ResultOutput,
    most: Annotated[
        int, typer.Option("--max", min=1, max=JAVA_INT_MAX, metavar="N", help="Show the N newest dead letters.")
    ] = 20,
    max_read: Annotated[int, typer.Option(min=1, max=JAVA_INT_MAX, metavar="N", help=_MAX_READ_HELP)] = 10_000,
) -> None:
    """List the newest dead letters, and count all by their errors.

    A dead letter has the timestamp of its input record, so AGE is the age of the input record. `again` stands at a
    record that was put back before, and failed again.
    """
    with address.opened() as log:
        address.checked_topic(log, topic)
        output.show(lambda: _list_document(log, topic, most, max_read), _list_text)


@dataclass(frozen=True, slots=True)
class Deserializers:
    """The options that determine how the key and the value of a record are shown."""

    key_deserializer: KeyDeserializer = "string"
    value_deserializer: ValueDeserializer = "string"
    schema_registry: SchemaRegistry = None

    def key(self, topic: str) -> NamedSerde:
        """Raises InputError for an unknown serde name, as `value` does."""
        from streams_runtime.cli.named_serdes import named_serde

        return named_serde(self.key_deserializer, "--key-deserializer", topic, self.schema_registry)

    def value(self, topic: str) -> NamedSerde:
        from streams_runtime.cli.named_serdes import named_serde

        return named_serde(self.value_deserializer, "--value-deserializer", topic, self.schema_registry)


@dead_letters.command("show", epilog=example("dead-letters show failed 0 17 --bootstrap-server embedded:log"))
@options_of(address=LogAddress, serdes=Deserializers)
def show_dead_letter(
    topic: DeadLetterTopic,
    partition: Annotated[
        int,
        typer.Argument(metavar="PARTITION", min=0, max=JAVA_INT_MAX, help="Its partition in the dead-letter topic."),
    ],
    offset: Annotated[
        int, typer.Argument(metavar="OFFSET", min=0, max=JAVA_LONG_MAX, help="Its offset in the dead-letter topic.")
    ],
    address: LogAddress,
    serdes: Deserializers,
    format: FormatOption = Format.TEXT,
) -> None:
    """Show one dead letter with its error and stack trace.

    A key or value that the deserializer cannot read is shown as text with escapes, and as base64 in JSON.
    """
    from streams_runtime.cli.record_lines import header_texts, headers_document
    from streams_runtime.logs.dead_letters import dead_letter_of, own_headers, read_raw, stack_trace_of
    from streams_runtime.logs.topic_reading import all_offsets

    key, value = serdes.key(topic), serdes.value(topic)
    with address.opened() as log:
        address.checked_topic(log, topic)
        position = [(partition, offset)]
        found = list(read_raw(log, _chosen(all_offsets(log, topic), topic, position)))
    _check_found(topic, position, [(each.partition, each.offset) for each in found])
    [record] = found
    letter, headers = dead_letter_of(record), own_headers(record.headers)
    key_document, key_text = _decoded(record.key, key, "--key-deserializer")
    value_document, value_text = _decoded(record.value, value, "--value-deserializer")
    document = {
        **_letter_document(letter),
        "key": key_document,
        "value": value_document,
        "headers": headers_document(headers),
        "stack_trace": stack_trace_of(record.headers),
    }
    texts = [("key", key_text), ("value", value_text)]
    texts += [("header", f"{name}: {'null' if text is None else text}") for name, text in header_texts(headers)]
    show(document, lambda view: _letter_text(document, texts, view), format)


@dead_letters.command(
    "retry",
    epilog=example("dead-letters retry failed --all --bootstrap-server embedded:log"),
)
@options_of(address=LogAddress)
def retry_dead_letters(
    topic: DeadLetterTopic,
    address: LogAddress,
    record: Annotated[list[str] | None, typer.Option(metavar="PARTITION:OFFSET", help=_RECORD_HELP)] = None,
    all_records: Annotated[bool, typer.Option("--all", help="Every record of the dead-letter topic.")] = False,
    to: Annotated[str | None, typer.Option(metavar="TOPIC", help=_TO_HELP)] = None,
    skip_refused: Annotated[bool, typer.Option("--skip-refused", help=_SKIP_HELP)] = False,
    execute: Annotated[
        bool, typer.Option("--execute/--dry-run", help="Write the records, or only print them (default).")
    ] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Put records back into the partitions they came from.

    A record is written with its key, value, timestamp and headers, without the error headers. The application then
    processes it again. A step that had processed the record before another step failed counts it twice. Nothing is
    deleted from the dead-letter topic: a second retry writes the records again.
    """
    from streams_runtime.cli.dead_letter_retry import carry_out, plan_retry
    from streams_runtime.logs.topic_reading import all_offsets

    positions = list(dict.fromkeys(_position(each) for each in record or ()))
    check_one_choice([name for name, given in (("--record", positions), ("--all", all_records)) if given])
    if not positions and not all_records:
        raise InputError("nothing is chosen: give --record or --all", "")
    if to == topic:
        raise InputError("is the dead-letter topic itself", "--to")
    with address.opened() as log:
        address.checked_topic(log, topic)
        if to is not None and to not in (known := log.topics()):
            near = near_name(to, known)
            raise InputError(f"there is no topic {to}{'' if near is None else f'; did you mean {near}?'}", "--to")
        there = all_offsets(log, topic)
        plan = plan_retry(log, topic, [there] if all_records else _chosen(there, topic, positions), to)
        _check_found(topic, positions, plan.positions)
        if plan.refused and not skip_refused:
            raise InputError(_refused_text(plan))
        if execute and plan.retries:
            carry_out(log, plan)
    document = _retry_document(plan, executed=execute)
    show(document, lambda view: _retry_text(document, view), format)
    for each in plan.refused:
        print_message(f"{each.letter.position} cannot be put back: {each.reason}")
    if plan.refused:
        leave(EXIT_UNUSABLE)


def _position(text: str) -> tuple[int, int]:
    """Parses PARTITION:OFFSET. Raises InputError."""
    match = _POSITION.match(text)
    if match is None:
        raise InputError(f"must be PARTITION:OFFSET, such as 0:17, not {text[:_LONGEST_ERROR]!r}", "--record")
    return int(match[1]), int(match[2])


def _chosen(there: OffsetRanges, topic: str, positions: list[tuple[int, int]]) -> list[OffsetRanges]:
    """Returns the offsets to read, one record after the other. `there`: the offsets of the topic. Raises InputError for
    a partition or an offset that the topic does not have.
    """
    for partition, offset in positions:
        offsets = there.get(TopicPartition(topic, partition))
        if offsets is None:
            raise InputError(f"topic {topic} has partitions 0 to {len(there) - 1}, no {partition}")
        if offset not in offsets:
            which = f"it has the offsets {offsets[0]} to {offsets[-1]}" if offsets else "it is empty"
            raise InputError(f"{topic}-{partition} has no record at offset {offset}; {which}")
    return [{TopicPartition(topic, partition): range(offset, offset + 1)} for partition, offset in positions]


def _check_found(topic: str, positions: list[tuple[int, int]], found: Collection[tuple[int, int]]) -> None:
    """Raises InputError if a position has no record. Compaction and markers of transactions leave such offsets."""
    for partition, offset in positions:
        if (partition, offset) not in found:
            raise InputError(f"{topic}-{partition} has no record at offset {offset}")


def _list_document(log: Log, topic: str, most: int, max_read: int) -> dict[str, Any]:
    from streams_runtime.logs.dead_letters import counts_by_error, dead_letter_of, read_raw
    from streams_runtime.logs.topic_reading import all_offsets, newest_offsets

    there = all_offsets(log, topic)
    newest = newest_offsets(there, max_read)
    found = [dead_letter_of(record) for record in read_raw(log, [newest])]
    return {
        "topic": topic,
        "read": len(found),
        "is_complete": newest == there,
        "counts": [
            {"error": error or None, "source_topic": source, "count": count}
            for error, source, count in counts_by_error(found)
        ],
        "dead_letters": [
            _letter_document(each)
            for each in nlargest(most, found, key=lambda each: (each.timestamp_ms, each.offset, each.partition))
        ],
    }


def _letter_document(letter: DeadLetter) -> dict[str, Any]:
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp_ms,
        "error": letter.error or None,
        "message": letter.message,
        "source": None if letter.source is None else letter.source._asdict(),
        "task": letter.task,
        "retry_of": letter.retry_of,
    }


_COUNT_COLUMNS = (Column("COUNT", right=True), Column("ERROR", shorten=True), Column("FROM", shorten=True))
_LIST_COLUMNS = (
    Column("AGE", right=True),
    Column("PARTITION", right=True),
    Column("OFFSET", right=True),
    Column("ERROR", wrap=True),
    Column("FROM", shorten=True),
    Column("TASK"),
    Column("RETRY", optional=True),
)


def _list_text(document: dict[str, Any], view: View) -> str:
    topic, read, shown = document["topic"], count_text(document["read"], "record"), document["dead_letters"]
    whole = document["is_complete"]
    head = f"{topic}: {read}" if whole else f"{topic}: the newest {read} were read; --max-read reads more"
    if not shown:
        return head
    counts = [(each["count"], _class_text(each["error"], view), each["source_topic"]) for each in document["counts"]]
    rows = [
        (
            age_text(each["timestamp"], view.now_ms),
            each["partition"],
            each["offset"],
            _error_text(each, view),
            _source_text(each["source"]),
            each["task"],
            _retry_of_text(each["retry_of"], view),
        )
        for each in shown
    ]
    parts = [head, table_text("", _COUNT_COLUMNS, counts, view), "", table_text("", _LIST_COLUMNS, rows, view)]
    if len(shown) < document["read"]:
        parts.append(f"{document['read'] - len(shown)} older records are not shown; --max shows more.")
    return "\n".join(parts)


def _class_text(error: str | None, view: View) -> str:
    if error is None:
        return "no dead letter"
    return error if view.wide else error.rpartition(".")[2]


def _error_text(letter: Mapping[str, Any], view: View) -> str:
    text = f"{_class_text(letter['error'], view)}: {letter['message']}".removesuffix(": ")
    return cut_line(text, _LONGEST_WIDE_ERROR if view.wide else _LONGEST_ERROR)


def _source_text(source: Mapping[str, Any] | None) -> str | None:
    return None if source is None else _position_text(source)


def _position_text(document: Mapping[str, Any]) -> str:
    from streams_runtime.logs.dead_letters import position_text

    return position_text(document["topic"], document["partition"], document["offset"])


def _retry_of_text(retry_of: str | None, view: View) -> str | None:
    if retry_of is None:
        return None
    return f"again, {retry_of}" if view.wide else "again"


def _letter_text(document: dict[str, Any], texts: list[tuple[str, str]], view: View) -> str:
    from rebalance_analysis.presentation.quantities import time_text

    source = _source_text(document["source"]) or "no input record"
    error = f"{document['error'] or 'no dead letter'}: {document['message']}".removesuffix(": ")
    timestamp_ms = document["timestamp"]
    age = age_text(timestamp_ms, view.now_ms)
    rows = [
        ("from", source if document["task"] is None else f"{source}, task {document['task']}"),
        ("error", error),
        ("timestamp", f"{timestamp_ms} ({time_text(timestamp_ms)}, {age} ago)"),
    ]
    if document["retry_of"] is not None:
        rows.append(("again", f"the record of {document['retry_of']} was put back and failed again"))
    parts = [_position_text(document)]
    parts += [f"{label:<{_LABEL_WIDTH}}{one_line(text)}" for label, text in (*rows, *texts)]
    if document["stack_trace"] is not None:
        parts += ["", lines(document["stack_trace"].rstrip("\n"))]
    return "\n".join(parts)


def _decoded(data: bytes | None, named: NamedSerde, option: str) -> tuple[Any, str]:
    """Returns a key or a value as a JSON value and as text. The serde cannot read the bytes of many dead letters, so
    bytes that it cannot read are no error. Raises SchemaRegistryUnavailable.
    """
    from streams_runtime.cli.record_lines import bytes_document, bytes_text
    from streams_runtime.common.errors import SchemaRegistryUnavailable

    if data is None:
        return None, "null"
    try:
        decoded = named.serde.deserialize(data)
        return named.to_json(decoded), named.to_text(decoded)
    except SchemaRegistryUnavailable:
        raise
    except Exception:  # a serde may raise any error
        size = count_text(len(data), "byte")
        return bytes_document(data), f"{bytes_text(data)} ({size}; {option} {named.name} cannot read them)"


def _refused_text(plan: RetryPlan) -> str:
    first, count = plan.refused[0], len(plan.refused)
    more = "" if count == 1 else f" ({count - 1} more cannot be put back)"
    return (
        f"{first.letter.position} cannot be put back: {first.reason}{more}; nothing is written; --skip-refused leaves "
        "out such records"
    )


def _retry_document(plan: RetryPlan, *, executed: bool) -> dict[str, Any]:
    return {
        "topic": plan.topic,
        "executed": executed,
        "retried": [
            {**_letter_document(letter), "to": {"topic": target.topic, "partition": target.partition}}
            for letter, target in plan.retries
        ],
        "left_out": [_not_retried_document(each) for each in plan.left_out],
        "refused": [_not_retried_document(each) for each in plan.refused],
    }


def _not_retried_document(each: NotRetried) -> dict[str, Any]:
    return {"partition": each.letter.partition, "offset": each.letter.offset, "reason": each.reason}


_RETRY_COLUMNS = (
    Column("PARTITION", right=True),
    Column("OFFSET", right=True),
    Column("ERROR", wrap=True),
    Column("FROM", shorten=True),
    Column("TO", shorten=True),
    Column("RETRY", optional=True),
)
_LEFT_OUT_COLUMNS = (Column("PARTITION", right=True), Column("OFFSET", right=True), Column("LEFT OUT", wrap=True))


def _retry_text(document: dict[str, Any], view: View) -> str:
    retried = document["retried"]
    if not retried:
        parts = [f"{document['topic']}: there is no record to put back"]
    elif document["executed"]:
        parts = [f"{document['topic']}: {count_text(len(retried), 'record')} put back"]
    else:
        count = count_text(len(retried), "record")
        parts = [f"{document['topic']}: a retry would put {count} back; nothing is written"]
    rows = [
        (
            each["partition"],
            each["offset"],
            _error_text(each, view),
            _source_text(each["source"]),
            f"{each['to']['topic']}-{each['to']['partition']}",
            _retry_of_text(each["retry_of"], view),
        )
        for each in retried
    ]
    if rows:
        parts.append(table_text("", _RETRY_COLUMNS, rows, view))
    left_out = [(each["partition"], each["offset"], each["reason"]) for each in document["left_out"]]
    if left_out:
        parts += ["", table_text("", _LEFT_OUT_COLUMNS, left_out, view)]
    if rows and not document["executed"]:
        parts += [_COUNTED_TWICE, "--execute writes them."]
    return "\n".join(parts)
