"""`assignor sweep`: every combination of a grid, forecast from every episode of every recorded group, as one job."""

from __future__ import annotations

from typing import Annotated

import typer

from assignor.commands.change_options import changes_from_options
from assignor.commands.console import Format
from assignor.commands.model_options import ForecastAsked, forecast_from_options
from assignor.commands.option_groups import options_of
from assignor.what_if.changes import Changes
from spark_jobs.batch.command_line import Runner, interrupted_by_sigterm, runner_from_options


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("sweep")(sweep)


@options_of(runner=runner_from_options, changes=changes_from_options, ahead=forecast_from_options)
def sweep(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT...", help="Recordings: JSON Lines, gzip, Parquet, directories, a database, -."),
    ],
    grid: Annotated[
        list[str],
        typer.Option(
            "--grid", metavar="KEY=VALUES,..", help="max.warmup.replicas=1..16,num.standby.replicas=0|2; repeat."
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", metavar="DIR", help="For all results; a stopped run goes on there.")
    ],
    runner: Runner,
    changes: Changes,
    ahead: ForecastAsked,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="F", help="The picture, .svg or .png; DIR/pareto.svg by default.")
    ] = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Try every combination of --grid on recorded groups: forecasts.parquet, the Pareto front, a picture of it.

    A forecast starts at every recorded rebalance at which something happened to a group. Exit 1 when no combination
    lets all of them settle. Options of what-if (--set, --remove ..) change every rebalance first.
    """
    # Arrow is loaded when the command runs, so that the other commands start without it
    from spark_jobs.batch.outcome import Engine
    from spark_jobs.sweep.running import SweepOrder, run_sweep

    order = SweepOrder(
        inputs=tuple(inputs),
        grid=tuple(grid),
        changes=changes,
        model=ahead.model,
        max_rounds=ahead.max_rounds,
        output=output,
        plot=plot,
        engine=Engine(runner.engine),
        master=runner.master,
        cores=runner.cores,
        restart=runner.restart,
    )
    with interrupted_by_sigterm():
        run_sweep(order, format)
