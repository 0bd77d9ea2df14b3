"""`assignor groups`: what a running coordinator knows of its groups, and what it can be told about them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from assignor.commands.help_texts import example
from assignor.commands.option_groups import options_of
from assignor.commands.output import Format, FormatOption, ResultOutput, output_from_options, show
from assignor.coordinator_calls import group_path
from assignor.errors import InputError
from coordinator_api.cli import group_tables
from coordinator_api.cli.call_options import CoordinatorCalls, GroupArgument, ReasonOption
from coordinator_api.cli.lever_commands import drain_one

_SOME_PROCESS = "2230ea3e-4048-4d7d-bee0-e650940ec648"

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


@groups.command("drain", epilog=example("groups drain orders", f"groups drain orders --instance {_SOME_PROCESS}"))
@options_of(calls=CoordinatorCalls)
def drain_group(
    group: GroupArgument,
    calls: CoordinatorCalls,
    instance: Annotated[
        str | None, typer.Option("--instance", metavar="PROCESS", help="Drain this instance alone, by its process id.")
    ] = None,
    member: Annotated[str | None, typer.Option("--member", metavar="ID", help="Drain this member alone.")] = None,
    end: Annotated[bool, typer.Option("--end", help="End the drain of the instance or the member.")] = False,
    reason: ReasonOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Tell all members to stop, or empty one instance.

    --instance and --member tell nobody to stop: the tasks go to others, each once it is restored there. The same
    command again says whether it can be stopped now, and what is missing.
    """
    if instance is not None or member is not None or end:
        drain_one(calls, group, instance, member, end, reason, format)
        return
    calls.call("POST", f"{group_path(group)}/drain", reason=reason)
    show({"group_id": group, "draining": True}, f"{group}: the coordinator tells every member to stop", format)


@groups.command("delete", epilog=example("groups delete orders"))
@options_of(calls=CoordinatorCalls)
def delete_group(
    group: GroupArgument,
    calls: CoordinatorCalls,
    reason: ReasonOption = None,
    format: FormatOption = Format.TEXT,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also a group whose log cannot be read, so that nobody knows whether it has members."
        ),
    ] = False,
) -> None:
    """Delete a group and its recorded rebalances.

    A group that still has members is not deleted: drain it first.
    """
    calls.call("DELETE", group_path(group), reason=reason, force="true" if force else None)
    show({"group_id": group, "deleted": True}, f"{group}: deleted", format)


@groups.command("export", epilog=example("groups export orders", "groups export orders --output orders-log.json"))
@options_of(calls=CoordinatorCalls)
def export_log(
    group: GroupArgument,
    calls: CoordinatorCalls,
    file: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="New file, which only you may read. Default: stdout."),
    ] = None,
) -> None:
    """Save a group's log as it is stored.

    It may be one that can be read, or one that cannot.

    Do this before you repair it: what a repair drops is no longer in the store afterwards.
    """
    if file is not None and file.exists():
        raise _exists(file)
    log = calls.get(f"{group_path(group)}/log")
    text = json.dumps(log, indent=1) + "\n"
    if file is None:
        sys.stdout.write(text)
        return
    _write_new(file, text)
    count = len(log["records"])
    records = "1 record is" if count == 1 else f"{count} records are"
    state = "It can be read." if log["problem"] is None else f"It cannot be read: {log['problem']}."
    typer.echo(f"{group}: {records} in {file}, the whole log as it is stored. {state}")


@groups.command("repair", epilog=example("groups repair orders", "groups repair orders --execute"))
@options_of(calls=CoordinatorCalls)
def repair_log(
    group: GroupArgument,
    calls: CoordinatorCalls,
    format: FormatOption = Format.TEXT,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this, nothing is changed.")] = False,
) -> None:
    """Say what a repair of a damaged log keeps, or repair it.

    What was stored before the damage is kept. The members join again by themselves.
    """
    answer = calls.call("POST", f"{group_path(group)}/repair", execute="true" if execute else None)
    show(answer, lambda view: group_tables.repair(answer, view), format)


def _write_new(file: Path, text: str) -> None:
    """Raises InputError."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as opened:
            opened.write(text)
    except FileExistsError:
        raise _exists(file) from None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", str(file)) from None


def _exists(file: Path) -> InputError:
    return InputError("exists already, and may be an earlier copy of the log: name another file", str(file))
