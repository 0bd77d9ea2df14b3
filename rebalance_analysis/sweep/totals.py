"""Computes the results of a sweep: the result rows of groups, the totals of combinations over all groups, and the
Pareto front.

The Pareto front compares five measures: time to stable, moves, standbys, skew, and traffic across racks. More standbys
are better. For the other measures, less is better. The traffic across racks includes only groups whose racks are known
with every combination. A point is on the Pareto front if no other point dominates it. One point dominates another point
if it is at least as good in every measure, and better in at least one measure. If an episode does not become stable
with a combination, this combination is not on the Pareto front.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_analysis.simulate.model import End, Forecast
from rebalance_analysis.sweep.grid import Axis, Combination, Grid, Value

Vector = tuple[float, ...]


_EPISODES = ("episodes", "settled", "looping", "rounds")
_COPIES = ("active_moves", "standby_moves", "warm_ups", "unowned_ms", "stateful_tasks", "standbys")
_SUMS = (*_EPISODES, *_COPIES)
_READS = "cross_rack_reads"


@dataclass(frozen=True, slots=True)
class CombinationTotal:
    """The totals of one combination over all groups. `time_to_stable_ms`: the mean over all episodes; None if an
    episode did not become stable. `skew`: the highest skew among the episodes. All other numbers of a CombinationTotal
    are sums over episodes. `standbys`, `stateful_tasks` and `cross_rack_reads` are counted at the end of each episode.
    `cross_rack_reads`: the sum over the groups whose racks are known with every combination; None if there is no such
    group. `own_measures`: the means of the user's own measures over all episodes; None for a measure that a group does
    not have.
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
        """The values that the Pareto front compares: time to stable, moves, standbys, skew and traffic across racks.
        The number of standbys is negated, so less is better for every value. `point` is None if an episode did not
        become stable.
        """
        if self.time_to_stable_ms is None:
            return None
        return (self.time_to_stable_ms, self.moves, -self.standbys, self.skew, self.cross_rack_reads or 0)


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result of a sweep. `totals`: the totals of all combinations, in the order of their numbers. `front`: the
    numbers of the combinations on the front, sorted by time to stable. `defaults`: the number of the combination that
    has Kafka's defaults; None if the grid does not contain this combination. `better_than_defaults`: the number of the
    first combination on the front that is better than Kafka's defaults. `better_than_defaults` is None if the front is
    empty, if the defaults are on the front, or if the grid does not contain the defaults.
    """

    grid: Grid
    groups: int
    totals: tuple[CombinationTotal, ...]
    front: tuple[int, ...]
    defaults: int | None
    better_than_defaults: int | None
    own_measures: tuple[str, ...] = ()
    """The names of the user's own measures, in the order of their values in the totals."""

    @property
    def episodes(self) -> int:
        return self.totals[0].episodes

    @property
    def settled(self) -> int:
        """The number of combinations with which all episodes become stable."""
        return sum(1 for total in self.totals if total.point is not None)


def sweep_result(grid: Grid, batches: Iterable[pa.RecordBatch], own_measures: tuple[str, ...] = ()) -> SweepResult:
    """Computes the result of a sweep. `batches`: batches of rows that `EpisodeTotals.row` made. Every group has a row
    for every combination.
    """
    means = ("time_to_stable_ms", *own_measures)
    table = pa.Table.from_batches(batches).select(["group_id", "combination", _READS, "skew", *_SUMS, *means])
    for name in means:  # Convert the means over the episodes of a group back to sums.
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pc.multiply(table[name], table["episodes"]))
    unless_null = pc.ScalarAggregateOptions(skip_nulls=False)
    sums = [*((name, "sum") for name in _SUMS), *((name, "sum", unless_null) for name in means), ("skew", "max")]
    by_combination = table.group_by("combination", use_threads=False).aggregate(sums).sort_by("combination")
    groups = table.group_by("group_id").aggregate([(_READS, "count")]).to_pylist()
    reads = _reads_of(table, [group["group_id"] for group in groups if group[f"{_READS}_count"] == len(grid)])
    totals = tuple(
        CombinationTotal(
            grid.combination(row["combination"]),
            **{name: row[f"{name}_sum"] for name in _SUMS},
            time_to_stable_ms=_mean(row, "time_to_stable_ms"),
            skew=row["skew_max"],
            cross_rack_reads=reads.get(row["combination"]),
            own_measures=tuple(_mean(row, name) for name in own_measures),
        )
        for row in by_combination.to_pylist()
    )
    front = _front(totals)
    defaults = grid.kafkas_defaults()
    return SweepResult(
        grid, len(groups), totals, front, defaults, _better_than_defaults(totals, front, defaults), own_measures
    )


