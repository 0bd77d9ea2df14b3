"""`assignor groups` and `assignor rebalances`: what a running coordinator says, as tables or as JSON."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from assignor.commands.console import EXIT_NO, Format, leave, say
from assignor.recording import line_of_document

groups = typer.Typer(help="The groups of a running coordinator.", no_args_is_help=True)
rebalances = typer.Typer(help="The recorded rebalances of a group.", no_args_is_help=True)

DEFAULT_URL = "http://127.0.0.1:8080"


Url = Annotated[str, typer.Option("--coordinator", metavar="URL", help="Address of the coordinator.")]
TokenFile = Annotated[
    str | None,
    typer.Option("--token-file", metavar="FILE", help="File with its bearer token; else ASSIGNOR_AUTH_TOKEN is used."),
]
Output = Annotated[Format, typer.Option("--format", help="A table to read, or JSON.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]


@groups.command("list")
def list_groups(coordinator: Url = DEFAULT_URL, token_file: TokenFile = None, format: Output = Format.TEXT) -> None:
    """Every group with its state."""
    _show(_call("GET", "/v1/groups", coordinator, token_file), format, "groups")


@groups.command("describe")
def describe_group(
    group: Group, coordinator: Url = DEFAULT_URL, token_file: TokenFile = None, format: Output = Format.TEXT
) -> None:
    """State, members, and every copy of every task with role and lag."""
    _show(_call("GET", _path(group), coordinator, token_file), format, "description")


@groups.command("drain")
def drain_group(
    group: Group, coordinator: Url = DEFAULT_URL, token_file: TokenFile = None, format: Output = Format.TEXT
) -> None:
    """Tell every member to stop."""
    _call("POST", f"{_path(group)}/drain", coordinator, token_file)
    _say_or_show(f"{group}: every member is told to stop", {"group_id": group, "draining": True}, format)


@groups.command("delete")
def delete_group(
    group: Group, coordinator: Url = DEFAULT_URL, token_file: TokenFile = None, format: Output = Format.TEXT
) -> None:
    """Delete a group that has no members, and its recorded rebalances."""
    _call("DELETE", _path(group), coordinator, token_file)
    _say_or_show(f"{group}: deleted", {"group_id": group, "deleted": True}, format)


@rebalances.command("list")
def list_rebalances(
    group: Group,
    coordinator: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    format: Output = Format.TEXT,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    before: Annotated[int | None, typer.Option(min=0, help="Only generations below this one.")] = None,
) -> None:
    """The last rebalances: why each began and how it ended."""
    page = _call("GET", f"{_path(group)}/rebalances", coordinator, token_file, limit=limit, before=before)
    _show(page, format, "rebalances")


@rebalances.command("show")
def show_rebalance(
    group: Group,
    generation: Annotated[int, typer.Argument(min=0, help="Its generation.")],
    coordinator: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    format: Output = Format.TEXT,
    task: Annotated[str | None, typer.Option("--task", help="Only this task, for example 0_3. Text only.")] = None,
) -> None:
    """Why every task is where it is; with --format json the recorded rebalance/1 line, to be run again by `assign`."""
    path = f"{_path(group)}/rebalances/{generation}"
    if format is Format.JSON:
        _show(_call("GET", path, coordinator, token_file), format, "explanations")
    else:
        _show(_call("GET", f"{path}/explain", coordinator, token_file, task=task), format, "explanations")


def _path(group: str) -> str:
    return f"/v1/groups/{quote(group, safe='')}"


def _call(method: str, path: str, url: str, token_file: str | None, **parameters: str | int | None) -> Any:
    """The answer's JSON. Says what went wrong and exits with 1 when there is none."""
    from coordinator_api.cli.client import CallFailed, call

    try:
        return call(method, url, path, token_file, parameters)
    except CallFailed as error:
        say(f"assignor: {error}")
        leave(EXIT_NO)


def _say_or_show(text: str, document: Any, format: Format) -> None:
    typer.echo(line_of_document(document) if format is Format.JSON else text)


def _show(document: Any, format: Format, view: str) -> None:
    """`view`: the function of `views` that makes text of it."""
    if format is Format.JSON:
        typer.echo(line_of_document(document))
        return
    # rich is slow to import, and JSON does not need it
    from rich.console import Console

    from coordinator_api.cli import views

    shown = getattr(views, view)(document)
    # a table that is read by a program must not be cut at 80 columns
    console = Console(soft_wrap=isinstance(shown, str), width=None if Console().is_terminal else 200)
    console.print(shown, markup=False, highlight=False)
