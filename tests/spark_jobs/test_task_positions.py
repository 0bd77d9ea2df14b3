"""How copies grow, what is kept on disk, and which thread answers for what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from assignor.types import TaskId, TopicPartition
from spark_jobs.task_positions import TaskPositions

A, B, C = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)
LOG_A = TopicPartition("log", 0)
CHANGELOGS = {
    A: {LOG_A: 100},
    B: {TopicPartition("log", 1): 100},
    C: {TopicPartition("log", 2): 100, TopicPartition("other", 2): 30},
}


@dataclass(slots=True)
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def positions(directory: Path, clock: Clock) -> TaskPositions:
    return TaskPositions(directory, CHANGELOGS, restore_rate=10.0, clock=clock)


def test_should_grow_to_the_end_and_no_further_while_held(tmp_path: Path) -> None:
    clock = Clock()
    held = positions(tmp_path, clock)
    held.hold("t0", [A, C])
    assert held.offset_sums("t0") == {A: 0, C: 0}
    clock.now_s = 2.5
    assert held.offset_sums("t0") == {A: 25, C: 50}
    clock.now_s = 4.0
    assert held.offset_sums("t0") == {A: 40, C: 70}
    assert not held.is_restored(A)
    clock.now_s = 1000.0
    assert held.offset_sums("t0") == {A: 100, C: 130}
    assert held.is_restored(A)


def test_should_stay_where_it_was_when_it_is_not_held(tmp_path: Path) -> None:
    clock = Clock()
    held = positions(tmp_path, clock)
    held.hold("t0", [A])
    clock.now_s = 3.0
    held.hold("t0", [])
    clock.now_s = 1000.0
    assert held.offset_sums("t0") == {}
    held.hold("t1", [A])
    clock.now_s = 1001.0
    assert held.offset_sums("t1") == {A: 40}


def test_should_be_found_again_by_the_next_start(tmp_path: Path) -> None:
    clock = Clock()
    before = positions(tmp_path, clock)
    before.hold("t0", [A, C])
    clock.now_s = 2.0
    before.hold("t0", [])
    assert (tmp_path / "0_0" / ".checkpoint").read_text() == "0\n1\nlog 0 20\n"
    after = positions(tmp_path, clock)
    assert after.offset_sums("t0") == {}, "nobody has claimed it yet"
    after.claim("t0")
    assert after.offset_sums("t0") == {A: 20, C: 40}


@pytest.mark.parametrize("content", ["", "1\n0\n", "nonsense", "0\n1\nlog 0 -4\n", "0\n1\nanother 0 7\n"])
def test_should_restore_from_the_start_when_what_is_on_disk_cannot_be_used(tmp_path: Path, content: str) -> None:
    (tmp_path / "0_0").mkdir()
    (tmp_path / "0_0" / ".checkpoint").write_text(content)
    held = positions(tmp_path, Clock())
    held.claim("t0")
    assert sum(held.offset_sums("t0").values()) == 0


def test_should_not_be_beyond_the_end_when_the_changelog_was_made_anew(tmp_path: Path) -> None:
    (tmp_path / "0_0").mkdir()
    (tmp_path / "0_0" / ".checkpoint").write_text("0\n1\nlog 0 5000\n")
    held = positions(tmp_path, Clock())
    held.claim("t0")
    assert held.offset_sums("t0") == {A: 100}


def test_should_be_answered_for_by_one_thread_only(tmp_path: Path) -> None:
    held = positions(tmp_path, Clock())
    held.hold("t0", [A, B, C])
    held.hold("t0", [A])
    held.claim("t1")
    held.claim("t2")
    assert set(held.offset_sums("t0")) == {A}
    assert set(held.offset_sums("t1")) == {B, C}
    assert set(held.offset_sums("t2")) == set()
    held.hold("t1", [B])
    held.claim("t2")
    assert set(held.offset_sums("t1")) == {B}
    assert set(held.offset_sums("t2")) == {C}


def test_should_go_on_growing_when_a_thread_hands_it_to_another(tmp_path: Path) -> None:
    clock = Clock()
    held = positions(tmp_path, clock)
    held.hold("t0", [A])
    clock.now_s = 1.0
    held.hold("t1", [A])
    held.hold("t0", [])
    clock.now_s = 2.0
    assert held.offset_sums("t0") == {}
    assert held.offset_sums("t1") == {A: 20}


def test_should_know_nothing_of_tasks_without_changelogs(tmp_path: Path) -> None:
    stateless = TaskId(7, 0)
    held = positions(tmp_path, Clock())
    held.hold("t0", [stateless])
    assert held.offset_sums("t0") == {}
    assert held.is_restored(stateless)