def _reads_of(table: pa.Table, groups: list[str]) -> dict[int, int]:
    """Returns, for each combination, the sum of the reads across racks. `groups`: the groups to include. The racks of
    these groups are known with every combination.
    """
    known = table.filter(pc.is_in(table["group_id"], pa.array(groups, pa.string())))
    sums = known.group_by("combination").aggregate([(_READS, "sum")]).to_pylist()
    return {row["combination"]: row[f"{_READS}_sum"] for row in sums}


def _mean(row: Mapping[str, Any], name: str) -> float | None:
    total: float | None = row[f"{name}_sum"]
    return None if total is None else total / max(1, row["episodes_sum"])


def _front(totals: Sequence[CombinationTotal]) -> tuple[int, ...]:
    points = {total.combination.number: total.point for total in totals if total.point is not None}
    numbers = list(points)
    on_front = [numbers[index] for index in pareto_front(list(points.values()))]
    # if times and moves are equal, the combination with fewer standbys comes first
    return tuple(sorted(on_front, key=lambda number: (points[number][:2], totals[number].standbys, points[number][3:])))


def _better_than_defaults(totals: Sequence[CombinationTotal], front: Sequence[int], defaults: int | None) -> int | None:
    if defaults is None or defaults in front:
        return None
    beaten = totals[defaults].point
    if beaten is None:
        return front[0] if front else None
    points = ((number, totals[number].point) for number in front)
    return next(number for number, point in points if point is not None and dominates(point, beaten))


def pareto_front(points: Sequence[Vector]) -> list[int]:
    """Returns the indices of the points on the front, in ascending order. If a point is on the front, all equal points
    are on the front, too. If the points are sorted, only an earlier point can dominate a point. Each point that is not
    on the front is dominated by a point on the front. So n points need n * (size of the front) comparisons.
    """
    kept: list[Vector] = []
    for point in sorted(set(points)):
        if not any(_no_worse(other, point) for other in kept):
            kept.append(point)
    front = set(kept)
    return [index for index, point in enumerate(points) if point in front]


def dominates(one: Vector, other: Vector) -> bool:
    """True if the first point is at least as good as the second in every measure, and better in at least one."""
    return one != other and _no_worse(one, other)


def _no_worse(one: Vector, other: Vector) -> bool:
    return all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


TIMING_COLUMNS = ("group_id", "combination")
FRONT_NAME = "front.json"
PLOT_NAME = "pareto.svg"

_BEFORE_AXES = (("group_id", pa.string()), ("combination", pa.int64()))
_AFTER_AXES = (
    *((name, pa.int64()) for name in ("episodes", "settled", "looping")),
    ("time_to_stable_ms", pa.float64()),
    ("time_to_stable_max_ms", pa.int64()),
    *((name, pa.int64()) for name in ("rounds", "probing_rounds", "active_moves", "standby_moves", "warm_ups")),
    *((name, pa.int64()) for name in ("unowned_ms", "stateful_tasks", "standbys")),
    ("standby_coverage", pa.float64()),
    ("skew", pa.int64()),
    ("cross_rack_reads", pa.int64()),
    ("error", pa.string()),
    ("compute_ms", pa.float64()),
)


def schema_of(axes: Sequence[Axis], own_measures: Sequence[str] = ()) -> pa.Schema:
    """Returns the columns of the result rows. Each axis has a column with its dotted name. Each of the user's own
    measures has a column with its name.
    """
    values = tuple((axis.key, pa.int64() if axis.is_number else pa.string()) for axis in axes)
    return pa.schema([*_BEFORE_AXES, *values, *_AFTER_AXES, *((name, pa.float64()) for name in own_measures)])


