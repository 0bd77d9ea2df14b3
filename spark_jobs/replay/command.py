"""`assignor replay`: recorded rebalances run again by many processes, with a row for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from assignor.commands.change_options import changes_from_options
from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, Format, as_line, leave, say
from assignor.commands.option_groups import options_of
from assignor.what_if.changes import Changes
from spark_jobs.batch.command_line import Runner, interrupted_by_sigterm, runner_from_options

WIDTH = 140
_INPUTS = "JSON Lines, plain or gzip; Parquet; directories of them; a coordinator's database; - for stdin."


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("replay")(replay_inputs)


@options_of(runner=runner_from_options, changes=changes_from_options)
def replay_inputs(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help=_INPUTS)],
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Where the rows go; a run that was stopped goes on there.")
    ],
    runner: Runner,
    changes: Changes,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Run recorded rebalances again, one row each: equal or not, what moved, how even the load is, how long it took.

    Lines that cannot be run go to rejects.jsonl with the reason. Exit 1 when a rebalance differs or was refused, 2 when
    a line was unusable. With changes (--set, --add-instances, ...) rebalances are meant to differ.
    """
    # Arrow is loaded when the command runs, so that the other commands start without it
    from spark_jobs.batch.outcome import Engine
    from spark_jobs.replay.running import replay
    from spark_jobs.replay.tables import print_summary

    with interrupted_by_sigterm():
        ended = replay(
            inputs,
            output,
            changes=changes,
            engine=Engine(runner.engine),
            console=Console(stderr=True),
            master=runner.master,
            cores=runner.cores,
            restart=runner.restart,
        )
    if format is Format.JSON:
        print(as_line(ended.document))
    else:
        print_summary(ended.summary, _stdout())
        _say_what_is_where(output, ended.outcome.rejects)
    counts = ended.summary.counts
    if counts.unusable:
        leave(EXIT_UNUSABLE)
    if counts.refused or (not ended.summary.changes and not counts.all_equal):
        leave(EXIT_NO)


def _stdout() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def _say_what_is_where(output: Path, rejects: int) -> None:
    say(f"rebalances: {output / 'rounds.parquet'}")
    if rejects:
        say(f"lines that gave no rebalance: {output / 'rejects.jsonl'}")
