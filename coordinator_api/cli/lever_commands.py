"""The levers among the commands of `assignor groups`: what operators set or start beside Kafka's behaviour.

Each says why with `--reason`, for the coordinator's audit log and for whoever describes the group.
"""

from __future__ import annotations

import typer

from assignor.commands.help_texts import example
from assignor.commands.option_groups import options_of
from assignor.commands.output import Format, FormatOption, show
from assignor.coordinator_calls import group_path
from coordinator_api.cli.call_options import CoordinatorCalls, GroupArgument, ReasonOption


def register(groups: typer.Typer) -> None:
    """Add the commands to `assignor groups`."""
    groups.command("rebalance", epilog=example("groups rebalance orders --reason 'after the disk was replaced'"))(
        request_rebalance
    )
    groups.command("pause", epilog=example("groups pause orders --reason 'the database is being moved'"))(pause_group)
    groups.command("resume", epilog=example("groups resume orders"))(resume_group)


@options_of(calls=CoordinatorCalls)
def request_rebalance(
    group: GroupArgument,
    calls: CoordinatorCalls,
    reason: ReasonOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Start a rebalance now."""
    calls.call("POST", f"{group_path(group)}/rebalance", reason=reason)
    show({"group_id": group, "rebalance": "requested"}, f"{group}: a rebalance starts", format)


@options_of(calls=CoordinatorCalls)
def pause_group(
    group: GroupArgument,
    calls: CoordinatorCalls,
    reason: ReasonOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Have all members stop processing, until a resume.

    They stay members, restore their state and keep standbys up to date.
    """
    calls.call("POST", f"{group_path(group)}/pause", reason=reason)
    show({"group_id": group, "paused": True}, f"{group}: members process nothing until it is resumed", format)


@options_of(calls=CoordinatorCalls)
def resume_group(
    group: GroupArgument,
    calls: CoordinatorCalls,
    reason: ReasonOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """End a pause: members go on where they stopped."""
    calls.call("POST", f"{group_path(group)}/resume", reason=reason)
    show({"group_id": group, "paused": False}, f"{group}: members go on", format)
