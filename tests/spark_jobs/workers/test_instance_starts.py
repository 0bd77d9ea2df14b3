"""What is said while instances do not get going, and how often."""

from spark_jobs.workers.instance_starts import JOINED_AFTER_S, SLOTS_AFTER_S, BeginningsWatch, Surroundings

PLACE = Surroundings("spark://a:7077", "http://b:4040", "http://c:8080")


def said(instances: int, running: int, joined: int, elapsed_s: float, place: Surroundings = PLACE) -> str:
    watch = BeginningsWatch(instances, place)
    assert watch.poll(running, joined, 100.0) is None
    return watch.poll(running, joined, 100.0 + elapsed_s) or ""


def test_should_say_nothing_while_all_is_well_or_young() -> None:
    assert said(3, 3, 6, 1_000.0) == ""
    assert said(3, 1, 2, SLOTS_AFTER_S - 1) == ""
    assert said(3, 3, 0, JOINED_AFTER_S - 1) == ""


def test_should_say_who_waits_for_what_and_where_to_look() -> None:
    line = said(3, 1, 2, SLOTS_AFTER_S)
    assert line.startswith("2 of 3 instances wait for a free executor of spark://a:7077: ")
    assert line.endswith("see http://b:4040")
    assert "see" not in said(3, 1, 2, SLOTS_AFTER_S, Surroundings("yarn", None, "http://c:8080"))


def test_should_ask_for_the_way_to_the_coordinator_when_nobody_joins() -> None:
    line = said(2, 2, 0, JOINED_AFTER_S)
    assert line.startswith("2 of 2 instances run and none has joined the group: ")
    assert "http://c:8080" in line


def test_should_say_it_once_and_again_when_it_has_changed() -> None:
    watch = BeginningsWatch(3, PLACE)
    lines = [watch.poll(running, 1, float(now_s)) for now_s, running in enumerate([0] * 40 + [1] * 40 + [3] * 40)]
    found = [(now_s, line[:6]) for now_s, line in enumerate(lines) if line is not None]
    assert found == [(SLOTS_AFTER_S, "3 of 3"), (40 + SLOTS_AFTER_S, "2 of 3")]
