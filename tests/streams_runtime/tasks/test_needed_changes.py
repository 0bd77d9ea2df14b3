"""From where on the changelog of a window store is needed: by stream time, and the same after a restore."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from assignor.types import TopicPartition
from streams_runtime.logs.base import RecordBatch
from streams_runtime.tasks.needed_changes import MissingChanges, NeededChanges, WindowChangelogs
from tests.known import known

CHANGELOG = TopicPartition("app-clicks-changelog", 0)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def batch(first_offset: int, timestamps_ms: list[int]) -> RecordBatch:
    offsets = range(first_offset, first_offset + len(timestamps_ms))
    return RecordBatch(CHANGELOG, offsets, timestamps_ms, [b"k"] * len(offsets), [b"v"] * len(offsets))


def test_should_need_nothing_before_the_first_change() -> None:
    changes = NeededChanges(HOUR_MS)
    assert (changes.needed_from, changes.needed, changes.newest_ms) == (None, 0, -1)
    changes.advance_to(500)
    changes.sent([DAY_MS])
    assert (changes.needed_from, changes.needed, changes.newest_ms) == (500, 1, DAY_MS)


def test_should_not_need_less_because_of_late_changes() -> None:
    changes = NeededChanges(HOUR_MS)
    for timestamp_ms in (DAY_MS, DAY_MS + HOUR_MS // 2, DAY_MS + 1, DAY_MS):
        changes.sent([timestamp_ms])
    assert (changes.needed_from, changes.needed) == (0, 4)


def test_should_take_the_offsets_that_the_log_gave() -> None:
    """Between the changes of two transactions lies a marker; from the second on it is known before."""
    changes = NeededChanges(HOUR_MS)
    changes.advance_to(10)
    changes.sent([0])
    changes.acknowledged(10)
    changes.acknowledged(10)  # once more, with nothing sent since
    changes.sent([DAY_MS])
    assert changes.needed_from == 11
    changes.acknowledged(12)
    assert changes.needed_from == 12
    changes.sent([2 * DAY_MS])
    assert changes.needed_from == 14
    changes.acknowledged(14)
    assert (changes.needed_from, changes.needed) == (14, 2)


def test_should_leave_the_offsets_of_restored_changes_as_they_are() -> None:
    changes = NeededChanges(HOUR_MS)
    changes.from_beginning()
    changes.restored(batch(40, [DAY_MS, DAY_MS + HOUR_MS // 2]))
    changes.sent([DAY_MS + HOUR_MS // 2])
    changes.acknowledged(50)  # something else lies between
    assert changes.needed_from == 40
    changes.sent([DAY_MS + HOUR_MS])
    assert changes.needed_from == 41


def test_should_go_on_after_a_checkpoint_with_what_was_committed() -> None:
    changes = NeededChanges(HOUR_MS)
    changes.advance_to(300)
    changes.restored(batch(300, [DAY_MS + 5]))
    changes.continue_from(120, DAY_MS)
    assert changes.needed_from == 120
    changes.sent([DAY_MS + HOUR_MS])
    assert changes.needed_from == 300
    changes.continue_from(7, DAY_MS)  # a later start of the same task knows more
    assert changes.needed_from == 300


def test_should_know_where_it_began_when_nothing_was_committed() -> None:
    changes = NeededChanges(HOUR_MS)
    changes.advance_to(300)
    changes.continue_from(None, DAY_MS)
    assert (changes.needed_from, changes.newest_ms) == (300, DAY_MS)


def test_should_not_believe_an_earlier_task_when_all_was_restored() -> None:
    changes = NeededChanges(HOUR_MS)
    changes.from_beginning()
    changes.restored(batch(50, [DAY_MS, DAY_MS]))
    changes.continue_from(20, DAY_MS)
    assert changes.needed_from == 50


@given(
    st.integers(1, 5_000),
    st.lists(st.integers(-3, 50), min_size=1, max_size=200).map(lambda steps: list(accumulate(steps, initial=5_000))),
    st.integers(1, 60),
)
def test_should_need_the_same_however_changes_come(retention_ms: int, timestamps_ms: list[int], size: int) -> None:
    one_by_one, restored = NeededChanges(retention_ms), NeededChanges(retention_ms)
    restored.from_beginning()
    for start in range(0, len(timestamps_ms), size):
        part = timestamps_ms[start : start + size]
        restored.restored(batch(start, part))
        for timestamp_ms in part:
            one_by_one.sent([timestamp_ms])
        one_by_one.acknowledged(start + len(part) - 1)
    newest_ms = max(timestamps_ms)
    first_needed = next(i for i, timestamp_ms in enumerate(timestamps_ms) if timestamp_ms > newest_ms - retention_ms)
    assert one_by_one.needed_from == restored.needed_from
    assert one_by_one.newest_ms == restored.newest_ms == newest_ms
    assert known(one_by_one.needed_from) <= first_needed
    above_ms = newest_ms - retention_ms - max(1, retention_ms // 128)
    assert max(timestamps_ms[one_by_one.needed_from : first_needed + 1]) > above_ms


def clicks() -> WindowChangelogs:
    """Of a task with a window store, `clicks`, and a store without a changelog of windows, `names`."""
    return WindowChangelogs(
        {"clicks": HOUR_MS}, {"clicks": CHANGELOG, "names": TopicPartition("app-names-changelog", 0)}
    )


def test_should_report_the_changes_that_a_restore_lacks_once() -> None:
    changelogs = clicks()
    changelogs.restore_begins(CHANGELOG, 5)
    changelogs.restored(CHANGELOG, batch(5, [DAY_MS]))
    assert changelogs.continue_after({"clicks": 2}, DAY_MS) == [MissingChanges("clicks", CHANGELOG, 2, 5)]
    assert changelogs.continue_after({"clicks": 2}, DAY_MS) == []


def test_should_know_nothing_of_the_stores_that_were_closed() -> None:
    changelogs = clicks()
    changelogs.restore_begins(CHANGELOG, 5)
    changelogs.restored(CHANGELOG, batch(5, [DAY_MS]))
    changelogs.clear()
    assert changelogs.needed_from() == {}
    assert changelogs.continue_after({"clicks": 2}, DAY_MS) == []
    assert changelogs.needed_from() == {"clicks": 0}


def test_should_ignore_changelogs_that_have_no_windows() -> None:
    changelogs, names = clicks(), TopicPartition("app-names-changelog", 0)
    changelogs.restore_begins(names, 5)
    changelogs.restored(names, batch(5, [DAY_MS]))
    changelogs.advance_to(names, 9)
    assert (changelogs.needed_from(), changelogs.continue_after({"names": 2}, DAY_MS)) == ({}, [])
