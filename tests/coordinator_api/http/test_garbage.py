"""Garbage collection: what is there at the start is left alone, and what dies young is gone soon."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from coordinator_api.http.housekeeping import (
    ALL_EVERY_S,
    MIDDLE_EVERY_S,
    MIDDLE_PARTS,
    Garbage,
    freeze_existing_objects,
)

BEGAN_S = 1_000.0


class Node:
    """Part of a circle."""

    me: Node


class Stopwatch:
    """Says that every collection takes as long as `took_s`."""

    def __init__(self, took_s: float) -> None:
        self._took_s = took_s
        self._now_s = 0.0

    def __call__(self) -> float:
        self._now_s += self._took_s
        return self._now_s


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.disable()  # only what is tested collects
    yield
    gc.enable()
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.fixture
def generations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Those that were collected."""
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", collected.append)
    return collected


def a_circle() -> Node:
    node = Node()
    node.me = node
    return node


def test_should_not_look_again_at_what_was_there_at_the_start() -> None:
    loaded = a_circle()
    there = weakref.ref(loaded)
    freeze_existing_objects()
    assert gc.get_freeze_count() > 0

    del loaded
    gc.collect()
    assert there() is not None


def test_should_collect_at_every_look_what_died_since_the_last_one() -> None:
    garbage = Garbage()
    garbage.collect_if_due(BEGAN_S)
    left = weakref.ref(a_circle())

    garbage.collect_if_due(BEGAN_S + 0.1)

    assert left() is None


@pytest.mark.parametrize(("survived", "gone_after_s"), [(1, MIDDLE_EVERY_S), (2, ALL_EVERY_S)])
def test_should_collect_within_a_bounded_time_what_died_later(survived: int, gone_after_s: float) -> None:
    """An error that is held for some seconds, with the body that its frames refer to."""
    garbage = Garbage(Stopwatch(0.0))
    garbage.collect_if_due(BEGAN_S)
    held = a_circle()
    for generation in range(survived):
        gc.collect(generation)
    left = weakref.ref(held)
    del held

    garbage.collect_if_due(BEGAN_S + gone_after_s / 2)
    assert left() is not None
    garbage.collect_if_due(BEGAN_S + gone_after_s)
    assert left() is None


def test_should_look_less_often_where_a_look_takes_long(generations: list[int]) -> None:
    took_s = 0.1
    garbage = Garbage(Stopwatch(took_s))
    due_s = BEGAN_S + MIDDLE_EVERY_S
    for now_s in (BEGAN_S, due_s, due_s + MIDDLE_EVERY_S, due_s + took_s * MIDDLE_PARTS + 0.001):
        garbage.collect_if_due(now_s)

    assert generations == [0, 1, 0, 1]


def test_should_look_at_one_generation_at_a_time(generations: list[int]) -> None:
    garbage = Garbage(Stopwatch(0.0))
    for now_s in (BEGAN_S, BEGAN_S + ALL_EVERY_S, BEGAN_S + ALL_EVERY_S + 0.1, BEGAN_S + ALL_EVERY_S + 0.2):
        garbage.collect_if_due(now_s)

    assert generations == [0, 2, 1, 0]
