"""A member reports the user's error, where it was raised, and no more than any coordinator takes."""

import json
from collections.abc import Callable

import pytest

from assignor.types import TaskId
from coordinator_api.http.models.member_models import MAX_UNKNOWN_BYTES, LeaveBody
from streams_runtime.common.errors import (
    LockError,
    ProcessingFailed,
    SerdeMismatch,
    StreamsRuntimeError,
    TaskMigrated,
    error_text,
)
from streams_runtime.common.failures import ReportedFailure, reported_failure
from streams_runtime.tasks.task import with_task

TASK = TaskId(0, 1)


class NoAmount(Exception):
    """The user's own."""


class TextFails(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def to_amount(error: BaseException) -> None:
    raise error


PLACE = f"test_failures.py:{to_amount.__code__.co_firstlineno + 1}, in to_amount"


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)):
        to_amount(error)
    return error


def wrapped(cause: Exception) -> StreamsRuntimeError:
    failed = ProcessingFailed("processing failed: topic=lines", TASK)
    failed.__cause__ = cause
    return failed


@pytest.mark.parametrize(
    ("error", "report"),
    [
        (wrapped(raised(ValueError("no amount"))), ReportedFailure("ValueError", "no amount", PLACE, "0_1")),
        (
            ProcessingFailed("processing failed", TASK, "lines-0 at offset 7"),
            ReportedFailure(
                "streams_runtime.common.errors.ProcessingFailed",
                f"task [{TASK}] processing failed; the record is lines-0 at offset 7",
                None,
                "0_1",
            ),
        ),
        (with_task(raised(KeyError("x")), TASK), ReportedFailure("KeyError", "'x'", PLACE, "0_1")),
        (with_task(wrapped(raised(NoAmount())), TASK), ReportedFailure(f"{__name__}.NoAmount", "", PLACE, "0_1")),
        (raised(ValueError("a\nb\x1b[2J")), ReportedFailure("ValueError", "a b [2J", PLACE)),
        (TaskMigrated("gone"), ReportedFailure("streams_runtime.common.errors.TaskMigrated", "gone")),
        (
            LockError("held", TASK),
            ReportedFailure("streams_runtime.common.errors.LockError", "task [0_1] held", None, "0_1"),
        ),
        (TextFails(), ReportedFailure(f"{__name__}.TextFails", "<its text fails with RuntimeError>")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_should_report_the_error_of_the_user_and_the_task_of_the_runtime(
    error: Exception, report: ReportedFailure
) -> None:
    assert reported_failure(error) == report


def test_should_report_an_error_of_the_runtime_that_says_more_than_its_cause() -> None:
    mismatch = SerdeMismatch("sink out", "serde", "serde", "k", 1, TypeError("not bytes"))
    mismatch.__cause__ = raised(TypeError("not bytes"))
    reported = reported_failure(wrapped(mismatch))
    assert (reported.error.rpartition(".")[2], reported.message) == ("SerdeMismatch", error_text(mismatch))


@pytest.mark.parametrize("letter", ["x", '"', "\u00e4", "\U0001f600"], ids=ascii)
def test_should_report_no_more_than_any_coordinator_takes(letter: str) -> None:
    error = type(letter * 1_000, (Exception,), {})(letter * 10_000)
    functions: dict[str, Callable[[Exception], None]] = {}
    exec(compile("def fails(error):\n raise error", f"/{letter * 1_000}.py", "exec"), functions)
    with pytest.raises(type(error)):
        functions["fails"](error)

    document = {"failure": reported_failure(with_task(error, TASK)).document()}

    assert len(json.dumps(document)) < MAX_UNKNOWN_BYTES
    failure = LeaveBody.model_validate_json(json.dumps(document)).failure
    assert failure is not None
    assert failure.place is not None
    assert failure.message.startswith(letter * 100)
