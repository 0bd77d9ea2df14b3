"""Runs a sweep: finds the episodes, makes the forecasts as one job, and then computes and draws the Pareto front."""

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from assignor.errors import InputError
from rebalance_analysis.figures import check_picture_path
from rebalance_analysis.reading.lines import Line
from rebalance_analysis.reading.own_assignors import OwnAssignors
from rebalance_analysis.simulate.model import ForecastModel
from rebalance_analysis.sweep.episodes import Episodes, gather_episodes
from rebalance_analysis.sweep.front_picture import draw_front
from rebalance_analysis.sweep.front_tables import front_document
from rebalance_analysis.sweep.grid import ASSIGNOR, GRID_OPTION, Grid, parse_grid
from rebalance_analysis.sweep.own_measures import OwnMeasures
from rebalance_analysis.sweep.sweep_work import SweepChunk, SweepWork, sweep_plan
from rebalance_analysis.sweep.totals import FRONT_NAME, PLOT_NAME, SweepResult, sweep_result
from rebalance_analysis.what_if import changes_document
from rebalance_analysis.what_if.changes import Changes
from spark_engine.batch import EngineChoice
from spark_engine.batch.output_directory import spool_directory, write_document
from spark_engine.batch.running import run_plan
from spark_engine.batch.work import Plan, RunOutcome

MAX_FORECASTS = 1_000_000


@dataclass(frozen=True, slots=True)
class SweepOrder:
    """The parameters of a sweep. `plot`: the path of the picture; None for a file in `output`."""

    inputs: tuple[str, ...]
    grid: tuple[str, ...]
    changes: Changes
    model: ForecastModel
    max_rounds: int
    output: str
    plot: str | None
    run_by: EngineChoice
    own_measures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishedSweep:
    """A sweep that is complete. `plot`: the path of the picture of the front. `forecasts`: the number of forecasts."""

    result: SweepResult
    outcome: RunOutcome
    front_file: Path
    plot: Path
    forecasts: int


def run_sweep(order: SweepOrder, lines: Iterable[Line], console: Console) -> FinishedSweep:
    """Runs a sweep of the recordings that `lines` contains. `console`: the console that shows the progress. Raises
    InputError if an input cannot be used. Also raises the errors of `run_plan`.
    """
    grid = parse_grid(order.grid)
    own_assignors = OwnAssignors(os.getcwd())
    _check_against_changes(grid, order.changes)
    of_grid = [str(value) for axis in grid.axes if axis.key == ASSIGNOR for value in axis.values]
    own_assignors.check([*of_grid, order.changes.assignor])
    own_measures = OwnMeasures(order.own_measures, os.getcwd())
    own_measures.check()
    directory = Path(order.output)
    with spool_directory(directory) as spool:
        plot = check_picture_path(order.plot or directory / PLOT_NAME)
        episodes = gather_episodes(lines, spool / "episodes")
        plan = _plan(order, grid, episodes, own_assignors, own_measures)
        forecasts = len(grid) * episodes.total
        title = f"{len(grid):,} combinations from {episodes.total:,} episodes"
        outcome = run_plan(plan, directory, order.run_by, console=console, title=title)
    result = sweep_result(grid, outcome.batches(), own_measures.names)
    front_file = directory / FRONT_NAME
    write_document(front_file, front_document(result))
    draw_front(result, plot)
    return FinishedSweep(result, outcome, front_file, plot, forecasts)


def _check_against_changes(grid: Grid, changes: Changes) -> None:
    for key in grid.keys:
        if key in changes.configs or (key == ASSIGNOR and changes.assignor is not None):
            raise InputError(f"{key} is also set by an option; leave it to one of them", GRID_OPTION)


def _plan(
    order: SweepOrder, grid: Grid, episodes: Episodes, own_assignors: OwnAssignors, own_measures: OwnMeasures
) -> Plan[SweepChunk]:
    if not episodes.groups:
        rejected = sum(block.count for block in episodes.rejects)
        raise InputError(
            f"there is no rebalance to start from ({rejected} lines cannot be used)", " ".join(order.inputs)
        )
    forecasts = len(grid) * episodes.total
    if forecasts > MAX_FORECASTS:
        raise InputError(
            f"{len(grid):,} combinations from {episodes.total:,} episodes are {forecasts:,} forecasts; "
            f"one run makes at most {MAX_FORECASTS:,}",
            GRID_OPTION,
        )
    identity: dict[str, object] = {
        "command": "sweep",
        "assignor": version("assignor"),
        "grid": {axis.key: axis.values for axis in grid.axes},
        "episodes": episodes.total,
        "recorded lines": episodes.digest,
        "changes": changes_document(order.changes),
        "model": asdict(order.model),
        "max_rounds": order.max_rounds,
    }
    if own_measures.names:
        identity["own measures"] = own_measures.names
    work = SweepWork(grid, order.model, order.changes, order.max_rounds, own_assignors, own_measures)
    return sweep_plan(work, episodes, identity)
