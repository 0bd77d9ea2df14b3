"""What happens to a record that fails: the thread ends, the record is dropped, or it goes to the dead-letter topic.

Rules: the user's handlers decide, one for processing and one for reading (serdes, timestamps); the default is FAIL.
FAIL raises ProcessingFailed, which names task, topic, partition, offset and node. When a handler of processing goes on,
only the node that failed is left out: its siblings still get the record, and the node above it goes on. A dead letter
is the record as it was read, with its own headers followed by Kafka's. It is sent like any output, so under
exactly-once it is in the transaction that commits the record's offset. A handler that raises, or answers nonsense,
counts as FAIL. No handler is asked when a schema registry could not be asked, or a batch came back with a wrong number
of rows: the record may be a good one.
Source: `ProcessingExceptionHandler`, `DeserializationExceptionHandler`, `ExceptionHandlerUtils` (KIP-1033, KIP-1034).

Differs from Kafka: every handler that answers DEAD_LETTER uses the dead-letter topic. A dead letter has key and value
also when something of its record was sent before; Kafka has freed them by then. One whose topic takes no such
timestamp has the time at which it is sent, and one that would be too large for its topic has no stack trace. The header
with the task is not Kafka's.
"""

from __future__ import annotations

import logging
import os
import sysconfig
import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from assignor.types import TaskId
from streams_runtime.common.clock import Clock, SystemClock
from streams_runtime.common.errors import (
    ProcessingFailed,
    SchemaRegistryUnavailable,
    StreamsRuntimeError,
    WrongBatchResult,
    error_text,
)
from streams_runtime.common.records import Headers, RecordMetadata
from streams_runtime.logs.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge
from streams_runtime.processors.api import ExceptionHandler, FailedRecord, HandlerResponse
from streams_runtime.processors.runtime import Sender
from streams_runtime.reporting.losses import TOLD_AS_NOTICE, DropReason, TaskLosses
from streams_runtime.reporting.notices import one_line

HEADER_EXCEPTION = "__streams.errors.exception"
HEADER_MESSAGE = "__streams.errors.message"
HEADER_STACKTRACE = "__streams.errors.stacktrace"
HEADER_TOPIC = "__streams.errors.topic"
HEADER_PARTITION = "__streams.errors.partition"
HEADER_OFFSET = "__streams.errors.offset"
HEADER_TASK = "__streams.errors.task"

NO_RECORD = RecordMetadata("", -1, -1)
"""The metadata of a failed punctuation, which has no input record."""

_LONGEST_MESSAGE = 120
_TASK_MODULE = "streams_runtime.tasks.stream_task"

_PROCESSING, _DESERIALIZATION = "processing", "deserialization"
_REASONS = {_PROCESSING: DropReason.PROCESSING_ERROR, _DESERIALIZATION: DropReason.DESERIALIZATION_ERROR}

