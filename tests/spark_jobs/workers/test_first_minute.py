"""What is said while instances do not get going, and how often."""

from __future__ import annotations

from spark_jobs.workers.first_minute import (
    JOINED_AFTER_S,
    SLOTS_AFTER_S,
    Beginnings,
    BeginningsWatch,
    Surroundings,
    advice,
)

PLACE = Surroundings("spark://a:7077", "http://b:4040", "http://c:8080")


def test_should_say_nothing_while_all_is_well_or_young() -> None:
    assert advice(Beginnings(3, 3, 6, 1_000.0), PLACE) is None
    assert advice(Beginnings(3, 1, 2, SLOTS_AFTER_S - 1), PLACE) is None
    assert advice(Beginnings(3, 3, 0, JOINED_AFTER_S - 1), PLACE) is None


def test_should_say_who_waits_for_what_and_where_to_look() -> None:
    line = advice(Beginnings(3, 1, 2, SLOTS_AFTER_S), PLACE)
    assert line is not None
    assert line.startswith("2 of 3 instances wait for a free executor of spark://a:7077: ")
    assert line.endswith("see http://b:4040")
    assert "see" not in str(advice(Beginnings(3, 1, 2, SLOTS_AFTER_S), Surroundings("yarn", None, "http://c:8080")))


def test_should_ask_for_the_way_to_the_coordinator_when_nobody_joins() -> None:
    line = advice(Beginnings(2, 2, 0, JOINED_AFTER_S), PLACE)
    assert line is not None
    assert line.startswith("2 of 2 instances run and none has joined the group: ")
    assert "http://c:8080" in line


def test_should_say_it_once_and_again_when_it_has_changed() -> None:
    watch = BeginningsWatch(3)
    lines = [
        watch.look(running, 1, float(now_s), PLACE) for now_s, running in enumerate([0] * 40 + [1] * 40 + [3] * 40)
    ]
    said = [(now_s, line[:6]) for now_s, line in enumerate(lines) if line is not None]
    assert said == [(SLOTS_AFTER_S, "3 of 3"), (40 + SLOTS_AFTER_S, "2 of 3")]
