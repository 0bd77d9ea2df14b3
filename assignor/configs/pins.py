"""Weights and pins: rules for single tasks, set by a user. A pin restricts the clients that may have copies of a task.

Weights and pins are in the configs of a group, under this project's own keys (`assignment_configs.py`). Only
MinimalMovementTaskAssignor uses weights and pins. A pin selects one task (`0_3`, `name__0_3`), the tasks of a
subtopology (`0_*`, `name__0_*`), or all tasks (`*`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assignor.configs.strict_json import strict_json
from assignor.errors import InputError
from assignor.types import TaskId

RESTORE_SIZE = "restore-size"
"""With this value of the config `minimal.movement.task.weights`, the weight of a task is the number of records in its
state.
"""

APART_BY_PROCESS = "process"
"""With this value of the field `apart` of a pin, copies go to different processes. Any other value of `apart` is the
key of a client tag.
"""

HEAVIEST_WEIGHT = 1e15
_EVERY_TASK = "*"


class TaskPattern(NamedTuple):
    """A pattern of task ids. A field that is None matches any number: `TaskPattern(0, None)` is `0_*`, and
    `TaskPattern(None, None)` is `*`.
    """

    subtopology: int | None
    partition: int | None
    topology_name: str | None = None

    @classmethod
    def parse(cls, text: str) -> TaskPattern:
        """Parses `0_3`, `0_*`, `name__0_*` or `*`. Raises InputError if the text is not a pattern of task ids."""
        if text == _EVERY_TASK:
            return cls(None, None)
        try:
            if text.endswith("_*"):
                task = TaskId.parse(f"{text[:-1]}0")
                return cls(task.subtopology, None, task.topology_name)
            return cls(*TaskId.parse(text))
        except ValueError:
            raise InputError("must be a task such as 0_3, a subtopology such as 0_*, or *") from None

    def matches(self, task: TaskId) -> bool:
        if self.subtopology is None:
            return True
        if (self.subtopology, self.topology_name) != (task.subtopology, task.topology_name):
            return False
        return self.partition is None or self.partition == task.partition

    def __str__(self) -> str:
        if self.subtopology is None:
            return _EVERY_TASK
        plain = f"{self.subtopology}_{_EVERY_TASK if self.partition is None else self.partition}"
        return plain if self.topology_name is None else f"{self.topology_name}__{plain}"


@dataclass(frozen=True, slots=True)
class Pin:
    """A rule for the tasks that match one of the patterns in `tasks`. Either `tags` or `apart` is set, but not both.

    `tags`: the tags that a client must have to get copies of the tasks. `apart`: the key of a client tag, or
    APART_BY_PROCESS. If `apart` is a key, all copies of all tasks of the pin go to clients with different values of the
    tag. If `apart` is APART_BY_PROCESS, all copies go to different processes.
    """

    tasks: tuple[TaskPattern, ...]
    tags: tuple[tuple[str, str], ...] = ()
    apart: str | None = None

    def names(self, task: TaskId) -> bool:
        return any(pattern.matches(task) for pattern in self.tasks)


@dataclass(frozen=True, slots=True)
class TaskWeights:
    """The weights of tasks. `by_restore_size`: True if the weights are the sizes of the changelogs; `weights` is then
    empty. If `by_restore_size` is False, a task without an entry in `weights` has the weight 1.
    """

    weights: tuple[tuple[TaskId, float], ...] = ()
    by_restore_size: bool = False


def weights_from(value: object, where: str) -> TaskWeights | None:
    """Reads weights from RESTORE_SIZE, from a JSON object, or from the text of a JSON object. None stands for equal
    weights of all tasks, both as the argument and as the result. Raises InputError.
    """
    if value is None:
        return None
    if value == RESTORE_SIZE:
        return TaskWeights(by_restore_size=True)
    value = _from_json_text(value, where)
    if not isinstance(value, Mapping):
        raise InputError(f"must be an object of tasks and their weights, or the text {RESTORE_SIZE!r}", where)
    weights: dict[TaskId, float] = {}
    for key, weight in value.items():
        at = f"{where}.{_shortened(str(key))}"
        try:
            task = TaskId.parse(str(key))
        except ValueError:
            raise InputError("must be a task such as 0_3", at) from None
        if task in weights:
            raise InputError(f"gives task {task} twice", where)
        weights[task] = _weight(weight, at)
    return TaskWeights(tuple(sorted(weights.items(), key=lambda entry: (entry[0].topology_name or "", entry[0][:2]))))


def weights_document(weights: TaskWeights) -> object:
    """Returns the weights as JSON data, from which `weights_from` reads the same weights."""
    return RESTORE_SIZE if weights.by_restore_size else {str(task): weight for task, weight in weights.weights}


def pins_from(value: object, where: str) -> tuple[Pin, ...]:
    """Reads pins from a list of JSON objects, or from the text of a JSON list; None stands for no pins. Raises
    InputError with the path of the faulty field.
    """
    if value is None:
        return ()
    value = _from_json_text(value, where)
    if not isinstance(value, (list, tuple)):
        raise InputError('must be a list of pins such as {"tasks": ["0_*"], "tags": {"zone": "a"}}', where)
    return tuple(_pin(entry, f"{where}[{number}]") for number, entry in enumerate(value))


def pins_document(pins: Iterable[Pin]) -> list[dict[str, object]]:
    """Returns the pins as JSON data, from which `pins_from` reads the same pins."""
    return [
        {
            "tasks": [str(pattern) for pattern in pin.tasks],
            **({"tags": dict(pin.tags)} if pin.apart is None else {"apart": pin.apart}),
        }
        for pin in pins
    ]


def _pin(value: object, where: str) -> Pin:
    if not isinstance(value, Mapping):
        raise InputError("must be an object with tasks, and tags or apart", where)
    unknown = [key for key in value if key not in ("tasks", "tags", "apart")]
    if unknown:
        raise InputError(f"has an unknown field {_shortened(repr(unknown[0]))}; known are tasks, tags, apart", where)
    if ("tags" in value) == ("apart" in value):
        raise InputError("needs either tags or apart, and not both", where)
    tasks = _patterns(value.get("tasks"), f"{where}.tasks")
    if "tags" in value:
        return Pin(tasks, tags=_tags(value["tags"], f"{where}.tags"))
    apart = value["apart"]
    if not isinstance(apart, str) or not apart:
        raise InputError(f"must be the key of a client tag, or {APART_BY_PROCESS!r}", f"{where}.apart")
    return Pin(tasks, apart=apart)


def _patterns(value: object, where: str) -> tuple[TaskPattern, ...]:
    if not isinstance(value, (list, tuple)) or not value:
        raise InputError('must be a list of tasks such as ["0_3", "1_*"]', where)
    patterns: list[TaskPattern] = []
    for number, entry in enumerate(value):
        if not isinstance(entry, str):
            raise InputError(f"must be text, not {_shortened(repr(entry))}", f"{where}[{number}]")
        try:
            patterns.append(TaskPattern.parse(entry))
        except ValueError as error:
            raise InputError(f"{error}, not {_shortened(repr(entry))}", f"{where}[{number}]") from None
    return tuple(patterns)


def _tags(value: object, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping) or not value:
        raise InputError('must be an object of client tags such as {"zone": "a"}', where)
    for key, tag in value.items():
        if not isinstance(key, str) or not key or not isinstance(tag, str):
            raise InputError("must have text as keys and as values", where)
    return tuple(sorted(value.items()))


def _weight(value: object, where: str) -> float:
    message = f"must be a number above 0 and up to {HEAVIEST_WEIGHT:.0e}, not {_shortened(_shown(value))}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(message, where)
    if not 0 < value <= HEAVIEST_WEIGHT or not math.isfinite(value):
        raise InputError(message, where)
    return value


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return repr(value)


def _from_json_text(value: object, where: str) -> object:
    """Parses text as JSON, because a shell passes weights and pins as text. A value that is not text stays
    unchanged.
    """
    if not isinstance(value, str):
        return value
    try:
        return strict_json(value)
    except RecursionError:
        raise InputError("is nested too deeply", where) from None
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", where) from None


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
