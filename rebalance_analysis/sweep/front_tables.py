"""Makes the output of a sweep: a table of the Pareto front, a table of all combinations, and the document in
`front.json`. In the table, combinations of the front with equal results share a line. For example, all values of
`max.warmup.replicas` from 4 to 16 may give the same result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from rich.console import Group
from rich.table import Table

from assignor.recording.documents import document_of_fields
from rebalance_analysis.presentation.quantities import counted, duration_text
from rebalance_analysis.sweep.grid import ASSIGNOR, Axis, Combination, Grid, Value
from rebalance_analysis.sweep.totals import CombinationTotal, SweepResult
from spark_engine.batch.terminal import plain_table, titled

_MEASURES = ("time to\nstable", "moves", "standbys\nper task", "skew")
_TRAFFIC = "read across\nracks"
"""The heading of the column for traffic across racks. The column for traffic across racks is shown only if the racks of
at least one group are known.
"""
_IN_FULL = (
    "time to\nstable",
    "rounds",
    "active\nmoves",
    "standby\nmoves",
    "warm-\nups",
    "no owner",
    "standbys\nper task",
    "skew",
)
"""Headings of the measures in the table of all combinations."""
_STAR = "*"


def front_table(result: SweepResult) -> Group:
    """Returns the table of the Pareto front, sorted by time to stable. A star marks Kafka's defaults, and a note below
    the table explains the star. If Kafka's defaults are not on the front, the last line of the table shows them.
    """
    blocks = alike_on_front(result)
    table = _table(result, _MEASURES)
    notes = []
    for line, block in enumerate(blocks, start=1):
        number = f"{_STAR} {line}" if result.defaults in block.numbers else str(line)
        table.add_row(number, *block.texts(result.grid), *_measures(result.totals[block.numbers[0]]))
    if result.defaults is not None:
        notes.append(f"{_STAR} Kafka's defaults{_beaten(result, blocks)}")
        if result.defaults not in result.front:
            total = result.totals[result.defaults]
            table.add_row(_STAR, *_values(result, total), *_measures(total))
    return titled(front_title(result), table, *notes)


def full_table(result: SweepResult) -> Group:
    """Returns a table of all combinations with all measures, in the order of the grid. The first column shows which
    combinations are on the front.
    """
    table = _table(result, _IN_FULL)
    for total in result.totals:
        front = "front" if total.combination.number in result.front else ""
        time_to_stable, _, standbys, skew, *others = _measures(total)
        table.add_row(
            front,
            *_values(result, total),
            time_to_stable,
            *(f"{count:,}" for count in (total.rounds, total.active_moves, total.standby_moves, total.warm_ups)),
            duration_text(total.unowned_ms),
            standbys,
            skew,
            *others,
        )
    return titled(_title("All of", result), table)


def _table(result: SweepResult, measures: tuple[str, ...]) -> Table:
    """Returns a table without rows. The first column is for the mark of a row, such as a star."""
    table = plain_table()
    table.add_column("", justify="right" if measures is _MEASURES else "left")
    for heading in (*(key.replace(".", ".\n") for key in result.grid.keys), *_headings(result, measures)):
        table.add_column(heading, justify="right", overflow="fold")
    return table


def _values(result: SweepResult, total: CombinationTotal) -> list[str]:
    axes_and_values = zip(result.grid.axes, total.combination.values, strict=True)
    return [values_text(axis, [value]) for axis, value in axes_and_values]


def front_document(result: SweepResult) -> dict[str, object]:
    """Returns the document for `front.json`. The document has an object for each combination on the front. Runs with
    equal inputs give equal documents.
    """
    defaults = None if result.defaults is None else _document(result, result.totals[result.defaults])
    beaten_by = (
        None if result.better_than_defaults is None else _document(result, result.totals[result.better_than_defaults])
    )
    return {
        "grid": {axis.key: list(axis.values) for axis in result.grid.axes},
        "groups": result.groups,
        "episodes": result.episodes,
        "combinations": len(result.totals),
        "settled": result.settled,
        "front": [_document(result, result.totals[number]) for number in result.front],
        "kafkas_defaults": defaults,
        "kafkas_defaults_on_front": None if result.defaults is None else result.defaults in result.front,
        "kafkas_defaults_beaten_by": beaten_by,
    }


def front_title(result: SweepResult) -> str:
    return _title("Pareto front of", result)


def _title(what: str, result: SweepResult) -> str:
    return (
        f"{what} {counted(len(result.totals), 'combination')} "
        f"over {counted(result.episodes, 'episode')} of {counted(result.groups, 'group')}"
    )


def _measures(total: CombinationTotal) -> tuple[str, ...]:
    time_ms = total.time_to_stable_ms
    settles = f"{total.settled} of {total.episodes} settle" if time_ms is None else duration_text(time_ms)
    traffic = () if total.cross_rack_reads is None else (f"{total.cross_rack_reads:,}",)
    own = ("-" if measure is None else f"{measure:,.2f}" for measure in total.own_measures)
    return settles, f"{total.moves:,}", f"{total.standbys_per_task:.2f}", str(total.skew), *traffic, *own


def _headings(result: SweepResult, measures: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the column headings of the measures. The heading of a user's own measure is the name of its function."""
    own = (name.partition(":")[2].replace("_", "\n") for name in result.own_measures)
    return (*measures, *((_TRAFFIC,) if result.totals[0].cross_rack_reads is not None else ()), *own)


