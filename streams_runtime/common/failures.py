"""Describes the error that ended a member: its class, its message, and the line of the user's code that raised it. The
user's code is neither in this package nor in an installed package.

A member sends the description with its leave call. The coordinator keeps it, so that operators see why an instance
ended.
"""

import json
import os
import sysconfig
import traceback
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from streams_runtime.common.errors import ProcessingFailed, StreamsRuntimeError, class_name, error_text
from streams_runtime.common.notices import one_line

# The coordinator refuses longer texts. An older coordinator does not know failures, and accepts unknown fields only up
# to 4,096 bytes of ASCII JSON, so the sum of the three sizes in bytes is below that.
MAX_ERROR_LENGTH, MAX_ERROR_BYTES = 200, 600
MAX_MESSAGE_LENGTH, MAX_MESSAGE_BYTES = 1_000, 2_100
MAX_PLACE_LENGTH, MAX_PLACE_BYTES = 500, 1_000

_WRAPPERS = (ProcessingFailed, StreamsRuntimeError)
"""The runtime raises errors of these classes to add the task and the record to another error, their cause."""

_INSTALLED_PREFIXES = (
    "<frozen ",
    *(sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
)
"""The paths of installed files begin with these prefixes."""


@dataclass(frozen=True, slots=True)
class ReportedFailure:
    """The error because of which a member leaves its group. `error`: the name of the error's class. `message`: the
    error's own text, and the position of the record at which it happened, if there is one. `place`: the file
    and line of the user's code, for example `orders.py:12, in to_amount`; None if it is not known. `task`: the task
    that failed; None if the error happened in no task. All texts together have less than 4,096 bytes as ASCII JSON.
    """

    error: str
    message: str = ""
    place: str | None = None
    task: str | None = None

    def document(self) -> dict[str, object]:
        """Returns the failure as the JSON object that a leave call contains."""
        return {"error": self.error, "message": self.message, "place": self.place, "task": self.task}


class UserLine(NamedTuple):
    """A line of the user's code. `file`: the path in the code object. `function`: the function with the line."""

    file: str
    line: int
    function: str


def innermost_line(error: BaseException) -> UserLine | None:
    """Returns the innermost line of the user's code in the traceback. Returns None if the traceback has no line of the
    user's code.
    """
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if is_users_file(frame.f_code.co_filename):
            return UserLine(frame.f_code.co_filename, line, frame.f_code.co_name)
    return None


@lru_cache
def is_users_file(name: str) -> bool:
    """Returns True if the file with this path has code of the user."""
    # The path comes from the code object and not from `__file__`. On Spark executors this package is in an archive, and
    # the paths in code objects are relative.
    # The paths in compiled modules begin with the package.
    own = Path(innermost_line.__code__.co_filename).parents[1]
    return not os.path.normpath(name).startswith((f"{own}{os.sep}", f"{own.name}{os.sep}", *_INSTALLED_PREFIXES))


def reported_failure(error: BaseException) -> ReportedFailure:
    """Describes an error. The class, the message and the place are those of the user's error, and not of the runtime's
    errors that wrap it. The task comes from the runtime's errors.
    """
    chain = [error]
    while type(error) in _WRAPPERS and error.__cause__ is not None:
        error = error.__cause__
        chain.append(error)
    tasks = (each.task_id for each in chain if isinstance(each, StreamsRuntimeError))
    task = next((each for each in tasks if each is not None), None)
    records = (each.record for each in chain if isinstance(each, ProcessingFailed))
    position = next((each for each in records if each is not None), None)
    text = error_text(error)
    record = "" if position is None else f"{'; ' if text else ''}the record is {position}"
    line = innermost_line(error)
    place = None if line is None else f"{os.path.basename(line.file)}:{line.line}, in {line.function}"
    return ReportedFailure(
        _cut(class_name(error), MAX_ERROR_LENGTH, MAX_ERROR_BYTES),
        _cut(text, MAX_MESSAGE_LENGTH - len(record), MAX_MESSAGE_BYTES - len(record)) + record,
        None if place is None else _cut(place, MAX_PLACE_LENGTH, MAX_PLACE_BYTES),
        None if task is None else str(task),
    )


def _cut(text: str, longest: int, most_bytes: int) -> str:
    """Returns the text in one line of at most `longest` characters, and of at most `most_bytes` bytes of ASCII JSON."""
    line = one_line(text, longest)
    while len(json.dumps(line)) > most_bytes:
        line = one_line(line, len(line) * 3 // 4)
    return line
