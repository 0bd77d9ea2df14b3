"""Handles failed records. A failed record ends the thread, is dropped, or goes to the dead-letter topic.

Rules: the user's handlers decide about failed records. The processing handler decides about errors of processors. The
deserialization handler decides about errors of serdes and of timestamps when a record is read. The production handler
decides about records that a sink cannot write: a serializer fails, the topic does not take the record, or the topic
does not exist. If the production handler returns FAIL, the error is an error of the sink, so the processing handler
decides. As in Kafka, the production handler is not called for a value of a type that does not fit the serde. The
default response of a handler is FAIL. FAIL raises ProcessingFailed, which names the Streams task, the topic, the
partition, the offset and the node. If the processing handler returns CONTINUE or DEAD_LETTER, only the failed node
skips the record. The other children of the node's parent still get the record, and the parent continues. A dead letter
has the bytes and the headers of the input record, followed by Kafka's headers. A dead letter is sent in the same way as
an output record. So under exactly-once, the dead letter and the offset of the record are in the same transaction. If a
handler raises an error, or returns a value other than a HandlerResponse, the response is FAIL. If a schema registry
cannot be reached, no handler is called, because the record itself may be valid. A function that processes batches may
return a wrong number of rows. If the number of rows is wrong, no handler is called, because the records may be valid.

Source: `ProcessingExceptionHandler`, `DeserializationExceptionHandler`, `ProductionExceptionHandler`,
`ExceptionHandlerUtils`, `RecordCollectorImpl` (KIP-1033, KIP-1034, KIP-1065).

Differs from Kafka: every handler can send a record to the dead-letter topic, by returning DEAD_LETTER. The production
handler is not called for changes of a store, because the store would then differ from its changelog. It is not called
if the log does not answer either: the task tries again until `task.timeout.ms`, as with Kafka's RETRY. A dead letter
always has the key and the value of the record. In Kafka, if an output of the record was sent before the error, the dead
letter has no key and no value. If the dead-letter topic refuses the record's timestamp, the dead letter gets the
current time. If the dead letter is too large for the topic, the dead letter is sent without its stack trace. A dead
letter also has a header that Kafka does not add: the id of the Streams task.
"""

import logging
import struct
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from streams_runtime.common.clock import Clock, SystemClock
from streams_runtime.common.errors import (
    ProcessingFailed,
    SchemaRegistryUnavailable,
    SerdeMismatch,
    StreamsRuntimeError,
    WrongBatchResult,
    class_name,
    error_text,
)
from streams_runtime.common.failures import innermost_line, is_users_file
from streams_runtime.common.losses import DropReason, TaskLosses
from streams_runtime.common.notices import ALREADY_A_NOTICE, one_line
from streams_runtime.common.records import Headers, Record, RecordMetadata
from streams_runtime.logs.dead_letters import (
    HEADER_EXCEPTION,
    HEADER_MESSAGE,
    HEADER_OFFSET,
    HEADER_PARTITION,
    HEADER_STACKTRACE,
    HEADER_TASK,
    HEADER_TOPIC,
)
from streams_runtime.logs.log_errors import (
    InvalidRecord,
    InvalidTimestamp,
    LogTimeout,
    RecordTooLarge,
    UnknownTopicOrPartition,
)
from streams_runtime.processors.api import ExceptionHandler, FailedOutput, FailedRecord, HandlerResponse
from streams_runtime.processors.context import Receiver

NO_RECORD = RecordMetadata("", -1, -1)
"""The record metadata for a failed punctuation, which has no input record."""

_LONGEST_MESSAGE = 120
_TASK_MODULE = "streams_runtime.tasks.stream_task"

_PROCESSING, _DESERIALIZATION, _PRODUCTION = "processing", "deserialization", "production"
_REASONS = {
    _PROCESSING: DropReason.PROCESSING_ERROR,
    _DESERIALIZATION: DropReason.DESERIALIZATION_ERROR,
    _PRODUCTION: DropReason.PRODUCTION_ERROR,
}

WRONG_TYPE = (TypeError, AttributeError, struct.error)
"""A serializer raises one of these errors if the type of the object does not fit the serde. In Kafka, this is a
ClassCastException.
"""

_logger = logging.getLogger(__name__)


def fail(record: FailedRecord) -> HandlerResponse:
    """Ends the thread. `fail` is the default handler, so records are dropped only if the user has chosen another
    handler.
    """
    _logger.error("%s; the thread ends", described(record))
    return HandlerResponse.FAIL


def log_and_continue(record: FailedRecord) -> HandlerResponse:
    """Drops the record. Source: `LogAndContinueProcessingExceptionHandler`."""
    _logger.warning("%s; the record is dropped", described(record), extra=ALREADY_A_NOTICE)
    return HandlerResponse.CONTINUE


