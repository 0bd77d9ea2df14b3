"""`assignor replay`: runs recorded rebalances again in many processes, and writes a row for each rebalance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from assignor_cli.console import EXIT_NO, EXIT_UNUSABLE, leave, print_message
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, console_of, data_text
from rebalance_analysis.commands.shared_options import changes_from_options
from rebalance_analysis.what_if.changes import Changes
from spark_engine.batch import EngineChoice
from spark_engine.batch.command_line import batch_run, engine_from_options

if TYPE_CHECKING:
    from rebalance_analysis.replay.replay_run import Ended

_INPUTS = "Recordings: JSON Lines, gzip, Parquet, directories, a coordinator's database; - for stdin."


@options_of(run_by=engine_from_options, changes=changes_from_options)
def replay_inputs(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help=_INPUTS)],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            metavar="DIR",
            help="Directory for the rows. If a run was stopped, the same command continues it.",
        ),
    ],
    run_by: EngineChoice,
    changes: Changes,
    format: FormatOption = Format.TEXT,
) -> None:
    """Run recorded rebalances again, and write a row for each.

    The row of a rebalance has the comparison with the recording, the moved tasks, the balance of the load and the run
    time.

    An input line that cannot be run is written to rejects.jsonl with the reason. The exit code is 1 if a result differs
    from its recording, or if a line needs a later release. The exit code is 2 if an input line is invalid. With changes
    (--set, --add-instances, ...), a difference from the recording does not change the exit code.
    """
    # imported here, so that the other commands start faster without pyarrow
    from rebalance_analysis.replay.replay_run import replay

    with batch_run():
        ended = replay(inputs, output, changes, run_by, Console(stderr=True))
    _show(ended, output, format)
    counts = ended.summary.counts
    if counts.unusable:
        leave(EXIT_UNUSABLE)
    if counts.refused or (not ended.summary.changes and not counts.all_equal):
        leave(EXIT_NO)


def _show(ended: Ended, output: Path, format: Format) -> None:
    from rebalance_analysis.replay.summary_tables import print_summary

    if format.is_data:
        print(data_text(ended.document, format))
        return
    print_summary(ended.summary, console_of(format), wide=format is Format.WIDE)
    print_message(f"rebalances: {output / 'rounds.parquet'}")
    if ended.outcome.rejects:
        print_message(f"lines that gave no row: {output / 'rejects.jsonl'}")
