"""Parses the grid of a sweep, such as `--grid max.warmup.replicas=1..16,num.standby.replicas=0..2`. A grid has axes,
separated by commas. An axis is a config under Kafka's dotted name, or `assignor`. The values of an axis are separated
by bars, such as `1..4|8|16`. A bar separates two entries. An entry is a single value or a range of whole numbers, such
as `1..16` or `1..16:3` (every third number). Combinations are numbered in the order of nested loops. The first axis is
the outermost loop. So a number means the same combination in every run.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assignor.configs import RACK_AWARE_ASSIGNMENT_STRATEGY, RACK_AWARE_ASSIGNMENT_TAGS, AssignmentConfigs
from assignor.errors import InputError
from assignor.recording import dotted_configs
from assignor.recording.fields import as_assignor, as_configs

ASSIGNOR = "assignor"
KAFKAS_ASSIGNOR = "HighAvailabilityTaskAssignor"
MAX_COMBINATIONS = 1_000_000
GRID_OPTION = "--grid"

Value = int | str

_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_RANGE = re.compile(r"([+-]?\d{1,19})\.\.([+-]?\d{1,19})(?::(\d{1,19}))?", re.ASCII)
_TEXT_KEYS = (ASSIGNOR, RACK_AWARE_ASSIGNMENT_STRATEGY, RACK_AWARE_ASSIGNMENT_TAGS)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a grid. `values`: the values without duplicates, in the given order. The values are either all whole
    numbers or all texts.
    """

    key: str
    values: tuple[Value, ...]

    @property
    def is_number(self) -> bool:
        return isinstance(self.values[0], int)


@dataclass(frozen=True, slots=True)
class Combination:
    """One combination of a grid. `number`: the number of the combination in the grid; the first combination has number
    0. `values`: one value for each axis.
    """

    number: int
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.axes)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(axis.key for axis in self.axes)

    def combination(self, number: int) -> Combination:
        values: list[Value] = []
        rest = number
        for axis in reversed(self.axes):
            rest, place = divmod(rest, len(axis.values))
            values.append(axis.values[place])
        return Combination(number, tuple(reversed(values)))

    def kafkas_defaults(self) -> int | None:
        """Returns the number of the combination of Kafka's default values; None if the grid does not contain this
        combination.
        """
        defaults: Mapping[str, object] = {**dotted_configs(AssignmentConfigs()), ASSIGNOR: KAFKAS_ASSIGNOR}
        number = 0
        for axis in self.axes:
            if axis.key not in defaults or defaults[axis.key] not in axis.values:
                return None
            number = number * len(axis.values) + list[object](axis.values).index(defaults[axis.key])
        return number


def parse_grid(texts: Sequence[str]) -> Grid:
    """Parses all options `--grid` into one grid. Raises InputError if the grid is not valid. The error names the key
    and the problem.
    """
    axes: dict[str, Axis] = {}
    for text in texts:
        for part in text.split(","):
            axis = _axis(part.strip())
            if axis.key in axes:
                raise InputError(f"{axis.key} is given twice", GRID_OPTION)
            axes[axis.key] = axis
    grid = Grid(tuple(axes.values()))
    if len(grid) > MAX_COMBINATIONS:
        raise InputError(f"has {len(grid):,} combinations; one run tries at most {MAX_COMBINATIONS:,}", GRID_OPTION)
    return grid


def _axis(text: str) -> Axis:
    key, equals, written = (part.strip() for part in text.partition("="))
    # refuse characters that cannot be printed: they are never valid, and they would garble the error message
    if not equals or not key or not text.isprintable():
        raise InputError(f"an axis is key=values, such as max.warmup.replicas=1..16, not {_shown(text)}", GRID_OPTION)
    values: dict[Value, None] = {}
    for piece in written.split("|"):
        for value in _values(key, piece.strip()):
            if value in values:
                raise InputError(f"{key} has the value {value} twice", GRID_OPTION)
            values[value] = None
    numbers = all(isinstance(value, int) for value in values)
    return Axis(key, tuple(values) if numbers else tuple(str(value) for value in values))


def _values(key: str, piece: str) -> Sequence[Value]:
    if not piece:
        raise InputError(f"{key} has an empty value", GRID_OPTION)
    numeric = key not in _TEXT_KEYS
    span = _RANGE.fullmatch(piece) if numeric else None
    if span is None:
        only: Value = int(piece) if numeric and _NUMBER.fullmatch(piece) else piece
        _check(key, only)
        return (only,)
    first, last, step = int(span[1]), int(span[2]), int(span[3] or 1)
    _check(key, first)
    if first > last:
        raise InputError(f"{key}: the range {piece} is empty; write the lower value first", GRID_OPTION)
    if step == 0:
        raise InputError(f"{key}: {piece} needs a step of at least 1", GRID_OPTION)
    if (last - first) // step >= MAX_COMBINATIONS:
        raise InputError(f"{key}: {piece} is more than {MAX_COMBINATIONS:,} values", GRID_OPTION)
    values = range(first, last + 1, step)
    for value in (
        last,
        *((0,) if 0 in values else ()),
    ):  # check 0 too, because it can be invalid between valid values: replication.factor allows -1 and 1
        _check(key, value)
    return values


def _check(key: str, value: Value) -> None:
    """Raises InputError for a value that would not be valid in the field `configs` or `assignor` of a recording."""
    if key == ASSIGNOR:
        as_assignor(value, f"{GRID_OPTION} {ASSIGNOR}")
    else:
        as_configs({key: value}, GRID_OPTION)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
