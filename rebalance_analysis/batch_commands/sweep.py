"""`assignor sweep`: makes forecasts for recorded groups with every combination of a grid of config values, as one job.
Forecasts start at every rebalance in which the instances of a group changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from assignor_cli.console import EXIT_NO, leave, print_message
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, console_of, data_text
from rebalance_analysis.commands.shared_options import (
    ForecastAsked,
    changes_from_options,
    forecast_from_options,
    read_with_bar,
)
from rebalance_analysis.what_if.changes import Changes
from spark_engine.batch import EngineChoice
from spark_engine.batch.command_line import batch_run, engine_from_options

if TYPE_CHECKING:
    from rebalance_analysis.sweep.sweep_run import FinishedSweep


@dataclass(frozen=True, slots=True)
class SweepResultOptions:
    """The output options of `sweep`: the file of the picture, the user's own measures, and the format of the Pareto
    front.
    """

    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="F", help="File of the picture, .svg or .png. Default: DIR/pareto.svg."),
    ] = None
    measures: Annotated[
        list[str] | None,
        typer.Option(
            "--measure", metavar="M:F", help="Your own measure, module:function, which adds a column. May be repeated."
        ),
    ] = None
    format: FormatOption = Format.TEXT


@options_of(
    run_by=engine_from_options, changes=changes_from_options, ahead=forecast_from_options, shown=SweepResultOptions
)
def sweep(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="Recordings: JSON Lines, gzip, Parquet, directories, a database; - for stdin."
        ),
    ],
    grid: Annotated[
        list[str],
        typer.Option(
            "--grid",
            metavar="KEY=VALUES,..",
            help="Values to try, such as max.warmup.replicas=1..16,num.standby.replicas=0|2; may be repeated.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            metavar="DIR",
            help="Directory for all results. If a run was stopped, the same command continues it.",
        ),
    ],
    run_by: EngineChoice,
    changes: Changes,
    ahead: ForecastAsked,
    shown: SweepResultOptions,
) -> None:
    """Try every combination of a grid on recorded groups.

    Writes forecasts.parquet, the Pareto front and a picture of the front.

    A forecast starts at every recorded rebalance that has other instances or threads than the rebalance before it. The
    exit code is 1 if no combination of the grid makes the group stable in all forecasts. The options of what-if (--set,
    --remove ..) change every recorded rebalance before the forecast.
    """
    # imported here, so that the other commands start faster without pyarrow
    from rebalance_analysis.sweep.sweep_run import SweepOrder, run_sweep

    order = SweepOrder(
        inputs=tuple(inputs),
        grid=tuple(grid),
        changes=changes,
        model=ahead.model,
        max_rounds=ahead.max_rounds,
        output=output,
        plot=shown.plot,
        run_by=run_by,
        own_measures=tuple(shown.measures or ()),
    )
    with batch_run():
        finished = run_sweep(order, read_with_bar(order.inputs), Console(stderr=True))
        _print_outcome(finished)
        _print_front(finished, shown.format)
    if not finished.result.front:
        leave(EXIT_NO)


def _print_outcome(finished: FinishedSweep) -> None:
    result, outcome = finished.result, finished.outcome
    took = "found finished" if outcome.finished_before else f"in {outcome.seconds:.1f} s"
    settled = f"{result.settled:,} of {len(result.totals):,} combinations settle everywhere"
    print_message(f"{finished.forecasts:,} forecasts {took}; {settled}")
    print_message(f"rows: {outcome.rows_file}  front: {finished.front_file}  picture: {finished.plot}")
    if outcome.rejects:
        print_message(f"{outcome.rejects:,} lines could not be used, for the reasons in {outcome.rejects_file}")
    if not result.front:
        print_message(
            "no combination lets every episode settle, so there is no front; the rows say which groups loop or fail"
        )


def _print_front(finished: FinishedSweep, format: Format) -> None:
    from rebalance_analysis.sweep.front_tables import front_document, front_table, full_table

    if format.is_data:
        print(data_text(front_document(finished.result), format))
        return
    table = full_table if format is Format.WIDE else front_table
    console_of(format).print(table(finished.result))
