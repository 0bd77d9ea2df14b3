"""Reads the headers of dead letters: the error, the position of the input record, and whether the record was put back
before.

Rules: the error headers follow the headers that the input record had. A dead letter of Kafka's own runtime has the same
headers, but no header with the task. A record that was itself a dead letter, and then failed in another application,
has error headers of its own. So of several headers with one name, only the last is an error header of the dead letter.
Source: `ExceptionHandlerUtils` (KIP-1034).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from streams_runtime.common.records import Headers, RecordMetadata
from streams_runtime.logs.base import Log
from streams_runtime.logs.topic_reading import ConsumedRecord, OffsetRanges, read_offsets
from streams_runtime.serdes import BYTES

HEADER_EXCEPTION = "__streams.errors.exception"
HEADER_MESSAGE = "__streams.errors.message"
HEADER_STACKTRACE = "__streams.errors.stacktrace"
HEADER_TOPIC = "__streams.errors.topic"
HEADER_PARTITION = "__streams.errors.partition"
HEADER_OFFSET = "__streams.errors.offset"
HEADER_TASK = "__streams.errors.task"
HEADER_RETRY_OF = "__streams.retry.of"
"""The header of a record that was put back. Its value is the position of the dead letter, such as `failed-0@17`."""

_ERROR_HEADERS = (
    HEADER_EXCEPTION,
    HEADER_MESSAGE,
    HEADER_STACKTRACE,
    HEADER_TOPIC,
    HEADER_PARTITION,
    HEADER_OFFSET,
    HEADER_TASK,
)
_NUMBER = re.compile(r"[0-9]{1,19}\Z")

RawConsumedRecord = ConsumedRecord[bytes | None, bytes | None]


class DeadLetter(NamedTuple):
    """The position of a record in a dead-letter topic, and the contents of its error headers. The key, the value and
    the stack trace are left out, so that many dead letters fit into memory.

    `timestamp_ms`: the timestamp of the input record. `error`: the class of the error with its package or module; empty
    if the record has no error headers. `source`: the position of the input record; None if there is none. `no_source`:
    the reason why `source` is None. `task`: the id of the Streams task; None for dead letters of Kafka's own runtime.
    `retry_of`: the position of an earlier dead letter in the same topic, if the input record was put back before.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    error: str
    message: str
    source: RecordMetadata | None
    no_source: str
    task: str | None
    retry_of: str | None

    @property
    def position(self) -> str:
        return position_text(self.topic, self.partition, self.offset)


def position_text(topic: str, partition: int, offset: int) -> str:
    return f"{topic}-{partition}@{offset}"


def dead_letter_of(record: RawConsumedRecord) -> DeadLetter:
    found = dict(record.headers)  # of several headers with one name, a dict keeps the last
    source, no_source = _source_of(found)
    return DeadLetter(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        _text(found.get(HEADER_EXCEPTION)) or "",
        _text(found.get(HEADER_MESSAGE)) or "",
        source,
        no_source,
        _text(found.get(HEADER_TASK)),
        _retry_of(record.topic, _text(found.get(HEADER_RETRY_OF))),
    )


def stack_trace_of(headers: Headers) -> str | None:
    return _text(dict(headers).get(HEADER_STACKTRACE))


def own_headers(headers: Headers) -> Headers:
    """Returns the headers that the input record had before the first retry."""
    last = {name: index for index, (name, _) in enumerate(headers)}
    error_headers = {last[name] for name in _ERROR_HEADERS if name in last}
    return tuple(
        header for index, header in enumerate(headers) if index not in error_headers and header[0] != HEADER_RETRY_OF
    )


def _retry_of(topic: str, position: str | None) -> str | None:
    """Returns the position if it is in the topic. The results of a record have its headers, so another application that
    reads the results may send a dead letter with the position of a record in the first application's topic.
    """
    if position is None or position.rpartition("@")[0].rpartition("-")[0] != topic:
        return None
    return position


def _source_of(found: Mapping[str, bytes | None]) -> tuple[RecordMetadata | None, str]:
    """Returns the position of the input record and an empty text, or None and the reason why there is no position."""
    for name in (HEADER_TOPIC, HEADER_PARTITION, HEADER_OFFSET):
        if name not in found:
            return None, f"it is no dead letter: it has no header {name}"
    topic, partition, offset = (_text(found[name]) or "" for name in (HEADER_TOPIC, HEADER_PARTITION, HEADER_OFFSET))
    if not topic or "-1" in (partition, offset):
        return None, "it has no input record: a punctuation failed"
    for name, text in ((HEADER_PARTITION, partition), (HEADER_OFFSET, offset)):
        if not _NUMBER.match(text):
            return None, f"its header {name} is no number"
    return RecordMetadata(topic, int(partition), int(offset)), ""


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def counts_by_error(letters: Sequence[DeadLetter]) -> list[tuple[str, str | None, int]]:
    """Returns the number of dead letters for each error class and source topic, the highest number first."""
    counts = Counter((letter.error, letter.source.topic if letter.source else None) for letter in letters)
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0][0], each[0][1] or ""))
    return [(error, topic, count) for (error, topic), count in ordered]


def read_raw(log: Log, selection: Sequence[OffsetRanges]) -> Iterator[RawConsumedRecord]:
    """Yields the records at the selected offsets. `selection`: offsets to read, in this order. Raises LogError."""
    for ranges in selection:
        yield from read_offsets(log, ranges, BYTES, BYTES)
