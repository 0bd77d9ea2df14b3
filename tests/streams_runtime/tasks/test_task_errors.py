"""Of several tasks' errors the thread sees the most severe."""

from __future__ import annotations

import pytest

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted, TaskMigrated
from streams_runtime.tasks.task_errors import raise_most_severe, with_task

A, B, C = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)


def test_should_raise_nothing_when_nothing_failed() -> None:
    raise_most_severe({})


def test_should_raise_what_ends_the_thread_before_everything_else() -> None:
    fatal = ValueError("no")
    with pytest.raises(StreamsRuntimeError, match=r"task \[0_1\] failed: ValueError: no") as raised:
        raise_most_severe({A: TaskMigrated("gone"), B: fatal, C: TaskCorrupted([C])})
    assert raised.value.__cause__ is fatal
    assert raised.value.task_id == B


def test_should_raise_a_migration_before_corruptions() -> None:
    with pytest.raises(TaskMigrated):
        raise_most_severe({A: TaskCorrupted([A]), B: TaskMigrated("gone")})


def test_should_raise_all_corruptions_as_one() -> None:
    with pytest.raises(TaskCorrupted) as raised:
        raise_most_severe(
            {A: TaskCorrupted([A], "broken"), B: TaskCorrupted([B], "lost"), C: TaskCorrupted([C], "broken")}
        )
    assert raised.value.tasks == {A, B, C}
    assert str(raised.value) == "broken; lost: 0_0, 0_1, 1_0"


def test_should_keep_the_task_that_an_error_names_already() -> None:
    error = StreamsRuntimeError("no", A)
    assert with_task(error, B) is error
    assert error.task_id == A
