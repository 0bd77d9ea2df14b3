"""One row of a sweep: what a group's episodes came to under one combination; and the schema of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rebalance_analysis.simulate.model import End, Forecast
from rebalance_analysis.sweep.grid import Axis, Value

TIMING_COLUMNS = ("group_id", "combination")
FRONT_NAME = "front.json"
PLOT_NAME = "pareto.svg"

_BEFORE_AXES = (("group_id", pa.string()), ("combination", pa.int64()))
_AFTER_AXES = (
    ("episodes", pa.int64()),
    ("settled", pa.int64()),
    ("looping", pa.int64()),
    ("time_to_stable_ms", pa.float64()),
    ("time_to_stable_max_ms", pa.int64()),
    ("rounds", pa.int64()),
    ("probing_rounds", pa.int64()),
    ("active_moves", pa.int64()),
    ("standby_moves", pa.int64()),
    ("warm_ups", pa.int64()),
    ("unowned_ms", pa.int64()),
    ("stateful_tasks", pa.int64()),
    ("standbys", pa.int64()),
    ("standby_coverage", pa.float64()),
    ("skew", pa.int64()),
    ("cross_rack_reads", pa.int64()),
    ("error", pa.string()),
    ("compute_ms", pa.float64()),
)


def schema_of(axes: Sequence[Axis], own_measures: Sequence[str] = ()) -> pa.Schema:
    """Each axis has a column of its own name, dots included, and so has each of the user's own measures."""
    values = tuple((axis.key, pa.int64() if axis.is_number else pa.string()) for axis in axes)
    return pa.schema([*_BEFORE_AXES, *values, *_AFTER_AXES, *((name, pa.float64()) for name in own_measures)])


@dataclass(slots=True)
class EpisodeTotals:
    """All episodes of one group under one combination, added up.

    Times are milliseconds; `time_to_stable_max_ms` and `skew` are of the worst episode, `standby_coverage` is the mean,
    all else are sums. `stateful_tasks` and `standbys` are counted at each episode's end: tasks, and copies that stand
    by for them; so is `cross_rack_reads`, in the `racks_known` episodes. An episode whose forecast failed counts as an
    episode and nowhere else; `error` is the first reason. `own_sums`: of the user's own measures, in the `measured`
    episodes; a row has their means, and none when there was none.
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
        """`standbys_wanted`: num.standby.replicas."""
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
        """A time to stable is given only when every episode settled."""
        all_settled = 0 < self.episodes == self.settled
        return {
            "group_id": group_id,
            "combination": number,
            **{axis.key: value for axis, value in zip(axes, values, strict=True)},
            "episodes": self.episodes,
            "settled": self.settled,
            "looping": self.looping,
            "time_to_stable_ms": self.time_to_stable_sum_ms / self.episodes if all_settled else None,
            "time_to_stable_max_ms": self.time_to_stable_max_ms if all_settled else None,
            "rounds": self.rounds,
            "probing_rounds": self.probing_rounds,
            "active_moves": self.active_moves,
            "standby_moves": self.standby_moves,
            "warm_ups": self.warm_ups,
            "unowned_ms": self.unowned_ms,
            "stateful_tasks": self.stateful_tasks,
            "standbys": self.standbys,
            "standby_coverage": self.coverage_sum / self.coverages if self.coverages else None,
            "skew": self.skew,
            "cross_rack_reads": self.cross_rack_reads if 0 < self.episodes == self.racks_known else None,
            "error": self.error,
            "compute_ms": self.compute_ms,
            **{name: total / self.measured for name, total in zip(self.own_measures, self.own_sums, strict=False)},
        }
