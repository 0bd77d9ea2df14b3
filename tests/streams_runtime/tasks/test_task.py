"""The steps of a task's life, the history of an illegal one, task.timeout.ms, and which of several errors is raised."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted, TaskMigrated, TaskTimeout
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.configs import StreamsConfig
from streams_runtime.local_run.topology_test_driver import MockClock
from streams_runtime.tasks.standby_task import StandbyTask
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.task import TaskDeadline, TaskDeadlines, raise_most_severe, with_task
from tests.streams_runtime.tasks import state_task

TASK, OTHER = TaskId(0, 1), TaskId(0, 2)
SLOW = OSError("slow")

C, R, N, S, X = TaskState.CREATED, TaskState.RESTORING, TaskState.RUNNING, TaskState.SUSPENDED, TaskState.CLOSED
LEGAL = {(C, R), (C, S), (R, N), (R, S), (N, S), (S, R), (S, X), (X, C), (S, C)}
WAY_TO = {C: [], R: [R], N: [R, N], S: [S], X: [S, X]}


class Steps(StandbyTask):
    """A task that takes the steps that a test asks for."""

    def take(self, *states: TaskState) -> None:
        for state in states:
            self._become(state)


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Steps]:
    clock = MockClock(0)
    directory = StateDirectory(tmp_path, "app", clock)
    state = state_task.Task(directory, exactly_once=False, task_type=TaskType.STANDBY).state
    yield Steps(state, frozenset(), configs=StreamsConfig("app", "memory:test"), clock=clock)
    directory.close()


@pytest.mark.parametrize(("old", "new"), list(itertools.product(TaskState, TaskState)))
def test_should_take_legal_steps_only(task: Steps, old: TaskState, new: TaskState) -> None:
    task.take(*WAY_TO[old])
    if (old, new) in LEGAL:
        task.take(new)
        assert task.state is new
    else:
        with pytest.raises(StreamsRuntimeError, match=f"is {old.value} and cannot become {new.value}"):
            task.take(new)
        assert task.state is old


def test_should_keep_the_last_twenty_states_of_a_long_history(task: Steps) -> None:
    for _ in range(30):
        task.take(S, R)
    with pytest.raises(StreamsRuntimeError) as error:
        task.close_clean()
    assert str(error.value).count("->") == 19


def test_should_start_the_time_at_the_first_failure_and_end_it_with_a_success() -> None:
    deadline = TaskDeadline(TASK, 100)
    deadline.failed(1_000, SLOW)
    deadline.failed(1_100, SLOW)
    deadline.succeeded()
    deadline.failed(5_000, SLOW)
    with pytest.raises(TaskTimeout) as error:
        deadline.failed(5_101, SLOW)
    assert str(error.value) == "task [0_1] could not make progress within 101 ms (task.timeout.ms is 100): slow"
    assert error.value.__cause__ is SLOW


def test_should_count_for_each_task_and_each_thing_by_itself() -> None:
    clock = MockClock(0)
    deadlines = TaskDeadlines(100, clock)
    deadlines.failed(TASK, "read", SLOW)
    clock.advance(60)
    deadlines.failed(OTHER, "read", SLOW)
    deadlines.failed(TASK, "write", SLOW)
    clock.advance(60)
    deadlines.failed(OTHER, "read", SLOW)
    deadlines.failed(TASK, "write", SLOW)
    with pytest.raises(TaskTimeout, match=r"task \[0_1\] could not read within 120 ms"):
        deadlines.failed(TASK, "read", SLOW)


def test_should_forget_a_task() -> None:
    clock = MockClock(0)
    deadlines = TaskDeadlines(100, clock)
    deadlines.failed(TASK, "read", SLOW)
    clock.advance(200)
    deadlines.forget(TASK)
    deadlines.failed(TASK, "read", SLOW)


FIRST, SECOND, THIRD = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)


GONE, BROKEN, FATAL = TaskMigrated("gone"), TaskCorrupted([FIRST], "broken"), ValueError("no")


@pytest.mark.parametrize(
    ("errors", "kind", "message"),
    [
        pytest.param([GONE, FATAL, BROKEN], StreamsRuntimeError, r"task \[0_1\] failed: ValueError: no", id="fatal"),
        pytest.param([BROKEN, GONE], TaskMigrated, "gone", id="a migration before corruptions"),
        pytest.param(
            [BROKEN, TaskCorrupted([SECOND], "lost"), TaskCorrupted([THIRD], "broken")],
            TaskCorrupted,
            "^broken; lost: 0_0, 0_1, 1_0$",
            id="all corruptions as one",
        ),
    ],
)
def test_should_raise_the_most_severe(errors: list[Exception], kind: type[Exception], message: str) -> None:
    raise_most_severe({})  # nothing failed
    with pytest.raises(kind, match=message) as raised:
        raise_most_severe(dict(zip((FIRST, SECOND, THIRD), errors, strict=False)))
    assert type(raised.value) is kind
    assert raised.value.__cause__ is (FATAL if FATAL in errors else None)


def test_should_keep_the_task_that_an_error_names_already() -> None:
    error = StreamsRuntimeError("no", FIRST)
    assert with_task(error, SECOND) is error
    assert error.task_id == FIRST