_INSTALLED = (
    "<frozen ",
    *(sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
)

_logger = logging.getLogger(__name__)


def fail(record: FailedRecord) -> HandlerResponse:
    """The default: going on without a record has to be asked for."""
    _logger.error("%s; the thread ends", described(record))
    return HandlerResponse.FAIL


def log_and_continue(record: FailedRecord) -> HandlerResponse:
    """The record is dropped. Source: `LogAndContinueProcessingExceptionHandler`."""
    _logger.warning("%s; the record is dropped", described(record), extra=TOLD_AS_NOTICE)
    return HandlerResponse.CONTINUE


def dead_letter(record: FailedRecord) -> HandlerResponse:
    """The record goes to `errors.dead.letter.queue.topic.name`, and processing goes on."""
    _logger.warning("%s; the record goes to the dead-letter topic", described(record), extra=TOLD_AS_NOTICE)
    return HandlerResponse.DEAD_LETTER


class FailedInputRecord(NamedTuple):
    """A `FailedRecord`. In a punctuation: metadata NO_RECORD, no key and value, and the time at which it fired."""

    task_id: TaskId
    metadata: RecordMetadata
    node: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    error: Exception


def described(record: FailedRecord) -> str:
    """One line: task, place, node and error, and where in the user's code it was raised."""
    topic, partition, offset = record.metadata
    if offset < 0:
        what = f"punctuation at {record.timestamp_ms}"
    else:
        what = f"record topic={topic}, partition={partition}, offset={offset}"
    error = f"{_class_name(record.error)}: {error_text(record.error)}{_raised_at(record.error)}"
    return f"task={record.task_id}, node={record.node}, {what}: {error}"


def _raised_at(error: Exception) -> str:
    """The innermost line of the user's own code; empty when there is none."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if _is_users_file(frame.f_code.co_filename):
            return f" ({frame.f_code.co_filename}, line {line}, in {frame.f_code.co_name})"
    return ""


@lru_cache
def _is_users_file(name: str) -> bool:
    # as frames name it: on executors it is in an archive with a relative path
    ours = str(Path(fail.__code__.co_filename).parents[1]) + os.sep
    return not os.path.normpath(name).startswith((ours, *_INSTALLED))


def _add_callers(error: Exception) -> None:
    """Add the user's lines that are still running to the traceback. The handler is called before the error leaves the
    node above the one that failed; and the line of that node which forwarded the record is often the wrong one.
    """
    trace = error.__traceback__
    for frame, line in traceback.walk_stack(None):
        if frame.f_globals.get("__name__") == _TASK_MODULE:  # frames above it run the task, and may be a test's
            break
        if _is_users_file(frame.f_code.co_filename):
            trace = TracebackType(trace, frame, frame.f_lasti, line)
    error.__traceback__ = trace


def dead_letter_headers(record: FailedRecord) -> Headers:
    """The record's own headers, then those of KIP-1034 and the task."""
    error = record.error
    topic, partition, offset = record.metadata
    trace = "".join(traceback.format_exception(error))
    return (
        *record.headers,
        (HEADER_EXCEPTION, _class_name(error).encode()),
        (HEADER_MESSAGE, error_text(error).encode()),
        (HEADER_STACKTRACE, trace.encode(errors="backslashreplace")),
        (HEADER_TOPIC, topic.encode() if topic else None),
        (HEADER_PARTITION, str(partition).encode()),
        (HEADER_OFFSET, str(offset).encode()),
        (HEADER_TASK, str(record.task_id).encode()),
    )


class ExceptionHandling:
    """Asks a handler and does what it answers. `sender`: gives what writes to a topic, of the task's record collector.

    `dead_letter_topic`: full name, None when there is none.
    """

    __slots__ = ("_clock", "_dead_letter_topic", "_deserialization", "_losses", "_processing", "_sender")

    def __init__(
        self,
        sender: Callable[[str], Sender],
        dead_letter_topic: str | None,
        processing: ExceptionHandler,
        deserialization: ExceptionHandler,
        losses: TaskLosses,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._sender = sender
        self._dead_letter_topic = dead_letter_topic
        self._processing = processing
        self._deserialization = deserialization
        self._losses = losses

    @property
    def asks_for_raw(self) -> bool:
        """Whether the handler of processing errors may look at more of a record than `described` does."""
        return self._processing not in (fail, log_and_continue)

    def processing_failed(self, record: FailedRecord) -> None:
        """Returns when the task may go on. Raises ProcessingFailed, and what sending a dead letter raises."""
        self._handle(self._processing, _PROCESSING, record)

    def deserialization_failed(self, record: FailedRecord) -> None:
        """As `processing_failed`, for a record that could not be read."""
        self._handle(self._deserialization, _DESERIALIZATION, record)

    def _handle(self, handler: ExceptionHandler, kind: str, record: FailedRecord) -> None:
        _add_callers(record.error)
        if isinstance(record.error, (SchemaRegistryUnavailable, WrongBatchResult)):
            raise ProcessingFailed(f"{kind} failed: {described(record)}", record.task_id) from record.error
        try:
            response = HandlerResponse(handler(record))
        except Exception as error:
            raise ProcessingFailed(
                f"the {kind} handler itself failed ({_class_name(error)}: {error_text(error)}) on {described(record)}",
                record.task_id,
            ) from record.error
        if response is HandlerResponse.FAIL:
            raise ProcessingFailed(f"{kind} failed: {described(record)}", record.task_id) from record.error
        if response is HandlerResponse.DEAD_LETTER:
            self._send_dead_letter(kind, record)
            self._losses.dropped(DropReason.DEAD_LETTER, record.node, _the_last(record))
        else:
            self._losses.dropped(_REASONS[kind], record.node, _the_last(record))

    def _send_dead_letter(self, kind: str, record: FailedRecord) -> None:
        topic = self._dead_letter_topic
        if topic is None:
            raise ProcessingFailed(
                f"the {kind} handler wants a dead letter, but errors.dead.letter.queue.topic.name is not set: "
                f"{described(record)}",
                record.task_id,
            ) from record.error
        # the timestamp itself may be what is wrong with the record
        timestamp_ms, headers = max(0, record.timestamp_ms), dead_letter_headers(record)
        has_changed = False
        while True:
            try:
                self._sender(topic)(record.key, record.value, timestamp_ms, headers, None)
                return
            except StreamsRuntimeError as error:
                cause = error.__cause__
                if isinstance(cause, InvalidTimestamp) and not has_changed:
                    timestamp_ms, has_changed = self._clock.now_ms(), True
                elif isinstance(cause, RecordTooLarge) and len(shorter := _without_trace(headers)) < len(headers):
                    headers = shorter
                elif isinstance(cause, InvalidRecord | RecordTooLarge):
                    raise ProcessingFailed(
                        f"the dead letter cannot be sent ({error}): {described(record)}", record.task_id
                    ) from record.error
                else:
                    raise


def _without_trace(headers: Headers) -> Headers:
    return tuple(header for header in headers if header[0] != HEADER_STACKTRACE)


def _the_last(record: FailedRecord) -> str:
    """For a notice: the place of the record and the error."""
    topic, partition, offset = record.metadata
    where = "a punctuation" if offset < 0 else f"{topic}-{partition} at offset {offset}"
    message = one_line(error_text(record.error), _LONGEST_MESSAGE)
    return f"(the last: {where}, {_class_name(record.error)}{f': {message}' if message else ''})"


def _class_name(error: Exception) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
