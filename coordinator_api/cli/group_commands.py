"""`assignor groups` and `assignor rebalances`: what a running coordinator knows, as tables or as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

from assignor.commands.output import Format, FormatOption, data_text
from assignor.coordinator_calls import DEFAULT_URL, group_path
from coordinator_api.cli import group_tables

groups = typer.Typer(help="The groups of a running coordinator.", no_args_is_help=True)
rebalances = typer.Typer(help="The recorded rebalances of a group.", no_args_is_help=True)

Url = Annotated[str, typer.Option("--coordinator", metavar="URL", help="Address of the coordinator.")]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file", metavar="FILE", help="File with the coordinator's bearer token. Default: ASSIGNOR_AUTH_TOKEN."
    ),
]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]


@groups.command("list")
def list_groups(
    coordinator: Url = DEFAULT_URL, token_file: TokenFile = None, format: FormatOption = Format.TEXT
) -> None:
    """List every group with its state."""
    _show(_call("GET", "/v1/groups", coordinator, token_file), format, group_tables.group_list)


@groups.command("describe")
def describe_group(
    group: Group, coordinator: Url = DEFAULT_URL, token_file: TokenFile = None, format: FormatOption = Format.TEXT
) -> None:
    """Show a group's state and members, and every copy of every task with its role and lag."""
    _show(_call("GET", group_path(group), coordinator, token_file), format, group_tables.group_description)


@groups.command("drain")
def drain_group(
    group: Group, coordinator: Url = DEFAULT_URL, token_file: TokenFile = None, format: FormatOption = Format.TEXT
) -> None:
    """Tell every member to stop."""
    _call("POST", f"{group_path(group)}/drain", coordinator, token_file)
    _say_or_show(f"{group}: the coordinator tells every member to stop", {"group_id": group, "draining": True}, format)


@groups.command("delete")
def delete_group(
    group: Group, coordinator: Url = DEFAULT_URL, token_file: TokenFile = None, format: FormatOption = Format.TEXT
) -> None:
    """Delete a group that has no members, and its recorded rebalances."""
    _call("DELETE", group_path(group), coordinator, token_file)
    _say_or_show(f"{group}: deleted", {"group_id": group, "deleted": True}, format)


@rebalances.command("list")
def list_rebalances(
    group: Group,
    coordinator: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    format: FormatOption = Format.TEXT,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    before: Annotated[int | None, typer.Option(min=0, help="Only generations below this one.")] = None,
) -> None:
    """List the last rebalances: why each began and how it ended."""
    page = _call("GET", f"{group_path(group)}/rebalances", coordinator, token_file, limit=limit, before=before)
    _show(page, format, group_tables.rebalance_list)


@rebalances.command("show")
def show_rebalance(
    group: Group,
    generation: Annotated[int, typer.Argument(min=0, help="Generation of the rebalance.")],
    coordinator: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    format: FormatOption = Format.TEXT,
    task: Annotated[str | None, typer.Option("--task", help="Only this task, for example 0_3. Text only.")] = None,
) -> None:
    """Say why every task is where it is. --format json prints the recorded rebalance/1 line, which `assign` can run."""
    path = f"{group_path(group)}/rebalances/{generation}"
    if format.is_data:
        _show(_call("GET", path, coordinator, token_file), format, group_tables.explanations)
    else:
        _show(_call("GET", f"{path}/explain", coordinator, token_file, task=task), format, group_tables.explanations)


def _call(method: str, path: str, url: str, token_file: str | None, **parameters: str | int | None) -> Any:
    """The answer's JSON. Raises CallFailed."""
    from coordinator_api.cli.client import call  # loads httpx, which the other commands do not need

    return call(method, url, path, token_file, parameters)


def _say_or_show(text: str, document: Any, format: Format) -> None:
    typer.echo(data_text(document, format) if format.is_data else text)


def _show(document: Any, format: Format, as_table: Callable[[Any], RenderableType]) -> None:
    if format.is_data:
        typer.echo(data_text(document, format))
        return
    shown = as_table(document)
    # a table that is read by a program must not be cut at 80 columns
    console = Console(soft_wrap=isinstance(shown, str), width=None if Console().is_terminal else 200)
    console.print(shown, markup=False, highlight=False)