def dead_letter(record: FailedRecord) -> HandlerResponse:
    """Sends the record to the topic `errors.dead.letter.queue.topic.name`. Processing continues."""
    _logger.warning("%s; the record goes to the dead-letter topic", described(record), extra=ALREADY_A_NOTICE)
    return HandlerResponse.DEAD_LETTER


def dead_letter_and_fail(record: FailedRecord) -> HandlerResponse:
    """Sends the record to the topic `errors.dead.letter.queue.topic.name`, and ends the thread. Source:
    `LogAndFailProcessingExceptionHandler` with a dead-letter topic.
    """
    _logger.error("%s; the record goes to the dead-letter topic, and the thread ends", described(record))
    return HandlerResponse.DEAD_LETTER_AND_FAIL


def described(record: FailedRecord) -> str:
    """Describes the failure in one line: the Streams task, the node, the position of the record, the error, and the
    line of the user's code that raised the error.
    """
    topic, partition, offset = record.metadata
    if offset < 0:
        failed = f"punctuation at {record.timestamp_ms}"
    else:
        failed = f"record topic={topic}, partition={partition}, offset={offset}"
    error = f"{class_name(record.error)}: {error_text(record.error)}{_raised_at(record.error)}"
    return f"task={record.task_id}, node={record.node}, {failed}: {error}"


def _raised_at(error: Exception) -> str:
    """Returns the innermost line of the user's code in the traceback, as text. Returns "" if the traceback has no line
    of the user's code.
    """
    line = innermost_line(error)
    return "" if line is None else f" ({line.file}, line {line.line}, in {line.function})"


def _add_callers(error: Exception) -> None:
    """Add to the traceback the frames of the user's code that called the failed node.

    The runtime catches the error at the call of the failed node. So the traceback does not contain the frames of the
    nodes that forwarded the record. But the line that forwarded the record is often the cause of the error.
    """
    trace = error.__traceback__
    for frame, line in traceback.walk_stack(None):
        # the frames above the task's frame do not belong to the topology
        if frame.f_globals.get("__name__") == _TASK_MODULE:
            break
        if is_users_file(frame.f_code.co_filename):
            trace = TracebackType(trace, frame, frame.f_lasti, line)
    error.__traceback__ = trace


def dead_letter_headers(record: FailedRecord) -> Headers:
    """Returns these headers in order: the record's own headers, the headers of KIP-1034, and the header with the task
    id.
    """
    error = record.error
    topic, partition, offset = record.metadata
    trace = "".join(traceback.format_exception(error))
    return (
        *record.headers,
        (HEADER_EXCEPTION, class_name(error).encode()),
        (HEADER_MESSAGE, error_text(error).encode()),
        (HEADER_STACKTRACE, trace.encode(errors="backslashreplace")),
        (HEADER_TOPIC, topic.encode() if topic else None),
        (HEADER_PARTITION, str(partition).encode()),
        (HEADER_OFFSET, str(offset).encode()),
        (HEADER_TASK, str(record.task_id).encode()),
    )