def _beaten(result: SweepResult, blocks: list[AlikeCombinations]) -> str:
    if result.better_than_defaults is None:
        return ""
    line = next(place for place, block in enumerate(blocks, start=1) if result.better_than_defaults in block.numbers)
    return f", beaten by line {line}"


def _document(result: SweepResult, total: CombinationTotal) -> dict[str, object]:
    return {
        "combination": total.combination.number,
        **dict(zip(result.grid.keys, total.combination.values, strict=True)),
        **document_of_fields(total, "time_to_stable_ms", "moves", "standbys", "skew", "cross_rack_reads"),
        **document_of_fields(total, "episodes", "settled", "looping", "rounds"),
        **document_of_fields(total, "active_moves", "standby_moves", "warm_ups", "unowned_ms", "stateful_tasks"),
        **dict(zip(result.own_measures, total.own_measures, strict=True)),
    }


_ASSIGNORS_END = "TaskAssignor"


@dataclass(frozen=True, slots=True)
class AlikeCombinations:
    """Combinations of the front that have equal results. `values`: for each axis, its values in these combinations, in
    order. Every combination of these values is included. `numbers`: the numbers of the combinations.
    """

    numbers: tuple[int, ...]
    values: tuple[tuple[Value, ...], ...]

    def texts(self, grid: Grid) -> tuple[str, ...]:
        """Returns a text for each axis, in the syntax of `--grid`, such as `2`, `4..16` or `a|b`."""
        return tuple(values_text(axis, values) for axis, values in zip(grid.axes, self.values, strict=True))


def alike_on_front(result: SweepResult) -> list[AlikeCombinations]:
    """Returns the combinations on the front, sorted by time to stable. Each element of the list has combinations with
    equal results.
    """
    front = (result.totals[number] for number in result.front)
    by_point = groupby(front, key=lambda total: total.point)
    return [block for _, same in by_point for block in _blocks([each.combination for each in same], result.grid)]


def values_text(axis: Axis, values: Sequence[Value]) -> str:
    """Formats the values of an axis in the syntax of `--grid`. Assignor names are shown without their common suffix
    `TaskAssignor`.
    """
    if axis.key == ASSIGNOR:
        return "|".join(str(value).removesuffix(_ASSIGNORS_END) for value in values)
    places = [axis.values.index(value) for value in values]
    if axis.is_number and len(values) > 2 and all(after == before + 1 for before, after in pairwise(places)):
        return f"{values[0]}..{values[-1]}"
    return "|".join(str(value) for value in values)


def _blocks(combinations: Sequence[Combination], grid: Grid) -> list[AlikeCombinations]:
    """Divides combinations into blocks. A block consists of all combinations of some values of each axis. If the given
    combinations do not form a block, they are divided by the first axis with several values.
    """
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
