"""What an instance tells people: one notice for each code, short, and small enough for any coordinator."""

import json
import logging
from collections.abc import Iterator

import pytest

from streams_runtime.common.notices import (
    ALREADY_A_NOTICE,
    MAX_BYTES,
    MAX_TEXT_LENGTH,
    ROOT_LOGGER,
    RUNTIME_LOGGER,
    LoggedNotices,
    Notice,
    NoticeBoard,
    NoticeCode,
    one_line,
)
from tests.streams_runtime.manual_clock import ManualClock

DROPPED, WARNED = NoticeCode.RECORDS_DROPPED, NoticeCode.WARNINGS_LOGGED


def test_should_add_up_what_is_under_a_code_and_name_the_most_first() -> None:
    clock = ManualClock()
    board = NoticeBoard(clock)
    board.add(DROPPED, "null key, SPLIT", 2)
    board.add(DROPPED, "late, SUM", 1_000, "(up to 0:01:00)")
    clock.advance(5)
    board.add(DROPPED, "late, SUM", 2_000, "(up to 0:02:00)")
    board.add(DROPPED, "late, SUM", 1)
    text = "late, SUM: 3,001 (up to 0:02:00); null key, SPLIT: 2"
    assert board.newest() == (Notice(DROPPED, text, 3_003, clock.now_ms()),)
    assert board.version == 4


def test_should_tell_the_last_line_only_where_lines_are_counted() -> None:
    board = NoticeBoard(ManualClock())
    board.add_latest(WARNED, "one")
    board.add_latest(WARNED, "another")
    assert [(notice.text, notice.count) for notice in board.newest()] == [("another", 2)]


def test_should_say_how_many_places_do_not_fit_into_the_text() -> None:
    board = NoticeBoard(ManualClock())
    for number in range(100):
        board.add(DROPPED, f"orders-{number}", 100 - number, "records were deleted before this group read any")
    (notice,) = board.newest()
    assert len(notice.text) <= MAX_TEXT_LENGTH
    assert notice.text.startswith("orders-0: 100 records")
    assert notice.text.endswith("; and 96 more")
    assert notice.count == 5_050


def test_should_not_grow_with_the_number_of_places() -> None:
    board = NoticeBoard(ManualClock())
    for number in range(5_000):
        board.add(DROPPED, f"place {number}", 1)
    assert board.newest()[0].count == 5_000
    assert board.newest()[0].text.startswith("elsewhere: 4,000; ")


def test_should_leave_out_the_least_serious_when_all_of_them_are_too_large() -> None:
    board = NoticeBoard(ManualClock())
    for code in NoticeCode:
        board.add_latest(code, "\u00e9" * MAX_TEXT_LENGTH)  # six bytes each in ASCII JSON
    known = [notice.code for notice in board.newest()]
    assert known == list(NoticeCode)[:1]
    assert len(json.dumps([notice.document() for notice in board.newest()])) <= MAX_BYTES
    plain = NoticeBoard(ManualClock())
    for code in NoticeCode:
        plain.add_latest(code, "e" * (MAX_TEXT_LENGTH - 80))
    assert [notice.code for notice in plain.newest()] == list(NoticeCode)


def test_should_make_one_line_of_any_text() -> None:
    assert one_line("a\n\tb\x1b[31m  c\x00") == "a b [31m c"
    assert one_line("x" * 20, 10) == "x" * 9 + "…"


@pytest.fixture
def board() -> NoticeBoard:
    return NoticeBoard(ManualClock())


@pytest.fixture
def listening(board: NoticeBoard) -> Iterator[LoggedNotices]:
    handler = LoggedNotices(board, lambda thread: thread == "MainThread")
    handler.start()
    yield handler
    handler.close()


def known(board: NoticeBoard) -> list[tuple[NoticeCode, int, str]]:
    return [(notice.code, notice.count, notice.text) for notice in board.newest()]


@pytest.mark.usefixtures("listening")
def test_should_tell_the_number_and_the_last_of_warnings_and_errors(board: NoticeBoard) -> None:
    logger = logging.getLogger("streams_runtime.instance.stream_thread")
    logger.info("unimportant")
    logger.warning("first %d", 1)
    logger.warning("second\nline")
    try:
        raise ValueError("a broken value")
    except ValueError:
        logger.exception("stream thread %s failed", "t-1")
    name = logger.name
    assert known(board) == [
        (NoticeCode.ERRORS_LOGGED, 1, f"{name}: stream thread t-1 failed: ValueError: a broken value"),
        (NoticeCode.WARNINGS_LOGGED, 2, f"{name}: second line"),
    ]


@pytest.mark.usefixtures("listening")
def test_should_leave_out_what_is_a_notice_already_and_what_others_log(board: NoticeBoard) -> None:
    logging.getLogger("streams_runtime.dsl").warning("a late record", extra=ALREADY_A_NOTICE)
    logging.getLogger("somebody.else").warning("theirs")
    logging.getLogger("streams_runtime").makeRecord("n", logging.WARNING, "f", 1, "m", (), None)
    assert known(board) == []


def test_should_count_lines_of_own_threads_only(board: NoticeBoard) -> None:
    handler = LoggedNotices(board, lambda thread: thread == "another")
    handler.start()
    logging.getLogger("streams_runtime").warning("of another instance in this process")
    handler.close()
    assert known(board) == []


def test_should_hear_everything_in_a_process_of_its_own_until_it_is_closed(board: NoticeBoard) -> None:
    handler = LoggedNotices(board, lambda _: True, ROOT_LOGGER)
    handler.start()
    logging.getLogger("my_module").warning("by the user's code")
    handler.close()
    logging.getLogger("my_module").warning("afterwards")
    assert known(board) == [(NoticeCode.WARNINGS_LOGGED, 1, "my_module: by the user's code")]


@pytest.mark.parametrize("logger", [RUNTIME_LOGGER, ROOT_LOGGER])
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
