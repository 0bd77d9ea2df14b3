"""What the user's handler decides about a record, and what then becomes of it."""

import json
import logging
import re
from typing import Any, NamedTuple

import pytest

from assignor.types import TaskId
from streams_runtime.common.errors import ProcessingFailed
from streams_runtime.common.losses import TaskLosses, uncounted
from streams_runtime.common.notices import NoticeBoard
from streams_runtime.common.records import Headers, RecordMetadata
from streams_runtime.processors.api import ExceptionHandler, FailedRecord, HandlerResponse
from streams_runtime.processors.context import Receiver
from streams_runtime.tasks.exception_handling import (
    NO_RECORD,
    ExceptionHandling,
    dead_letter,
    dead_letter_and_fail,
    dead_letter_headers,
    described,
    fail,
    log_and_continue,
)
from tests.known import known
from tests.streams_runtime.manual_clock import ManualClock

TASK = TaskId(0, 3)


class OwnError(Exception):
    pass


class Letter(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers


class Mailbox:
    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.flushed = 0

    def flush(self) -> None:
        """Counts the letters that have been written."""
        self.flushed = len(self.letters)

    def sink(self, node: str, topic: str) -> Receiver:
        def send(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            self.letters.append(Letter(topic, key, value, timestamp_ms, headers))

        return send


def failed(error: Exception | None = None, timestamp_ms: int = 9) -> FailedRecord:
    metadata = RecordMetadata("in", 3, 17)
    try:
        raise error or OwnError("broken")
    except Exception as raised:
        return FailedRecord(TASK, metadata, "split", b"k", b"v", (("h", b"1"),), timestamp_ms, raised)


def handling(
    handler: ExceptionHandler, mailbox: Mailbox, topic: str | None = "dead", losses: TaskLosses | None = None
) -> ExceptionHandling:
    return ExceptionHandling(mailbox.sink, mailbox.flush, topic, handler, fail, fail, losses or uncounted(TASK))


def test_should_raise_with_task_topic_partition_offset_and_node_when_the_handler_says_fail() -> None:
    record = failed()
    with pytest.raises(ProcessingFailed) as error:
        handling(fail, Mailbox()).processing_failed(record)
    assert re.fullmatch(
        r"task \[0_3\] processing failed: task=0_3, node=split, record topic=in, partition=3, offset=17: "
        rf"{re.escape(__name__)}\.OwnError: broken \({re.escape(__file__)}, line \d+, in \w+\)",
        str(error.value),
    )
    assert error.value.__cause__ is record.error


def test_should_name_the_line_of_the_user_when_a_library_raised_what_it_called() -> None:
    def users(value: str) -> object:
        return json.loads(value)

    with pytest.raises(json.JSONDecodeError) as error:
        users("no json")
    line = users.__code__.co_firstlineno + 1
    assert described(failed()._replace(error=error.value)).endswith(f" ({__file__}, line {line}, in users)")
    assert described(failed()._replace(error=ValueError("never raised"))).endswith(": ValueError: never raised")


def test_should_go_on_without_the_record_when_the_handler_says_continue(caplog: pytest.LogCaptureFixture) -> None:
    mailbox, losses = Mailbox(), uncounted(TASK)
    one = handling(log_and_continue, mailbox, losses=losses)
    with caplog.at_level(logging.WARNING):
        one.processing_failed(failed())
    assert (mailbox.letters, losses.dropped_records) == ([], 1)
    assert "task=0_3, node=split, record topic=in, partition=3, offset=17" in caplog.text


@pytest.mark.parametrize(
    "handler, about", [(log_and_continue, "failed in a processor"), (dead_letter, "sent to the dead-letter topic")]
)
def test_should_tell_where_the_last_record_was_and_its_error(handler: ExceptionHandler, about: str) -> None:
    board = NoticeBoard(ManualClock())
    one = handling(handler, Mailbox(), losses=TaskLosses(TASK, None, board))
    one.processing_failed(failed(ValueError("first")))
    one.processing_failed(failed(ValueError("no number:\n" + "x" * 200)))

    (notice,) = board.newest()

    assert notice.text == (
        f"{about}, split: 2 (the last: in-3 at offset 17, ValueError: no number: {'x' * (120 - 12)}…)"
    )


def test_should_send_the_raw_record_with_headers_to_the_dead_letter_topic() -> None:
    mailbox = Mailbox()
    record = failed()
    handling(dead_letter, mailbox).processing_failed(record)
    (letter,) = mailbox.letters
    headers = dict(letter.headers)
    trace = known(headers.pop("__streams.errors.stacktrace"))
    assert letter[:4] == ("dead", b"k", b"v", 9)
    assert headers == {
        "h": b"1",
        "__streams.errors.exception": f"{__name__}.OwnError".encode(),
        "__streams.errors.message": b"broken",
        "__streams.errors.topic": b"in",
        "__streams.errors.partition": b"3",
        "__streams.errors.offset": b"17",
        "__streams.errors.task": b"0_3",
    }
    assert b"Traceback" in trace
    assert b"OwnError: broken" in trace


def test_should_send_a_dead_letter_that_the_log_takes_when_the_timestamp_is_what_is_broken() -> None:
    mailbox = Mailbox()
    handling(dead_letter, mailbox).processing_failed(failed(timestamp_ms=-1))
    assert mailbox.letters[0].timestamp_ms == 0


def test_should_ask_the_handler_of_its_own_kind() -> None:
    def never(record: FailedRecord) -> HandlerResponse:
        raise AssertionError

    mailbox = Mailbox()
    handlers: list[ExceptionHandler] = [log_and_continue, fail]
    continuing, failing = (
        ExceptionHandling(mailbox.sink, mailbox.flush, None, never, each, never, uncounted(TASK)) for each in handlers
    )
    continuing.deserialization_failed(failed())
    with pytest.raises(ProcessingFailed, match="deserialization failed"):
        failing.deserialization_failed(failed())


def test_should_fail_when_there_is_no_dead_letter_topic() -> None:
    with pytest.raises(ProcessingFailed, match=r"errors.dead.letter.queue.topic.name is not set: task=0_3, node=split"):
        handling(dead_letter, Mailbox(), None).processing_failed(failed())


@pytest.mark.parametrize(
    ("handler", "told"),
    [(lambda record: HandlerResponse["oops"], r"KeyError: 'oops'"), (lambda record: None, "ValueError: .*")],
)
def test_should_fail_when_the_handler_fails_itself_or_answers_nonsense(handler: ExceptionHandler, told: str) -> None:
    record = failed()
    with pytest.raises(ProcessingFailed, match=rf"handler itself failed \({told}\) on task=0_3") as error:
        handling(handler, Mailbox()).processing_failed(record)
    assert error.value.__cause__ is record.error


def test_should_take_the_words_for_the_responses() -> None:
    losses = uncounted(TASK)
    one = handling(lambda record: "continue", Mailbox(), losses=losses)  # type: ignore[arg-type, return-value]
    one.processing_failed(failed())
    assert losses.dropped_records == 1


def test_should_name_errors_of_python_itself_without_a_module() -> None:
    assert dict(dead_letter_headers(failed(ValueError("x"))))["__streams.errors.exception"] == b"ValueError"


def test_should_give_a_dead_letter_no_topic_when_a_punctuation_failed() -> None:
    record = failed()._replace(metadata=NO_RECORD, key=None, value=None, headers=())
    assert dict(dead_letter_headers(record))["__streams.errors.topic"] is None
    with pytest.raises(ProcessingFailed, match="task=0_3, node=split, punctuation at 9:"):
        handling(fail, Mailbox()).processing_failed(record)


def test_should_write_a_dead_letter_before_the_thread_ends() -> None:
    mailbox, losses = Mailbox(), uncounted(TASK)
    with pytest.raises(ProcessingFailed, match=r"processing failed: .*broken"):
        handling(dead_letter_and_fail, mailbox, losses=losses).processing_failed(failed())
    assert (mailbox.flushed, mailbox.letters[0][:3]) == (1, ("dead", b"k", b"v"))
    assert losses.dropped_records == 0


def test_should_refuse_a_retry_of_a_handler_of_processing_errors() -> None:
    def retry(_record: FailedRecord) -> HandlerResponse:
        return HandlerResponse.RETRY

    with pytest.raises(ProcessingFailed, match=r"the processing handler itself failed .*may return RETRY"):
        handling(retry, Mailbox()).processing_failed(failed())
