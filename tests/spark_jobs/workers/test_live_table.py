"""The group as people see it: lines for what changed, or a table that stays in place."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from spark_jobs.ownership.group_status import CopyStatus, GroupStatus, ThreadRow
from spark_jobs.ownership.group_view import GroupView, InstanceNotice
from spark_jobs.workers.live_table import LiveTable, copy_text, remarks

RESTORING = CopyStatus("0_1", "active", "restoring", 1_200, 800)
BEHIND = CopyStatus("0_2", "standby", "running", 17)
ROW = ThreadRow("h:1", "app-p0-t0", "running", (CopyStatus("0_0", "active", "running", 0), RESTORING, BEHIND))
STATUS = GroupStatus("app", GroupView("Stable", 3, "stable", (), {}), (ROW,))
HEADLINE = "app: Stable, generation 3, 1 thread, 1 of 2 tasks running"
LINE = "app-p0-t0 on h:1: running; active 0_0, 0_1 40% 1,200 left; standby 0_2 lag 17"


def changed(status: GroupStatus, **view: Any) -> GroupStatus:
    """With another description by the coordinator."""
    return replace(status, view=replace(status.view, **view))


def with_copies(*copies: CopyStatus) -> GroupStatus:
    return replace(STATUS, threads=(replace(ROW, copies=copies),))


def lines(*statuses: GroupStatus) -> list[str]:
    """What is printed where there is no terminal."""
    output = io.StringIO()
    with LiveTable(Console(file=output, width=40)) as table:
        for status in statuses:
            table.show(status)
    return output.getvalue().splitlines()


def drawn(*statuses: GroupStatus, problem: str = "") -> str:
    """What is written to a terminal."""
    output = io.StringIO()
    with LiveTable(Console(file=output, force_terminal=True, width=160, color_system=None)) as table:
        for status in statuses:
            table.show(status)
        if problem:
            table.show_problem(problem)
    return output.getvalue()


def shown(*statuses: GroupStatus, problem: str = "") -> str:
    """What a terminal shows at last."""
    return drawn(*statuses, problem=problem).rpartition("\x1b[2K")[2]


def test_should_print_a_line_a_thread_and_only_what_changed() -> None:
    assert lines(STATUS, STATUS) == [HEADLINE, LINE]
    nearly = with_copies(ROW.copies[0], replace(RESTORING, lag=1_190, restored=810), replace(BEHIND, lag=3))
    assert lines(STATUS, nearly) == [HEADLINE, LINE], "not a line for every record"
    done = with_copies(ROW.copies[0], replace(RESTORING, state="running", lag=0), replace(BEHIND, lag=0))
    assert lines(STATUS, done)[2:] == [
        "app: Stable, generation 3, 1 thread, 2 of 2 tasks running",
        "app-p0-t0 on h:1: running; active 0_0, 0_1; standby 0_2",
    ]


def test_should_print_every_tenth_of_a_restore() -> None:
    halves = [with_copies(replace(RESTORING, lag=100 - done, restored=done)) for done in range(0, 101, 5)]
    assert len([line for line in lines(*halves) if line.startswith("app-p0-t0")]) == 11


def test_should_say_when_a_thread_is_gone_and_when_it_has_nothing() -> None:
    empty = changed(replace(STATUS, threads=()), generation_id=4)
    assert lines(STATUS, empty)[2:] == ["app: Stable, generation 4, no threads", "app-p0-t0: gone"]
    assert lines(with_copies())[0] == "app: has no tasks yet, generation 3, 1 thread, 0 of 0 tasks running"
    assert lines(with_copies())[1] == "app-p0-t0 on h:1: running; no tasks"


def test_should_not_call_a_group_stable_that_does_nothing_and_say_what_to_do() -> None:
    advice = "Source topics are missing. Create them."
    waiting = changed(with_copies(), condition="MISSING_SOURCE_TOPICS", advice=advice)
    assert lines(waiting, waiting, STATUS, waiting) == [
        "app: waits for topics, generation 3, 1 thread, 0 of 0 tasks running",
        f"what to do: {advice}",
        "app-p0-t0 on h:1: running; no tasks",
        HEADLINE,
        LINE,
        "app: waits for topics, generation 3, 1 thread, 0 of 0 tasks running",
        f"what to do: {advice}",
        "app-p0-t0 on h:1: running; no tasks",
    ]


def test_should_tell_what_instances_lost_and_again_when_it_has_doubled() -> None:
    def dropped(count: int) -> GroupStatus:
        return changed(STATUS, notices=(InstanceNotice("12345678", "RECORDS_DROPPED", f"late, SUM: {count}", count),))

    told = [line for line in lines(*map(dropped, (5, 6, 7, 8, 9, 1_000, 1_001))) if "DROPPED" in line]
    assert told == [f"RECORDS_DROPPED {count:,} on 12345678: late, SUM: {count}" for count in (5, 8, 1_000)]


def test_should_show_on_a_terminal_what_was_processed_and_lost_and_told() -> None:
    lost = replace(STATUS, threads=(replace(ROW, processed=203_000, dropped=130_000, passed_over=7),))
    assert f"{HEADLINE}, 203,000 records processed" in shown(lost)
    assert "dropped ┃ passed over" in shown(lost)
    assert "130,000 │           7" in shown(lost)
    assert "dropped" not in shown(STATUS)
    gone = changed(replace(STATUS, threads=()), generation_id=4)
    assert "app: Stable, generation 4, no threads, 203,000 records processed" in shown(lost, gone)
    assert "instance" not in shown(lost, gone), "no table without a row"
    many = tuple(InstanceNotice("12345678-gone", f"CODE_{number}", "text", number) for number in range(10))
    told = remarks(changed(lost, advice="Do it.", notices=many))
    assert (told[0], told[1], len(told)) == ("what to do: Do it.", "CODE_0 0 on 12345678: text", 10)
    assert told[-1] == "and 2 more: assignor groups describe app"


def test_should_say_once_that_the_coordinator_cannot_be_asked() -> None:
    output = io.StringIO()
    with LiveTable(Console(file=output)) as table:
        table.show_problem("away")
        table.show_problem("away")
        table.show(STATUS)
        table.show_problem("away")
    assert output.getvalue().splitlines() == ["away", HEADLINE, LINE, "away"]


def test_should_keep_the_table_on_a_terminal_and_say_below_it_that_the_coordinator_cannot_be_asked() -> None:
    last = shown(STATUS, problem="away")
    assert HEADLINE in last
    assert last.removesuffix("\x1b[?25h").rstrip().splitlines()[-1].startswith("away")


@pytest.mark.parametrize(
    "copy,text",
    [
        (CopyStatus("0_0", "active", "running", 0), "0_0"),
        (CopyStatus("0_0", "active", "created"), "0_0 created"),
        (CopyStatus("0_0", "active", "restoring"), "0_0 restoring"),
        (CopyStatus("0_0", "active", "restoring", 1_200, 800), "0_0 40% 1,200 left"),
        (CopyStatus("0_0", "active", "restoring", 1_200, 800, 11_500), "0_0 40% 1,200 left (about 12 s)"),
        (CopyStatus("0_0", "warm-up", "running", 1_017, 0, 61_000), "0_0 lag 1,017 (about 1 min 1 s)"),
        (CopyStatus("0_0", "active"), "0_0"),
        (CopyStatus("0_0", "standby", "running", 0), "0_0"),
        (CopyStatus("0_0", "standby", "created"), "0_0 lag ?"),
        (CopyStatus("0_0", "warm-up", "running", 1_017), "0_0 lag 1,017"),
    ],
)
def test_should_show_a_task_with_what_it_has_left(copy: CopyStatus, text: str) -> None:
    assert copy_text(copy) == text


def test_should_redraw_one_table_on_a_terminal() -> None:
    text = drawn(changed(STATUS, generation_id=2), STATUS)
    first, last = text.index("generation 2"), text.index("generation 3")
    assert "\x1b[1A\x1b[2K" in text[first:last], "the first one was drawn over"
    columns = ("instance", "thread", "state", "active", "standby", "warm-up")
    assert all(each in text[last:] for each in (*columns, "0_0, 0_1 40% 1,200 left", "0_2 lag 17"))
