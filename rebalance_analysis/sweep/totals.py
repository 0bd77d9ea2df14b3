"""What each combination comes to over all groups, and which combinations are on the Pareto front.

The front is over time to stable and moves (less is better), standbys (more), skew and traffic across racks (less); the
last of groups whose racks are known under every combination. A point is on the front
when no other point is as good in every measure and better in one. A combination under which some episode never settles
is not on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from rebalance_analysis.sweep.grid import Combination, Grid

Vector = tuple[float, ...]


class Better(Enum):
    """The better direction of a measure."""

    LESS = 1
    MORE = -1


DIRECTIONS = (Better.LESS, Better.LESS, Better.MORE, Better.LESS, Better.LESS)
"""For time to stable, moves, standbys, skew, traffic across racks."""

_SUMS = (
    "episodes",
    "settled",
    "looping",
    "rounds",
    "active_moves",
    "standby_moves",
    "warm_ups",
    "unowned_ms",
    "stateful_tasks",
    "standbys",
)
_OTHERS = ("group_id", "combination", "time_to_stable_ms", "skew", "cross_rack_reads")


@dataclass(frozen=True, slots=True)
class CombinationTotal:
    """Over all groups. `time_to_stable_ms`: the mean over all episodes, None unless all settled. `skew`: the worst.

    All other fields are sums. `standbys`, `stateful_tasks` and `cross_rack_reads` are counted at the end of each
    episode; the latter in groups whose racks are known under every combination, None when there is none.
    `own_measures`: the user's, means over all episodes; None where one could not be taken of every group.
    """

    combination: Combination
    episodes: int
    settled: int
    looping: int
    rounds: int
    time_to_stable_ms: float | None
    active_moves: int
    standby_moves: int
    warm_ups: int
    unowned_ms: int
    stateful_tasks: int
    standbys: int
    skew: int
    cross_rack_reads: int | None = None
    own_measures: tuple[float | None, ...] = ()

    @property
    def moves(self) -> int:
        return self.active_moves + self.standby_moves

    @property
    def standbys_per_task(self) -> float:
        return self.standbys / self.stateful_tasks if self.stateful_tasks else 0.0

    @property
    def point(self) -> Vector | None:
        if self.time_to_stable_ms is None:
            return None
        return (self.time_to_stable_ms, self.moves, self.standbys, self.skew, self.cross_rack_reads or 0)


@dataclass(frozen=True, slots=True)
class SweepResult:
    """`totals`: all combinations by number. `front`: numbers, quickest to settle first. `defaults`: the combination of
    Kafka's defaults, None when it is not in the grid. `beats_defaults`: the first of the front that beats it, None when
    it is on the front itself.
    """

    grid: Grid
    groups: int
    totals: tuple[CombinationTotal, ...]
    front: tuple[int, ...]
    defaults: int | None
    beats_defaults: int | None
    own_measures: tuple[str, ...] = ()
    """The names of the user's own measures, which the totals have in this order."""

    @property
    def episodes(self) -> int:
        return self.totals[0].episodes

    @property
    def settled(self) -> int:
        """How many combinations let every episode settle."""
        return sum(1 for total in self.totals if total.point is not None)


@dataclass(slots=True)
class _Sums:
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    time_ms: float = 0.0
    skew: int = 0
    own_measures: tuple[str, ...] = ()
    own: dict[str, float | None] = field(default_factory=dict)

    def add(self, row: Mapping[str, object]) -> None:
        for name in _SUMS:
            self.counts[name] += _whole(row[name])
        time_ms = row["time_to_stable_ms"]
        if isinstance(time_ms, float):
            self.time_ms += time_ms * _whole(row["episodes"])
        self.skew = max(self.skew, _whole(row["skew"]))
        for name in self.own_measures:
            so_far, found = self.own.get(name, 0.0), row[name]
            if so_far is None or not isinstance(found, float):
                self.own[name] = None
            else:
                self.own[name] = so_far + found * _whole(row["episodes"])

    def total(self, combination: Combination, cross_rack_reads: int | None) -> CombinationTotal:
        settled = 0 < self.counts["episodes"] == self.counts["settled"]
        time_ms = self.time_ms / self.counts["episodes"] if settled else None
        return CombinationTotal(
            combination,
            time_to_stable_ms=time_ms,
            skew=self.skew,
            cross_rack_reads=cross_rack_reads,
            own_measures=tuple(self._mean(self.own.get(name)) for name in self.own_measures),
            **self.counts,
        )

    def _mean(self, total: float | None) -> float | None:
        return None if total is None else total / max(1, self.counts["episodes"])


def sweep_result(grid: Grid, batches: Iterable[pa.RecordBatch], own_measures: tuple[str, ...] = ()) -> SweepResult:
    """`batches`: of rows as `EpisodeTotals.row` makes them, with one row for every group and combination."""
    sums = [_Sums(own_measures=own_measures) for _ in range(len(grid))]
    groups: set[str] = set()
    reads: dict[str, dict[int, int]] = {}  # by group, then by combination
    for batch in batches:
        for row in batch.select([*_OTHERS, *_SUMS, *own_measures]).to_pylist():
            groups.add(row["group_id"])
            sums[row["combination"]].add(row)
            if row["cross_rack_reads"] is not None:
                reads.setdefault(row["group_id"], {})[row["combination"]] = row["cross_rack_reads"]
    everywhere = [by_combination for by_combination in reads.values() if len(by_combination) == len(grid)]
    totals = tuple(
        each.total(
            grid.combination(number),
            sum(by_combination[number] for by_combination in everywhere) if everywhere else None,
        )
        for number, each in enumerate(sums)
    )
    front = _front(totals)
    defaults = grid.kafkas_defaults()
    beats = _beats(totals, front, defaults)
    return SweepResult(grid, len(groups), totals, front, defaults, beats, own_measures)


def _front(totals: Sequence[CombinationTotal]) -> tuple[int, ...]:
    points = {total.combination.number: total.point for total in totals if total.point is not None}
    numbers = list(points)
    on_front = [numbers[index] for index in pareto_front(list(points.values()), DIRECTIONS)]
    return tuple(sorted(on_front, key=lambda number: (points[number], number)))


def _beats(totals: Sequence[CombinationTotal], front: Sequence[int], defaults: int | None) -> int | None:
    if defaults is None or defaults in front:
        return None
    beaten = totals[defaults].point
    if beaten is None:
        return front[0] if front else None
    points = ((number, totals[number].point) for number in front)
    return next(number for number, point in points if point is not None and dominates(point, beaten, DIRECTIONS))


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value


def pareto_front(vectors: Sequence[Vector], directions: Sequence[Better]) -> list[int]:
    """The indices of the points on the front, ascending. Equal points are all on it, or none is.

    In sorted order a point can be beaten only by an earlier one, and then by one of the front: n · front steps.
    """
    signed = [_signed(vector, directions) for vector in vectors]
    kept: list[Vector] = []
    for vector in sorted(set(signed)):
        if not any(_no_worse(other, vector) for other in kept):
            kept.append(vector)
    front = set(kept)
    return [index for index, vector in enumerate(signed) if vector in front]


def dominates(one: Vector, other: Vector, directions: Sequence[Better]) -> bool:
    """Whether `one` is as good in every measure and better in some."""
    return one != other and _no_worse(_signed(one, directions), _signed(other, directions))


def _signed(vector: Vector, directions: Sequence[Better]) -> Vector:
    return tuple(value * direction.value for value, direction in zip(vector, directions, strict=True))


def _no_worse(one: Vector, other: Vector) -> bool:
    return all(mine <= theirs for mine, theirs in zip(one, other, strict=True))
