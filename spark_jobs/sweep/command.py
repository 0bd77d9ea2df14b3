"""`assignor sweep`: every combination of a grid, forecast from every episode of every recorded group, as one job."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
from collections.abc import Iterator
from types import FrameType
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
from assignor.commands.console import EXIT_NO, Format, leave
from assignor.errors import InputError
from assignor.simulate.model import ForecastModel
from spark_jobs.replay.command import RunBy

_MODEL = ForecastModel()


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
    restore_rate: Annotated[
        float, typer.Option("--restore-rate", help="Records a second that a thread restores for active tasks.")
    ] = _MODEL.restore_records_per_s,
    standby_rate: Annotated[
        float, typer.Option("--standby-rate", help="Records a second that a thread reads for standbys and warm-ups.")
    ] = _MODEL.standby_records_per_s,
    append_rate: Annotated[
        float, typer.Option("--append-rate", help="Records a second that each stateful task writes.")
    ] = _MODEL.appended_records_per_s,
    rebalance_ms: Annotated[
        int, typer.Option("--rebalance-ms", min=0, help="How long a round takes.")
    ] = _MODEL.rebalance_ms,
    max_rounds: Annotated[int, typer.Option("--max-rounds", min=1, help="Give a forecast up after so many.")] = 1_000,
    seed: Annotated[int, typer.Option("--seed", help="Of --jitter.")] = _MODEL.seed,
    jitter: Annotated[
        float, typer.Option("--jitter", min=0, max=1, help="By which part the rates of processes differ.")
    ] = _MODEL.jitter,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="F", help="The picture, .svg or .png; DIR/pareto.svg by default.")
    ] = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Try every combination of --grid on recorded groups: forecasts.parquet, the Pareto front, a picture of it.

    A forecast starts at every recorded round at which something happened to a group. Exit 1 when no combination lets
    all of them settle. Options of what-if (--set, --remove ..) change every round first.
    """
    if engine is RunBy.SPARK and importlib.util.find_spec("pyspark") is None:
        raise InputError("spark is not installed: pip install 'assignor[spark]', or say --engine local", "--engine")
    # Arrow is loaded when the command runs, so that the other commands start without it
    from spark_jobs.batch.outcome import Engine
    from spark_jobs.sweep.running import SweepOrder, run_sweep

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
        model=ForecastModel(
            restore_records_per_s=restore_rate,
            standby_records_per_s=standby_rate,
            appended_records_per_s=append_rate,
            rebalance_ms=rebalance_ms,
            jitter=jitter,
            seed=seed,
        ),
        max_rounds=max_rounds,
        output=output,
        plot=plot,
        engine=Engine(engine),
        master=master,
        cores=cores,
        restart=restart,
    )
    with _interrupted_by_sigterm():
        run_sweep(order, format)


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C, so that workers end and what is done is kept."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        leave(EXIT_NO)
    finally:
        signal.signal(signal.SIGTERM, before)
