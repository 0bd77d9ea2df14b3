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
