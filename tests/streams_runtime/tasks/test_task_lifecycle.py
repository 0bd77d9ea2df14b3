"""States of a task, and the story that comes with every illegal step."""

from __future__ import annotations

import itertools

import pytest

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.tasks.task_lifecycle import TaskLifecycle

C, R, N, S, X = TaskState.CREATED, TaskState.RESTORING, TaskState.RUNNING, TaskState.SUSPENDED, TaskState.CLOSED
LEGAL = {(C, R), (C, S), (R, N), (R, S), (N, S), (S, R), (S, X), (X, C), (S, C)}
WAY_TO = {C: [], R: [R], N: [R, N], S: [S], X: [S, X]}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(TaskState, TaskState)))
def test_should_take_legal_steps_only(old: TaskState, new: TaskState) -> None:
    lifecycle = TaskLifecycle(TaskId(0, 1), TaskType.ACTIVE)
    for state in WAY_TO[old]:
        lifecycle.to(state)
    if (old, new) in LEGAL:
        lifecycle.to(new)
        assert lifecycle.state is new
    else:
        with pytest.raises(StreamsRuntimeError, match=f"is {old.value} and cannot become {new.value}"):
            lifecycle.to(new)
        assert lifecycle.state is old


def test_should_tell_the_tasks_story_when_a_step_is_illegal() -> None:
    lifecycle = TaskLifecycle(TaskId(0, 1), TaskType.STANDBY)
    for state in (R, N, S, X):
        lifecycle.to(state)
    with pytest.raises(StreamsRuntimeError) as error:
        lifecycle.expect("be suspended", C, N)
    assert str(error.value) == (
        "task [0_1] (standby) is closed and cannot be suspended; "
        "its story: created -> restoring -> running -> suspended -> closed"
    )
    assert error.value.task_id == TaskId(0, 1)


def test_should_keep_the_last_twenty_states_of_a_long_story() -> None:
    lifecycle = TaskLifecycle(TaskId(0, 1), TaskType.ACTIVE)
    for _ in range(30):
        lifecycle.to(S)
        lifecycle.to(R)
    assert str(lifecycle.illegal("wait")).count("->") == 19
