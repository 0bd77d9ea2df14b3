"""Handling of failed records: the thread ends, the record is dropped, or the record goes to the dead-letter topic.

Rules: the user's handlers decide: one handler for processing, and one for reading (serdes, timestamps). The default is
FAIL. FAIL raises ProcessingFailed, which names task, topic, partition, offset and node. If the processing handler
answers CONTINUE or DEAD_LETTER, only the failed node skips the record: its siblings still get the record, and its
parent continues. A dead letter is the record as it was read, with its own headers followed by Kafka's. A dead letter is
sent like any output, so under exactly-once it is in the transaction that commits the record's offset. A handler that
raises, or returns anything but a HandlerResponse, counts as FAIL. No handler is called if a schema registry cannot be
reached, or if the function of a batch returns a wrong number of rows: the record itself may be valid.

Source: `ProcessingExceptionHandler`, `DeserializationExceptionHandler`, `ExceptionHandlerUtils` (KIP-1033, KIP-1034).

Differs from Kafka: every handler that answers DEAD_LETTER uses the dead-letter topic. A dead letter always has key and
value; in Kafka, key and value are missing if an output of the record was sent before the error. If the dead-letter
topic refuses the record's timestamp, the dead letter gets the current time. If the dead letter is too large for the
topic, its stack trace is left out. Kafka has no header with the task.
"""

import logging
import os
import sysconfig
import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from streams_runtime.common.clock import Clock, SystemClock
from streams_runtime.common.errors import (
    ProcessingFailed,
    SchemaRegistryUnavailable,
    StreamsRuntimeError,
    WrongBatchResult,
    error_text,
)
from streams_runtime.common.losses import ALREADY_A_NOTICE, DropReason, TaskLosses
from streams_runtime.common.notices import one_line
from streams_runtime.common.records import Headers, RecordMetadata
from streams_runtime.logs.log_errors import InvalidRecord, InvalidTimestamp, RecordTooLarge
from streams_runtime.processors.api import ExceptionHandler, FailedRecord, HandlerResponse
from streams_runtime.processors.context import Receiver

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

