"""Rows of a sweep made by hand: what each combination came to, for one group or more."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rebalance_analysis.sweep.grid import parse_grid
from rebalance_analysis.sweep.totals import EpisodeTotals, SweepResult, schema_of, sweep_result


@dataclass(frozen=True, slots=True)
class Came:
    """`time_ms`: of each episode; one that is None did not settle. `measured`: by an own measure, of each episode."""

    time_ms: tuple[int | None, ...]
    moves: int = 0
    standbys: int = 0
    skew: int = 0
    cross_rack_reads: int | None = None
    group: str = "g"
    rounds: int = 0
    unowned_ms: int = 0
    measured: tuple[float, ...] = ()


def result_of(grid_text: str, *combinations: Came | Sequence[Came], own_measures: tuple[str, ...] = ()) -> SweepResult:
    """One entry for each combination, in order; several groups as a sequence. Every episode has 10 stateful tasks.
    `own_measures`: one name, or none.
    """
    grid = parse_grid([grid_text])
    rows = []
    for number, came in enumerate(combinations):
        for one in (came,) if isinstance(came, Came) else came:
            settled = [time_ms for time_ms in one.time_ms if time_ms is not None]
            totals = EpisodeTotals(
                episodes=len(one.time_ms),
                settled=len(settled),
                looping=len(one.time_ms) - len(settled),
                time_to_stable_sum_ms=sum(settled),
                time_to_stable_max_ms=max(settled, default=0),
                active_moves=one.moves - one.moves // 4,
                standby_moves=one.moves // 4,
                rounds=one.rounds,
                unowned_ms=one.unowned_ms,
                stateful_tasks=10 * len(one.time_ms),
                standbys=one.standbys,
                skew=one.skew,
                cross_rack_reads=one.cross_rack_reads or 0,
                own_measures=own_measures,
                own_sums=[sum(one.measured)] if one.measured else [],
                measured=len(one.measured),
                racks_known=0 if one.cross_rack_reads is None else len(one.time_ms),
            )
            rows.append(totals.row(one.group, number, grid.axes, grid.combination(number).values))
    batch = pa.RecordBatch.from_pylist(rows, schema_of(grid.axes, own_measures))
    return sweep_result(grid, [batch], own_measures)
