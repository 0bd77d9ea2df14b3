"""What people see of a restore, on a terminal and elsewhere."""

import io

from rich.console import Console

from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from assignor.types import TaskId, TopicPartition
from streams_runtime.instance.restore.progress import ProgressRow, RestoreProgress, tasks_of_changelogs
from tests.streams_runtime.manual_clock import ManualClock

TOPOLOGY = GroupTopology(
    (
        Subtopology(0, ("lines",), stores=(SubtopologyStore("users", source_topic_as_changelog="users"),)),
        Subtopology(
            1,
            ("words",),
            stores=(
                SubtopologyStore("counts", "app-counts-changelog"),
                SubtopologyStore("totals", "app-totals-changelog"),
            ),
        ),
    )
)
COUNTS = TopicPartition("app-counts-changelog", 2)
TOTALS = TopicPartition("app-totals-changelog", 2)
USERS = TopicPartition("users", 0)


class Watched:
    def __init__(self, *, terminal: bool) -> None:
        self.clock = ManualClock()
        self._text = io.StringIO()
        console = Console(file=self._text, force_terminal=terminal, width=120, color_system=None)
        self.progress = RestoreProgress(console, task_of=tasks_of_changelogs(TOPOLOGY), clock=self.clock)

    def text(self) -> str:
        return self._text.getvalue()


def test_should_know_the_task_of_every_changelog() -> None:
    task_of = tasks_of_changelogs(TOPOLOGY)
    assert [task_of(each) for each in (COUNTS, TOTALS, USERS, TopicPartition("lines", 0))] == [
        TaskId(1, 2),
        TaskId(1, 2),
        TaskId(0, 0),
        None,
    ]


def test_should_print_lines_at_intervals_when_there_is_no_terminal() -> None:
    watched = Watched(terminal=False)
    progress = watched.progress
    progress.on_restore_start(COUNTS, "counts", 0, 80_000)
    progress.on_restore_start(TOTALS, "totals", 0, 20_000)
    progress.on_restore_start(USERS, "users", 50, 150)
    for batch in range(4):
        watched.clock.advance(1_000)
        progress.on_batch_restored(COUNTS, "counts", 10_000 * (batch + 1) - 1, 10_000)
    assert watched.text() == "", "nothing before the interval is over"
    progress.on_batch_restored(USERS, "users", 99, 50)
    watched.clock.advance(1_000)
    progress.on_batch_restored(COUNTS, "counts", 49_999, 10_000)
    assert watched.text().splitlines() == [
        "restoring total: 50%, 50,050 left, 10,010 records/s, 0:00:05",
        "restoring 0_0: 50%, 50 left, 10 records/s, 0:00:05",
        "restoring 1_2: 50%, 50,000 left, 10,000 records/s, 0:00:05",
    ]


def test_should_print_a_line_at_the_end() -> None:
    watched = Watched(terminal=False)
    for partition in (COUNTS, USERS):
        watched.progress.on_restore_start(partition, "s", 0, 100)
    watched.clock.advance(2_500)
    watched.progress.on_batch_restored(COUNTS, "s", 99, 70)
    watched.progress.on_restore_end(COUNTS, "s", 70)
    assert watched.text() == ""
    watched.progress.on_restore_end(USERS, "s", 0)
    assert watched.text() == "restored 70 records in 2.5 s\n"


def test_should_say_so_when_a_restore_was_suspended() -> None:
    watched = Watched(terminal=False)
    watched.progress.on_restore_start(COUNTS, "counts", 0, 100)
    watched.progress.on_batch_restored(COUNTS, "counts", 9, 10)
    watched.clock.advance(1_000)
    watched.progress.on_restore_suspended(COUNTS, "counts", 10)
    assert watched.text() == "restoring suspended: 10 records in 1.0 s\n"


def test_should_show_no_row_of_a_task_that_left_while_another_one_is_restored() -> None:
    watched = Watched(terminal=True)
    for partition in (COUNTS, USERS):
        watched.progress.on_restore_start(partition, "s", 0, 100)
    watched.progress.on_restore_suspended(COUNTS, "s", 0)
    watched.progress.close()
    last = watched.text()[watched.text().rindex("restoring total") :]
    assert {line.split()[1] for line in last.splitlines() if "restoring" in line} == {"total", "0_0"}


def test_should_begin_anew_after_the_end() -> None:
    watched = Watched(terminal=False)
    for records in (10, 20):
        watched.progress.on_restore_start(COUNTS, "counts", 0, records)
        watched.progress.on_batch_restored(COUNTS, "counts", records - 1, records)
        watched.clock.advance(1_000)
        watched.progress.on_restore_end(COUNTS, "counts", records)
    assert watched.text().splitlines() == ["restored 10 records in 1.0 s", "restored 20 records in 1.0 s"]


def test_should_draw_a_bar_a_task_and_one_for_all_on_a_terminal() -> None:
    watched = Watched(terminal=True)
    progress = watched.progress
    progress.on_restore_start(COUNTS, "counts", 0, 80_000)
    progress.on_restore_start(USERS, "users", 0, 20_000)
    watched.clock.advance(10_000)
    progress.on_batch_restored(COUNTS, "counts", 39_999, 40_000)
    progress.close()
    last = watched.text()[watched.text().rindex("restoring total") :]
    lines = {line.split()[1]: " ".join(line.split()) for line in last.splitlines() if "restoring" in line}
    assert set(lines) == {"total", "0_0", "1_2"}
    assert "40%" in lines["total"]
    assert "60,000 left 4,000 records/s 0:00:15" in lines["total"]
    assert "50%" in lines["1_2"]
    assert "40,000 left 4,000 records/s 0:00:10" in lines["1_2"]
    assert "20,000 left 0 records/s -:--:--" in lines["0_0"]


def test_should_show_changelogs_when_tasks_are_not_known() -> None:
    text = io.StringIO()
    clock = ManualClock()
    progress = RestoreProgress(Console(file=text, width=120), clock=clock, interval_ms=1_000)
    progress.on_restore_start(COUNTS, "counts", 0, 10)
    clock.advance(1_000)
    progress.on_batch_restored(COUNTS, "counts", 4, 5)
    assert "restoring app-counts-changelog-2: 50%, 5 left, 5 records/s, 0:00:01" in text.getvalue()


def test_should_ignore_what_it_never_saw_start() -> None:
    watched = Watched(terminal=False)
    watched.progress.on_batch_restored(COUNTS, "counts", 4, 5)
    watched.progress.on_restore_end(COUNTS, "counts", 5)
    watched.progress.on_restore_suspended(COUNTS, "counts", 5)
    assert watched.text() == ""


def test_should_round_the_time_left_up() -> None:
    row = ProgressRow("0_0", 10, 10, 0, 0.0, finished=False)
    assert row._replace(remaining=3_601, per_s=1.0).time_left == "1:00:01"
    assert row._replace(remaining=1, per_s=1_000.0).time_left == "0:00:01"
    assert row.time_left == "-:--:--"
    assert row._replace(finished=True).time_left == "0:00:00"
