"""Garbage collection: what is there at the start is left alone, and what dies young is gone soon."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from coordinator_api.http.garbage import EVERY_S, YoungGarbage, set_aside_what_is_there


class Node:
    """Part of a circle."""

    me: Node


@pytest.fixture
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    gc.disable()  # only what is tested collects
    yield
    gc.enable()
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("as_it_was")
def test_should_not_look_again_at_what_was_there_at_the_start() -> None:
    loaded = Node()
    loaded.me = loaded
    there = weakref.ref(loaded)
    set_aside_what_is_there()
    assert gc.get_freeze_count() > 0

    del loaded
    gc.collect()
    assert there() is not None


@pytest.mark.usefixtures("as_it_was")
def test_should_collect_what_died_young_every_few_seconds_and_no_more_often() -> None:
    garbage = YoungGarbage()
    garbage.collect_if_due(1_000.0)
    gone: list[bool] = []
    for now_s in (1_000.0 + EVERY_S / 2, 1_000.0 + EVERY_S):
        dead = Node()
        dead.me = dead
        left = weakref.ref(dead)
        del dead
        garbage.collect_if_due(now_s)
        gone.append(left() is None)

    assert gone == [False, True]
