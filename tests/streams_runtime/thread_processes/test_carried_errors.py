"""Errors that go from one process to another and come out as what they were."""

from __future__ import annotations

import pickle
import threading

import pytest

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted
from streams_runtime.thread_processes.carried_errors import carried


class OtherArguments(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")
        self.sum = one + two


class HoldsLock(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


def taken_along(error: BaseException) -> BaseException:
    found = pickle.loads(pickle.dumps(carried(error))).error()
    assert isinstance(found, BaseException)
    return found


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a", 1),
        FileNotFoundError(2, "No such file", "x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        KeyError("k"),
        SystemExit(3),
        OtherArguments(1, 2),
        TaskCorrupted([TaskId(0, 1)], "broken"),
        StreamsRuntimeError("failed", TaskId(1, 2)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_should_arrive_with_its_class_its_text_and_its_fields(error: BaseException) -> None:
    found = taken_along(error)
    assert (type(found), str(found), found.args) == (type(error), str(error), error.args)
    fields = vars(found)
    fields.pop("__notes__")
    assert fields == vars(error)


def test_should_arrive_with_its_causes_and_where_it_was_raised() -> None:
    def fail() -> None:
        raise OtherArguments(1, 2) from KeyError("k")

    with pytest.raises(OtherArguments) as raised:
        fail()
    found = taken_along(raised.value)
    assert (type(found.__cause__), str(found.__cause__)) == (KeyError, "'k'")
    (note,) = found.__notes__
    assert "in test_should_arrive_with_its_causes" in note


def test_should_lose_fields_that_cannot_be_pickled_and_keep_its_class() -> None:
    found = taken_along(HoldsLock("held"))
    assert (type(found), str(found), hasattr(found, "lock")) == (HoldsLock, "held", False)


def test_should_say_which_error_it_was_when_it_cannot_be_made_again() -> None:
    with_lock = ValueError("a", threading.Lock())
    found = taken_along(with_lock)
    assert type(found) is StreamsRuntimeError
    assert str(found) == f"ValueError: {with_lock}"


def test_should_be_an_exception_whatever_ended_the_thread() -> None:
    assert str(carried(SystemExit(3)).exception()) == "ended by SystemExit(3)"
    assert isinstance(carried(ValueError("a")).exception(), ValueError)