@dataclass(slots=True)
class EpisodeTotals:
    """The totals over all episodes of one group with one combination.

    Times are in milliseconds. `time_to_stable_max_ms` and `skew` are the highest values among the episodes. All other
    numbers of these totals are sums. `stateful_tasks`, `standbys` and `cross_rack_reads` are counted at the end of each
    episode. `racks_known`: the number of episodes whose racks are known. `cross_rack_reads` includes only episodes with
    known racks. `coverage_sum`: the sum of the standby coverages. `coverages`: the number of episodes in
    `coverage_sum`. A result row has the mean of the standby coverages. If no forecast could be made from an episode,
    only `episodes` counts it. `error`: the first error of an episode. `own_sums`: the sums of the user's own measures.
    `measured`: the number of episodes in `own_sums`. A result row has the means of the user's own measures. If
    `measured` is 0, these means are null.
    """

    episodes: int = 0
    settled: int = 0
    looping: int = 0
    time_to_stable_sum_ms: int = 0
    time_to_stable_max_ms: int = 0
    rounds: int = 0
    probing_rounds: int = 0
    active_moves: int = 0
    standby_moves: int = 0
    warm_ups: int = 0
    unowned_ms: int = 0
    stateful_tasks: int = 0
    standbys: int = 0
    coverages: int = 0
    coverage_sum: float = 0.0
    skew: int = 0
    cross_rack_reads: int = 0
    racks_known: int = 0
    error: str | None = None
    compute_ms: float = 0.0
    own_measures: tuple[str, ...] = ()
    own_sums: list[float] = field(default_factory=list)
    measured: int = 0

    def add(self, forecast: Forecast, standbys_wanted: int) -> None:
        """Adds the forecast of one episode to the totals. `standbys_wanted`: the value of num.standby.replicas."""
        self.episodes += 1
        self.error = self.error or forecast.error
        if forecast.end is End.STABLE and forecast.stable_after_ms is not None:
            self.settled += 1
            self.time_to_stable_sum_ms += forecast.stable_after_ms
            self.time_to_stable_max_ms = max(self.time_to_stable_max_ms, forecast.stable_after_ms)
        self.looping += forecast.end is End.LOOP
        self.rounds += len(forecast.rebalances)
        self.probing_rounds += forecast.probing_rounds
        self.active_moves += forecast.active_moves
        self.standby_moves += forecast.standby_moves
        self.warm_ups += forecast.warm_ups
        self.unowned_ms += forecast.unowned_ms
        if forecast.own_measures:
            before = self.own_sums or [0.0] * len(forecast.own_measures)
            self.own_sums = [sum(pair) for pair in zip(before, forecast.own_measures, strict=True)]
            self.measured += 1
        final = forecast.final
        if final is None:
            return
        self.stateful_tasks += final.stateful_tasks
        self.skew = max(self.skew, final.skew)
        if final.cross_rack_reads is not None:
            self.racks_known += 1
            self.cross_rack_reads += final.cross_rack_reads
        if final.standby_coverage is not None:
            self.coverages += 1
            self.coverage_sum += final.standby_coverage
            self.standbys += round(final.standby_coverage * final.stateful_tasks * standbys_wanted)

    def add_failure(self, reason: str) -> None:
        self.episodes += 1
        self.error = self.error or reason

    def row(self, group_id: str, number: int, axes: Sequence[Axis], values: Sequence[Value]) -> dict[str, object]:
        """Returns the result row. If an episode did not become stable, the row has no time to stable."""
        all_settled = 0 < self.episodes == self.settled
        return {
            "group_id": group_id,
            "combination": number,
            **{axis.key: value for axis, value in zip(axes, values, strict=True)},
            **{name: getattr(self, name) for name in (*_SUMS, "probing_rounds", "skew", "error", "compute_ms")},
            "time_to_stable_ms": self.time_to_stable_sum_ms / self.episodes if all_settled else None,
            "time_to_stable_max_ms": self.time_to_stable_max_ms if all_settled else None,
            "standby_coverage": self.coverage_sum / self.coverages if self.coverages else None,
            "cross_rack_reads": self.cross_rack_reads if 0 < self.episodes == self.racks_known else None,
            **{name: total / self.measured for name, total in zip(self.own_measures, self.own_sums, strict=False)},
        }
