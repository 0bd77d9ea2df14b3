"""`assignor sweep`: every combination of a grid, forecast from every episode of every recorded group, as one job."""

from __future__ import annotations

from typing import Annotated

import typer

from assignor.commands.change_options import (
    AddInstancesOption,
    AssignorOption,
    LagsOption,
    PartitionsOption,
    RemoveOption,
    SetOption,
    TagsOption,
    ThreadsOption,
    TopologyOption,
    changes_from_options,
)
from assignor.commands.console import Format
from assignor.commands.model_options import (
    DEFAULT_MODEL,
    AppendRateOption,
    JitterOption,
    MaxRoundsOption,
    RebalanceMsOption,
    RestoreRateOption,
    SeedOption,
    SessionTimeoutOption,
    StandbyRateOption,
    StateCleanupDelayOption,
    checked_model,
)
from assignor.simulate.model import ForecastModel
from spark_jobs.batch.command_line import RunBy, interrupted_by_sigterm


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("sweep")(sweep)


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
    engine: Annotated[
        RunBy, typer.Option("--engine", help="Spark, or processes of this machine: the same rows either way.")
    ] = RunBy.SPARK,
    master: Annotated[str, typer.Option("--master", metavar="URL", help="Spark master.")] = "local[*]",
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, help="Processes of --engine local; all cores by default.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Throw away what an earlier run left in DIR.")] = False,
    set: SetOption = None,
    add_instances: AddInstancesOption = None,
    remove: RemoveOption = None,
    threads: ThreadsOption = None,
    tags: TagsOption = None,
    assignor: AssignorOption = None,
    partitions: PartitionsOption = None,
    topology: TopologyOption = None,
    lags: LagsOption = None,
    max_rounds: MaxRoundsOption = 1000,
    restore_rate: RestoreRateOption = DEFAULT_MODEL.restore_records_per_s,
    standby_rate: StandbyRateOption = DEFAULT_MODEL.standby_records_per_s,
    append_rate: AppendRateOption = DEFAULT_MODEL.appended_records_per_s,
    rebalance_ms: RebalanceMsOption = DEFAULT_MODEL.rebalance_ms,
    session_timeout_ms: SessionTimeoutOption = DEFAULT_MODEL.session_timeout_ms,
    state_cleanup_delay_ms: StateCleanupDelayOption = DEFAULT_MODEL.state_cleanup_delay_ms,
    jitter: JitterOption = DEFAULT_MODEL.jitter,
    seed: SeedOption = DEFAULT_MODEL.seed,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="F", help="The picture, .svg or .png; DIR/pareto.svg by default.")
    ] = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Try every combination of --grid on recorded groups: forecasts.parquet, the Pareto front, a picture of it.

    A forecast starts at every recorded round at which something happened to a group. Exit 1 when no combination lets
    all of them settle. Options of what-if (--set, --remove ..) change every round first.
    """
    engine.check_installed()
    # Arrow is loaded when the command runs, so that the other commands start without it
    from spark_jobs.batch.outcome import Engine
    from spark_jobs.sweep.running import SweepOrder, run_sweep

    model = ForecastModel(
        restore_records_per_s=restore_rate,
        standby_records_per_s=standby_rate,
        appended_records_per_s=append_rate,
        rebalance_ms=rebalance_ms,
        session_timeout_ms=session_timeout_ms,
        state_cleanup_delay_ms=state_cleanup_delay_ms,
        jitter=jitter,
        seed=seed,
    )
    order = SweepOrder(
        inputs=tuple(inputs),
        grid=tuple(grid),
        changes=changes_from_options(
            set=set,
            add_instances=add_instances,
            remove=remove,
            threads=threads,
            tags=tags,
            assignor=assignor,
            partitions=partitions,
            topology=topology,
            lags=lags,
        ),
        model=checked_model(model, max_rounds),
        max_rounds=max_rounds,
        output=output,
        plot=plot,
        engine=Engine(engine),
        master=master,
        cores=cores,
        restart=restart,
    )
    with interrupted_by_sigterm():
        run_sweep(order, format)
