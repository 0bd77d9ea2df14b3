"""How long a task may make no progress."""

from __future__ import annotations

import pytest

from assignor.types import TaskId
from streams_runtime.common.errors import TaskTimeout
from streams_runtime.tasks.task_deadlines import TaskDeadline, TaskDeadlines
from streams_runtime.testing.topology_test_driver import MockClock

TASK, OTHER = TaskId(0, 1), TaskId(0, 2)
SLOW = OSError("slow")


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
