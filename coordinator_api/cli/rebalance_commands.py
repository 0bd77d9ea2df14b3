"""`assignor rebalances`: the recorded rebalances of a group, and why its tasks are where they are."""

from __future__ import annotations

from typing import Annotated

import typer

from assignor.commands.help_texts import example
from assignor.commands.option_groups import options_of
from assignor.commands.output import Format, FormatOption, ResultOutput, output_from_options, show
from assignor.coordinator_calls import group_path
from assignor.types import JAVA_INT_MAX
from coordinator_api.cli import group_tables
from coordinator_api.cli.call_options import CoordinatorCalls, GroupArgument
from coordinator_api.cli.rebalance_story import rebalance_story

rebalances = typer.Typer(help="The recorded rebalances of a group.", no_args_is_help=True)


@rebalances.command("list", epilog=example("rebalances list orders --limit 5"))
@options_of(calls=CoordinatorCalls, output=output_from_options)
def list_rebalances(
    group: GroupArgument,
    calls: CoordinatorCalls,
    output: ResultOutput,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    before: Annotated[
        int | None, typer.Option(min=0, max=JAVA_INT_MAX, help="Only generations below this one.")
    ] = None,
) -> None:
    """List the last rebalances: why each began and how it ended."""
    path = f"{group_path(group)}/rebalances"
    output.show(lambda: calls.get(path, limit=limit, before=before), group_tables.rebalance_list)


@rebalances.command("show", epilog=example("rebalances show orders 7", "rebalances show orders 7 --task 0_3"))
@options_of(calls=CoordinatorCalls)
def show_rebalance(
    group: GroupArgument,
    generation: Annotated[int, typer.Argument(min=0, help="Generation of the rebalance.")],
    calls: CoordinatorCalls,
    format: FormatOption = Format.TEXT,
    task: Annotated[str | None, typer.Option("--task", help="Only this task, for example 0_3. Text only.")] = None,
) -> None:
    """Tell what happened in one rebalance, and why.

    What set it off, which tasks were where and are where now, and because of what, as `assignor explain` tells it.
    Tasks that stay are counted in one line, unless --format wide or --task asks for more. With --format json or
    yaml: the recorded rebalance/1 document, which `assignor assign` can run.
    """
    path = f"{group_path(group)}/rebalances"
    recorded = calls.get(f"{path}/{generation}")
    if format.is_data:
        show(recorded, "", format)
        return
    earlier = calls.get(path, limit=1, before=generation)["rebalances"]
    before = [calls.get(f"{path}/{earlier[0]['generation_id']}")] if earlier else []
    told = rebalance_story(group, [*before, recorded], task)
    if told is None:  # it cannot be run here, perhaps for want of the group's own assignor: the coordinator can
        explained = calls.get(f"{path}/{generation}/explain", task=task)
        show(explained, lambda view: group_tables.explanations(explained, view), format)
    else:
        show(recorded, told, format)