_INSTALLED_PREFIXES = (
    "<frozen ",
    *(sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
)
"""Prefixes of the paths of files that are not the user's. Files of this package do not count as the user's files
either.
"""

_logger = logging.getLogger(__name__)


def fail(record: FailedRecord) -> HandlerResponse:
    """The default handler, which ends the thread: a record is dropped only if the user has chosen a handler that drops
    it.
    """
    _logger.error("%s; the thread ends", described(record))
    return HandlerResponse.FAIL


def log_and_continue(record: FailedRecord) -> HandlerResponse:
    """A handler that drops the record. Source: `LogAndContinueProcessingExceptionHandler`."""
    _logger.warning("%s; the record is dropped", described(record), extra=ALREADY_A_NOTICE)
    return HandlerResponse.CONTINUE


def dead_letter(record: FailedRecord) -> HandlerResponse:
    """A handler that sends the record to `errors.dead.letter.queue.topic.name`. Processing continues."""
    _logger.warning("%s; the record goes to the dead-letter topic", described(record), extra=ALREADY_A_NOTICE)
    return HandlerResponse.DEAD_LETTER


def described(record: FailedRecord) -> str:
    """One line with task, node, position of the record, error, and the line of the user's code that raised the
    error.
    """
    topic, partition, offset = record.metadata
    if offset < 0:
        failed = f"punctuation at {record.timestamp_ms}"
    else:
        failed = f"record topic={topic}, partition={partition}, offset={offset}"
    error = f"{_class_name(record.error)}: {error_text(record.error)}{_raised_at(record.error)}"
    return f"task={record.task_id}, node={record.node}, {failed}: {error}"


def _raised_at(error: Exception) -> str:
    """The innermost line of the user's own code, as text. Empty if the traceback has no such line."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if _is_users_file(frame.f_code.co_filename):
            return f" ({frame.f_code.co_filename}, line {line}, in {frame.f_code.co_name})"
    return ""


@lru_cache
def _is_users_file(name: str) -> bool:
    # The path of this file as frames have it, and not `__file__`: on Spark executors this package is in an archive, and
    # its code has relative paths.
    own_directory = str(Path(_raised_at.__code__.co_filename).parents[1]) + os.sep
    return not os.path.normpath(name).startswith((own_directory, *_INSTALLED_PREFIXES))


def _add_callers(error: Exception) -> None:
    """Add the frames of the user's code that called the failed node to the traceback.

    The error is handled where the failed node was called, so the traceback does not have the frames of the nodes that
    forwarded the record. The line that forwarded the record is often the cause of the error.
    """
    trace = error.__traceback__
    for frame, line in traceback.walk_stack(None):
        if frame.f_globals.get("__name__") == _TASK_MODULE:  # the callers of the task are no part of the topology
            break
        if _is_users_file(frame.f_code.co_filename):
            trace = TracebackType(trace, frame, frame.f_lasti, line)
    error.__traceback__ = trace


def dead_letter_headers(record: FailedRecord) -> Headers:
    """The record's own headers, then the headers of KIP-1034, then the header with the task."""
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
    """Calls the handlers of a task, and carries out their answers.

    `sink`: called with the names of a node and of a topic; returns the function that writes records to the topic, with
    keys and values as bytes. `dead_letter_topic`: the topic's full name, None if it is not set.
    """

    def __init__(
        self,
        sink: Callable[[str, str], Receiver],
        dead_letter_topic: str | None,
        processing: ExceptionHandler,
        deserialization: ExceptionHandler,
        losses: TaskLosses,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._sink = sink
        self._dead_letter_topic = dead_letter_topic
        self._processing = processing
        self._deserialization = deserialization
        self._losses = losses

    @property
    def needs_raw_record(self) -> bool:
        """True if the handler of processing errors may need the bytes of a failed record. The handlers `fail` and
        `log_and_continue` do not need the bytes.
        """
        return self._processing not in (fail, log_and_continue)

    def processing_failed(self, record: FailedRecord) -> None:
        """Let the handler decide about the record. Returns if the task can continue; otherwise raises ProcessingFailed,
        or the error of sending a dead letter.
        """
        self._handle(self._processing, _PROCESSING, record)

    def deserialization_failed(self, record: FailedRecord) -> None:
        """Let the handler decide about a record that cannot be deserialized, or has no valid timestamp. Returns and
        raises as `processing_failed` does.
        """
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
            self._losses.dropped(DropReason.DEAD_LETTER, record.node, _last_dropped_text(record))
        else:
            self._losses.dropped(_REASONS[kind], record.node, _last_dropped_text(record))

    def _send_dead_letter(self, kind: str, record: FailedRecord) -> None:
        topic = self._dead_letter_topic
        if topic is None:
            raise ProcessingFailed(
                f"the {kind} handler wants a dead letter, but errors.dead.letter.queue.topic.name is not set: "
                f"{described(record)}",
                record.task_id,
            ) from record.error
        # a negative timestamp may be the reason of the failure, and cannot be sent
        timestamp_ms, headers = max(0, record.timestamp_ms), dead_letter_headers(record)
        send = self._sink(record.node, topic)
        has_own_timestamp, has_trace = True, True
        while True:  # at most three tries: the second and third with the current time, or without the stack trace
            try:
                send(record.key, record.value, timestamp_ms, headers)
                return
            except StreamsRuntimeError as error:
                cause = error.__cause__
                if isinstance(cause, InvalidTimestamp) and has_own_timestamp:
                    timestamp_ms, has_own_timestamp = self._clock.now_ms(), False
                elif isinstance(cause, RecordTooLarge) and has_trace:
                    headers, has_trace = _without_trace(headers), False
                elif isinstance(cause, InvalidRecord | RecordTooLarge):
                    raise ProcessingFailed(
                        f"the dead letter cannot be sent ({error}): {described(record)}", record.task_id
                    ) from record.error
                else:
                    raise


def _without_trace(headers: Headers) -> Headers:
    return tuple(header for header in headers if header[0] != HEADER_STACKTRACE)


def _last_dropped_text(record: FailedRecord) -> str:
    """The end of a notice about dropped records: the position and the error of the last dropped record."""
    topic, partition, offset = record.metadata
    where = "a punctuation" if offset < 0 else f"{topic}-{partition} at offset {offset}"
    error, message = _class_name(record.error), one_line(error_text(record.error), _LONGEST_MESSAGE)
    return f"(the last: {where}, {error}: {message})" if message else f"(the last: {where}, {error})"


def _class_name(error: Exception) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
