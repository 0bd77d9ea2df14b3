"""Reads of stores over a pipe: which of them count, and how iterators come in parts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import pytest

from assignor.types import TaskId
from streams_runtime.common.errors import InvalidStateStore, SnapshotReplaced
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.state_stores.base import StateStore
from streams_runtime.thread_processes.channel import Channel, new_pipe
from streams_runtime.thread_processes.child import _answer_reads
from streams_runtime.thread_processes.remote_stores import PART, RemoteStore, StoreAnswers, StorePlace, StoreReader
from streams_runtime.threads.thread_status import TaskCopy

TASK = TaskId(0, 1)
MANY = 2 * PART + 1


class Store:
    """Half of one: what is read here. `during`: called in the middle of a read."""

    name = "s"
    is_open = True

    def __init__(self) -> None:
        self.given = 0
        self.during: Any = lambda: None

    def get(self, key: object) -> object:
        self.during()
        if key == "bad":
            raise ValueError("no such key")
        return threading.Lock() if key == "lock" else f"{key}!"

    def all(self) -> Iterator[tuple[int, str]]:
        for number in range(MANY):
            self.given += 1
            yield number, str(number)

    def range(self, _start: object, _end: object) -> Iterator[object]:
        return iter(())


class Ends(NamedTuple):
    remote: RemoteStore
    store: Store
    answers: StoreAnswers
    waited: list[int]

    def show(self, number: int) -> None:
        copies = (TaskCopy(TASK, TaskType.ACTIVE, TaskState.RUNNING, {"s": cast(StateStore, self.store)}, {"s": 0}),)
        self.answers.show(number, copies)


@pytest.fixture
def ends() -> Iterator[Ends]:
    here, there = map(Channel, new_pipe())
    waited: list[int] = []
    answers = StoreAnswers()
    remote = RemoteStore(StoreReader(here, waited.append), StorePlace(3, TASK, "s"), persistent=True)
    made = Ends(remote, Store(), answers, waited)
    made.show(3)
    serving = threading.Thread(target=_answer_reads, args=(there, answers))
    serving.start()
    yield made
    here.close()
    serving.join()
    there.close()


def test_should_give_values_and_raise_what_the_store_raises(ends: Ends) -> None:
    assert ends.remote.get("a") == "a!"
    with pytest.raises(ValueError, match="no such key"):
        ends.remote.get("bad")
    with pytest.raises(TypeError, match="lock"):
        ends.remote.get("lock")  # which cannot come here
    with pytest.raises(TypeError, match="lock"):
        ends.remote.get(threading.Lock())  # nor there
    assert ends.remote.get("b") == "b!", "the pipe is as before"


def test_should_give_all_entries_in_parts(ends: Ends) -> None:
    assert [number for number, _ in ends.remote.all()] == list(range(MANY))
    assert list(ends.remote.range(None, None)) == []
    assert ends.answers._iterators == {}


def test_should_read_no_further_than_somebody_looks(ends: Ends) -> None:
    entries = ends.remote.all()
    assert next(entries) == (0, "0")
    assert ends.store.given == PART
    cast(Any, entries).close()
    assert ends.remote.get("a") == "a!"
    assert ends.answers._iterators == {}


def test_should_not_count_a_read_when_the_thread_shows_a_newer_snapshot(ends: Ends) -> None:
    ends.show(4)
    with pytest.raises(SnapshotReplaced):
        ends.remote.get("a")
    assert ends.waited == [3], "it waits for the newer one before it looks again"


@pytest.mark.parametrize("what", ["published", "closed"])
def test_should_not_count_a_read_in_whose_middle_something_changes(ends: Ends, what: str) -> None:
    def change() -> None:
        if what == "published":
            ends.show(4)
        else:
            ends.store.is_open = False

    ends.store.during = change
    with pytest.raises(SnapshotReplaced):
        ends.remote.get("a")


def test_should_not_go_on_with_an_iterator_of_an_older_snapshot(ends: Ends) -> None:
    entries = ends.remote.all()
    next(entries)
    ends.show(4)
    with pytest.raises(SnapshotReplaced):
        list(entries)
    ends.answers.show(5, ())
    assert ends.answers._iterators == {}


def test_should_say_that_the_process_has_ended() -> None:
    here, there = map(Channel, new_pipe())
    there.close()
    remote = RemoteStore(StoreReader(here, lambda _number: None), StorePlace(1, TASK, "s"), persistent=True)
    with pytest.raises(InvalidStateStore, match="the process that had store 's' has ended"):
        remote.get("a")
    here.close()
