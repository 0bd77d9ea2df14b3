"""Combinations with equal results, shown together: `max.warmup.replicas` 4 to 16 may all come to the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rebalance_analysis.sweep.grid import ASSIGNOR, Axis, Combination, Grid, Value
from rebalance_analysis.sweep.totals import SweepResult

_ASSIGNORS_END = "TaskAssignor"


@dataclass(frozen=True, slots=True)
class AlikeCombinations:
    """All combinations of these `values`: for each axis some of its values, in its order."""

    numbers: tuple[int, ...]
    values: tuple[tuple[Value, ...], ...]

    def texts(self, grid: Grid) -> tuple[str, ...]:
        """One text for each axis, in the form of `--grid`: `2`, `4..16`, `a|b`."""
        return tuple(values_text(axis, values) for axis, values in zip(grid.axes, self.values, strict=True))


def alike_on_front(result: SweepResult) -> list[AlikeCombinations]:
    """The front, quickest to settle first. Combinations with one point form as few blocks as possible."""
    blocks: list[AlikeCombinations] = []
    of_a_point: list[int] = []
    for number in result.front:
        if of_a_point and result.totals[of_a_point[0]].point != result.totals[number].point:
            blocks += _blocks([result.totals[each].combination for each in of_a_point], result.grid)
            of_a_point = []
        of_a_point.append(number)
    return blocks + _blocks([result.totals[each].combination for each in of_a_point], result.grid)


def values_text(axis: Axis, values: Sequence[Value]) -> str:
    """Assignor names are shown without their common ending."""
    if axis.key == ASSIGNOR:
        return "|".join(str(value).removesuffix(_ASSIGNORS_END) for value in values)
    places = [axis.values.index(value) for value in values]
    if axis.is_number and len(values) > 2 and all(after == before + 1 for before, after in pairwise(places)):
        return f"{values[0]}..{values[-1]}"
    return "|".join(str(value) for value in values)


def _blocks(combinations: Sequence[Combination], grid: Grid) -> list[AlikeCombinations]:
    """Split along the first axis until each block is a full product of values."""
    if not combinations:
        return []
    taken = [{combination.values[place] for combination in combinations} for place in range(len(grid.axes))]
    if len(combinations) == math.prod(len(values) for values in taken):
        ordered = tuple(
            tuple(value for value in axis.values if value in values)
            for axis, values in zip(grid.axes, taken, strict=True)
        )
        return [AlikeCombinations(tuple(combination.number for combination in combinations), ordered)]
    place = next(place for place, values in enumerate(taken) if len(values) > 1)
    blocks: list[AlikeCombinations] = []
    for value in grid.axes[place].values:
        blocks += _blocks([each for each in combinations if each.values[place] == value], grid)
    return blocks
