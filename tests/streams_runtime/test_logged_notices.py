"""Warnings and errors of an instance's own threads become notices, and reach stderr as they did before."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from streams_runtime.logged_notices import OWN, ROOT, LoggedNotices
from streams_runtime.losses import TOLD_AS_NOTICE
from streams_runtime.notices import NoticeBoard, NoticeCode
from tests.streams_runtime.manual_clock import ManualClock


@pytest.fixture
def board() -> NoticeBoard:
    return NoticeBoard(ManualClock())


@pytest.fixture
def listening(board: NoticeBoard) -> Iterator[LoggedNotices]:
    handler = LoggedNotices(board, lambda thread: thread == "MainThread")
    handler.start()
    yield handler
    handler.close()


def told(board: NoticeBoard) -> list[tuple[NoticeCode, int, str]]:
    return [(notice.code, notice.count, notice.text) for notice in board.newest()]


@pytest.mark.usefixtures("listening")
def test_should_tell_the_number_and_the_last_of_warnings_and_errors(board: NoticeBoard) -> None:
    logger = logging.getLogger("streams_runtime.threads.stream_thread")
    logger.info("unimportant")
    logger.warning("first %d", 1)
    logger.warning("second\nline")
    try:
        raise ValueError("a broken value")
    except ValueError:
        logger.exception("stream thread %s failed", "t-1")
    name = logger.name
    assert told(board) == [
        (NoticeCode.ERRORS_LOGGED, 1, f"{name}: stream thread t-1 failed: ValueError: a broken value"),
        (NoticeCode.WARNINGS_LOGGED, 2, f"{name}: second line"),
    ]


@pytest.mark.usefixtures("listening")
def test_should_leave_out_what_is_a_notice_already_and_what_others_log(board: NoticeBoard) -> None:
    logging.getLogger("streams_runtime.dsl").warning("a late record", extra=TOLD_AS_NOTICE)
    logging.getLogger("somebody.else").warning("theirs")
    logging.getLogger("streams_runtime").makeRecord("n", logging.WARNING, "f", 1, "m", (), None)
    assert told(board) == []


def test_should_count_lines_of_own_threads_only(board: NoticeBoard) -> None:
    handler = LoggedNotices(board, lambda thread: thread == "another")
    handler.start()
    logging.getLogger("streams_runtime").warning("of another instance in this process")
    handler.close()
    assert told(board) == []


def test_should_hear_everything_in_a_process_of_its_own_until_it_is_closed(board: NoticeBoard) -> None:
    handler = LoggedNotices(board, lambda _: True, ROOT)
    handler.start()
    logging.getLogger("my_module").warning("by the user's code")
    handler.close()
    logging.getLogger("my_module").warning("afterwards")
    assert told(board) == [(NoticeCode.WARNINGS_LOGGED, 1, "my_module: by the user's code")]


@pytest.mark.parametrize("logger", [OWN, ROOT])
def test_should_print_once_to_stderr_while_nobody_has_configured_logging(
    board: NoticeBoard, logger: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's own
    both = [LoggedNotices(board, lambda _: True, logger) for _ in range(2)]
    for handler in both:
        handler.start()
    logging.getLogger("streams_runtime.x").warning("seen")
    assert capsys.readouterr().err == "seen\n"
    with monkeypatch.context() as patched:
        patched.setattr(logging.getLogger(), "handlers", [*logging.getLogger().handlers, logging.NullHandler()])
        logging.getLogger("streams_runtime.x").warning("handled by somebody")
    assert capsys.readouterr().err == ""
    for handler in both:
        handler.close()
