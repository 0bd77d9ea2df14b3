"""Tables and paragraphs that fit the view."""

import pytest

from assignor.names.short_names import shortened
from assignor_cli.tables import Column, View, age_text, paragraph, table_text

COLUMNS = (
    Column("NAME", shorten=True),
    Column("TASKS", right=True),
    Column("HOST", wide=True),
    Column("ERROR", wrap=True, optional=True),
    Column("AGE"),
)
LONG = "orders-enrichment-0f3b7c52-StreamThread-1"


def test_should_align_columns_and_leave_out_what_says_nothing() -> None:
    rows = [("orders", 12, "a.example", "", "5s"), ("clicks-by-day", 3, "b.example", None, "2d4h")]

    assert table_text("No groups.", COLUMNS, rows, View()).splitlines() == [
        "NAME           TASKS  AGE",
        "orders            12  5s",
        "clicks-by-day      3  2d4h",
    ]
    assert table_text("No groups.", COLUMNS, [], View()) == "No groups."


def test_should_show_every_column_and_whole_names_with_wide() -> None:
    text = table_text("", COLUMNS, [(LONG, 1, "a.example", "x" * 90, "5s")], View(40, wide=True))

    assert text.splitlines()[0].split() == ["NAME", "TASKS", "HOST", "ERROR", "AGE"]
    assert text.splitlines()[1] == f"{LONG}      1  a.example  {'x' * 90}  5s"


@pytest.mark.parametrize("width", [80, 60, 48])
def test_should_not_be_wider_than_the_view(width: int) -> None:
    error = "the broker did not answer within thirty seconds, so no task was placed; look at its log"
    lines = table_text("", COLUMNS, [(LONG, 1, "", error, "5s"), ("b", 2, "", "", "")], View(width)).splitlines()

    assert max(map(len, lines)) <= width
    assert len(lines) > 3, "the error goes on in lines of its own"
    if width < 70:
        assert lines[1].startswith("orders-"), "both ends of a name stay"
        assert "…" in lines[1]
        assert "Thread-1 " in lines[1]
    else:
        assert lines[1].startswith(LONG), "the words give way first"
    assert lines[-1].split() == ["b", "2", "-", "-"]


def test_should_never_cut_what_may_not_be_cut() -> None:
    assert table_text("", (Column("ID"),), [("7" * 100,)], View(40)).splitlines() == ["ID", "7" * 100]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (59_999, "59s"),
        (192_000, "3m12s"),
        (180_000, "3m"),
        (605_000, "10m"),
        (5 * 3_600_000 + 180_000, "5h3m"),
        (9 * 3_600_000 + 180_000, "9h"),
        (52 * 3_600_000, "2d4h"),
        (30 * 86_400_000 + 7_200_000, "30d"),
        (-5, "0s"),
    ],
)
def test_should_write_ages_as_kubectl_does(ms: int, text: str) -> None:
    assert age_text(1_000, 1_000 + ms) == text
    assert age_text(None, 5) == ""


def test_should_wrap_a_paragraph_below_its_own_beginning() -> None:
    told = paragraph("because", "active belongs on b1 by round robin; the lag of a0 is 12", View(40), indent=10)

    assert told.splitlines() == ["because   active belongs on b1 by round", "          robin; the lag of a0 is 12"]
    assert paragraph("because", "x " * 60, View(40, wide=True), indent=10).count("\n") == 0


def test_should_shorten_a_name_in_its_middle() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghij", 7) == "abc…hij"
    assert shortened("abcdefghij", 6) == "abc…ij"
