"""What is kept of what processes tell: the newest of each code, printable, a bounded number, for a day."""

from coordinator_api.group.notices import KEPT_MS, KEPT_NOTICES, GroupNotices, ProcessNotice


def notice(code: str = "RECORDS_DROPPED", count: int = 1, text: str = "late") -> ProcessNotice:
    return ProcessNotice(code, text, count, 7)


def shown(notices: GroupNotices, now_ms: int = 0) -> list[tuple[str, str, int]]:
    return [(told.process, told.notice.code, told.notice.count) for told in notices.newest_first(now_ms)]


def test_should_keep_the_newest_of_each_process_and_code_and_show_the_last_told_first() -> None:
    notices = GroupNotices()
    notices.add("p1", [notice(count=1), notice("ERRORS_LOGGED", 4)], 0)
    notices.add("p2", [notice(count=2)], 1)
    notices.add("p1", [notice(count=3)], 2)
    assert shown(notices) == [("p1", "RECORDS_DROPPED", 3), ("p2", "RECORDS_DROPPED", 2), ("p1", "ERRORS_LOGGED", 4)]


def test_should_show_no_notice_that_was_told_more_than_a_day_ago() -> None:
    notices = GroupNotices()
    notices.add("p1", [notice()], 1_000)
    notices.add("p2", [notice()], 2_000)
    assert [process for process, *_ in shown(notices, 1_001 + KEPT_MS)] == ["p2"]


def test_should_let_the_oldest_go_when_there_are_too_many() -> None:
    notices = GroupNotices()
    for number in range(KEPT_NOTICES + 3):
        notices.add(f"p{number}", [notice()], number)
    kept = [process for process, *_ in shown(notices)]
    assert kept == [f"p{number}" for number in range(KEPT_NOTICES + 2, 2, -1)]


def test_should_keep_nothing_that_a_terminal_would_obey() -> None:
    notices = GroupNotices()
    notices.add("p1", [notice(text="\x1b[2Jgone\nnext\u202eline")], 0)
    assert notices.newest_first(0)[0].notice.text == " [2Jgone next line"
