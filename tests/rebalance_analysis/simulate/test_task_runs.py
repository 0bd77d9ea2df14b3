"""Since when tasks run, and how long they had no owner."""

from assignor.types import JAVA_LONG_MAX, TaskId
from rebalance_analysis.simulate.model import HIGHEST_RATE
from rebalance_analysis.simulate.modelled_thread import ChangelogEnds, TaskRuns

T0, T1 = TaskId(0, 0), TaskId(0, 1)


def test_should_add_up_how_long_a_task_ran_over_all_its_owners() -> None:
    runs = TaskRuns({})
    runs.starts(T0, 0)

    runs.stops(T0, 1000)
    runs.starts(T0, 1500)

    assert [runs.ran_ms(T0, at_ms) for at_ms in (500, 1200, 2000)] == [1000, 1000, 1500]


def test_should_go_on_counting_when_a_task_is_taken_away_before_it_is_restored() -> None:
    runs = TaskRuns({T0: -45_000})
    runs.starts(T0, 8000)

    runs.stops(T0, 5000)
    runs.starts(T0, 6000)
    runs.finish(5500)

    assert (runs.unowned_ms, runs.longest_ms) == (51_000, 51_000)
    assert runs.ran_ms(T0, 7000) == 1000


def test_should_name_the_longest_stretch_not_the_largest_sum() -> None:
    runs = TaskRuns({T0: 0, T1: 0})
    runs.starts(T0, 700)
    runs.starts(T1, 1000)

    runs.stops(T0, 2000)
    runs.starts(T0, 2700)
    runs.finish(3000)

    assert (runs.unowned_ms, runs.longest_ms, runs.longest_task) == (2400, 1000, T1)


def test_should_count_who_waits_in_the_end_up_to_then() -> None:
    runs = TaskRuns({T0: 100})

    runs.finish(400)

    assert (runs.unowned_ms, runs.longest_task) == (300, T0)


def test_should_grow_a_changelog_no_further_than_a_java_long() -> None:
    runs = TaskRuns({T0: 0})
    runs.starts(T0, 0)
    ends = ChangelogEnds({T0: 17}, HIGHEST_RATE, runs)

    assert ends.end(T0, 1000) == 17 + int(HIGHEST_RATE)
    assert ends.end(T0, 10**9) == 17 + ends.appended(T0, 10**9) == JAVA_LONG_MAX
