"""`assignor groups`: what a running coordinator knows of its groups, and what it can be told about them."""

from __future__ import annotations

import typer

from assignor.commands.help_texts import example
from assignor.commands.option_groups import options_of
from assignor.commands.output import Format, FormatOption, ResultOutput, output_from_options, show
from assignor.coordinator_calls import group_path
from coordinator_api.cli import group_tables
from coordinator_api.cli.call_options import CoordinatorCalls, GroupArgument

groups = typer.Typer(help="The groups of a running coordinator.", no_args_is_help=True)


@groups.command("list", epilog=example("groups list --coordinator http://coordinator:8080"))
@options_of(calls=CoordinatorCalls, output=output_from_options)
def list_groups(calls: CoordinatorCalls, output: ResultOutput) -> None:
    """List every group with its state."""
    output.show(lambda: calls.get("/v1/groups"), group_tables.group_list)


@groups.command("describe", epilog=example("groups describe orders", "groups describe orders --watch"))
@options_of(calls=CoordinatorCalls, output=output_from_options)
def describe_group(group: GroupArgument, calls: CoordinatorCalls, output: ResultOutput) -> None:
    """Show a group's state, its members and its tasks.

    Every copy of a task has a line, with its role and its lag. What is to be done is said at the top.
    """
    output.show(lambda: calls.get(group_path(group)), group_tables.group_description)


@groups.command("drain", epilog=example("groups drain orders"))
@options_of(calls=CoordinatorCalls)
def drain_group(group: GroupArgument, calls: CoordinatorCalls, format: FormatOption = Format.TEXT) -> None:
    """Tell every member to stop."""
    calls.call("POST", f"{group_path(group)}/drain")
    show({"group_id": group, "draining": True}, f"{group}: the coordinator tells every member to stop", format)


@groups.command("delete", epilog=example("groups delete orders"))
@options_of(calls=CoordinatorCalls)
def delete_group(group: GroupArgument, calls: CoordinatorCalls, format: FormatOption = Format.TEXT) -> None:
    """Delete a group and its recorded rebalances.

    A group that still has members is not deleted: drain it first.
    """
    calls.call("DELETE", group_path(group))
    show({"group_id": group, "deleted": True}, f"{group}: deleted", format)