@dataclass(eq=False, repr=False)
class ExceptionHandling:
    """Calls the error handlers of a Streams task, and carries out their responses. `sink`: a function that takes the
    name of a node and the name of a topic. The result of `sink` is a function that writes records with bytes as keys
    and values to the topic. `flush`: waits until the log has written all sent records. `dead_letter_topic`: the full
    name of the dead-letter topic; None if there is no dead-letter topic.
    """

    _sink: Callable[[str, str], Receiver]
    _flush: Callable[[], None]
    _dead_letter_topic: str | None
    _processing: ExceptionHandler
    _deserialization: ExceptionHandler
    _production: ExceptionHandler
    _losses: TaskLosses
    _clock: Clock = field(default_factory=SystemClock)

    @property
    def needs_raw_record(self) -> bool:
        """True if the processing handler or the production handler may need the bytes of a failed record. The handlers
        `fail` and `log_and_continue` do not need the bytes.
        """
        return any(each not in (fail, log_and_continue) for each in (self._processing, self._production))

    @property
    def calls_production_handler(self) -> bool:
        """False if the production handler always returns FAIL, so that it need not be called."""
        return self._production is not fail

    def processing_failed(self, record: FailedRecord) -> None:
        """Let the handler decide about the failed record. Returns normally if the task can continue without the record.
        Raises ProcessingFailed if the task cannot continue. If a dead letter cannot be sent, raises the error of the
        sink.
        """
        self._handle(self._processing, _PROCESSING, record)

    def deserialization_failed(self, record: FailedRecord) -> None:
        """Let the handler decide about a record that cannot be deserialized or that has no valid timestamp. Returns
        normally if the task can continue without the record. Raises the errors of `processing_failed`.
        """
        self._handle(self._deserialization, _DESERIALIZATION, record)

    def production_failed(self, record: FailedRecord, output: FailedOutput) -> bool:
        """Let the handler decide about a record that a sink could not write. `record`: the input record. Returns True
        if the task can continue without the output. Returns False if the error is an error of the sink. Raises
        ProcessingFailed if the handler itself failed, and LogTimeout if the input record has to be processed again.
        """
        record = record._replace(output=output)
        response = self._response(self._production, _PRODUCTION, record)
        if response is HandlerResponse.RETRY:
            if output.retriable:
                raise LogTimeout(f"a record will be sent again: {described(record)}") from record.error
            _logger.warning("%s; a retry cannot help, so RETRY is FAIL", described(record), extra=ALREADY_A_NOTICE)
        return self._carry_out(response, _PRODUCTION, record)

    def _handle(self, handler: ExceptionHandler, kind: str, record: FailedRecord) -> None:
        if not self._carry_out(self._response(handler, kind, record), kind, record):
            raise _failed(f"{kind} failed: {described(record)}", record) from record.error

    def _response(self, handler: ExceptionHandler, kind: str, record: FailedRecord) -> HandlerResponse:
        _add_callers(record.error)
        if isinstance(record.error, (SchemaRegistryUnavailable, WrongBatchResult)):
            raise _failed(f"{kind} failed: {described(record)}", record) from record.error
        try:
            response = HandlerResponse(handler(record))
            if response is HandlerResponse.RETRY and kind != _PRODUCTION:
                raise ValueError("only the handler of production errors may return RETRY")
        except Exception as error:
            raise _failed(
                f"the {kind} handler itself failed ({class_name(error)}: {error_text(error)}) on {described(record)}",
                record,
            ) from record.error
        return response

    def _carry_out(self, response: HandlerResponse, kind: str, record: FailedRecord) -> bool:
        """Returns True if the task can continue without the record."""
        if response in (HandlerResponse.DEAD_LETTER, HandlerResponse.DEAD_LETTER_AND_FAIL):
            self._send_dead_letter(kind, record)
        if response is HandlerResponse.DEAD_LETTER_AND_FAIL:
            self._flush()  # the end of the thread discards records that are not written yet
        if response not in (HandlerResponse.CONTINUE, HandlerResponse.DEAD_LETTER):
            return False
        reason = _REASONS[kind] if response is HandlerResponse.CONTINUE else DropReason.DEAD_LETTER
        self._losses.dropped(reason, record.node, _last_dropped_text(record))
        return True

    def _send_dead_letter(self, kind: str, record: FailedRecord) -> None:
        topic = self._dead_letter_topic
        if topic is None:
            raise _failed(
                f"the {kind} handler wants a dead letter, but errors.dead.letter.queue.topic.name is not set: "
                f"{described(record)}",
                record,
            ) from record.error
        # the record may have failed because its timestamp is negative, and a dead letter cannot have a negative
        # timestamp
        timestamp_ms, headers = max(0, record.timestamp_ms), dead_letter_headers(record)
        send = self._sink(record.node, topic)
        has_own_timestamp, has_trace = True, True
        # There are at most three tries. If a try fails, the next try sends the dead letter with the current time,
        # without the stack trace, or with both changes.
        while True:
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
                    raise _failed(
                        f"the dead letter cannot be sent ({error}): {described(record)}", record
                    ) from record.error
                else:
                    raise


def failed_output(topic: str, record: Record[Any, Any], error: Exception) -> FailedOutput | None:
    """Returns the record that a sink could not write; None if the production handler does not decide about the error.
    `record`: the record that the sink got. `error`: the error that the sink raised.
    """
    cause = error.__cause__
    wrong_type = isinstance(cause, WRONG_TYPE)
    if isinstance(error, SerdeMismatch) and not wrong_type:
        return FailedOutput(topic, *record, retriable=False)
    if isinstance(error, StreamsRuntimeError) and isinstance(
        cause, InvalidRecord | RecordTooLarge | UnknownTopicOrPartition
    ):
        return FailedOutput(topic, *record, retriable=isinstance(cause, UnknownTopicOrPartition))
    return None


def _without_trace(headers: Headers) -> Headers:
    return tuple(header for header in headers if header[0] != HEADER_STACKTRACE)


def _position(record: FailedRecord) -> str | None:
    topic, partition, offset = record.metadata
    return None if offset < 0 else f"{topic}-{partition} at offset {offset}"


def _failed(message: str, record: FailedRecord) -> ProcessingFailed:
    return ProcessingFailed(message, record.task_id, _position(record))


def _last_dropped_text(record: FailedRecord) -> str:
    """Returns the end of a message about dropped records: the position and the error of the last dropped record."""
    where = _position(record) or "a punctuation"
    error, message = class_name(record.error), one_line(error_text(record.error), _LONGEST_MESSAGE)
    return f"(the last: {where}, {error}: {message})" if message else f"(the last: {where}, {error})"
