"""The levers among the commands of `assignor groups`: what operators set or start beside Kafka's behaviour.

Each says why with `--reason`, for the coordinator's audit log and for whoever describes the group.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from assignor.commands.help_texts import example
from assignor.commands.option_groups import options_of
from assignor.commands.output import Format, FormatOption, show
from assignor.coordinator_calls import group_path
from assignor.errors import InputError
from assignor.story.words import duration
from coordinator_api.cli.call_options import CoordinatorCalls, GroupArgument, ReasonOption
from coordinator_api.cli.durations import duration_ms
from coordinator_api.cli.lever_lines import drain_in_words


def register(groups: typer.Typer) -> None:
    """Add the commands to `assignor groups`."""
    groups.command("rebalance", epilog=example("groups rebalance orders --reason 'after the disk was replaced'"))(
        request_rebalance
    )
    groups.command("pause", epilog=example("groups pause orders --reason 'the database is being moved'"))(pause_group)
    groups.command("grace", epilog=example("groups grace orders 60s", "groups grace orders --off"))(set_rejoin_grace)
    groups.command("promote", epilog=example("groups promote orders", "groups promote orders --off"))(promote)
    groups.command("resume", epilog=example("groups resume orders"))(resume_group)


def drain_one(
    calls: CoordinatorCalls,
    group: str,
    instance: str | None,
    member: str | None,
    end: bool,
    reason: str | None,
    format: Format,
) -> None:
    """`assignor groups drain` of an instance or of a member."""
    if (instance is None) == (member is None):
        raise InputError("name what is drained: one instance or one member", "--instance, --member")
    if instance is not None and not _is_process_id(instance):
        shows = f"as `assignor groups describe {group} -o wide` shows them"
        raise InputError(f"must be a whole process id, {shows}, not {instance[:80]!r}", "--instance")
    path, target = f"{group_path(group)}/drain", member or instance
    if end:
        calls.call("DELETE", path, instance=instance, member=member, reason=reason)
        show({"group_id": group, "drained": target, "ended": True}, f"{group}: {target} may have tasks again", format)
        return
    calls.call("POST", path, instance=instance, member=member, reason=reason)
    drain = calls.get(path, instance=instance, member=member)
    show(drain, drain_in_words(group, drain), format)


def _is_process_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


@options_of(calls=CoordinatorCalls)
def promote(
    group: GroupArgument,
    calls: CoordinatorCalls,
    off: Annotated[bool, typer.Option("--off", help="Wait for the probing deadline, as Kafka does.")] = False,
    reason: ReasonOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Rebalance as soon as all warm-ups have caught up."""
    calls.call("DELETE" if off else "PUT", f"{group_path(group)}/promotion", reason=reason)
    when = "at the probing deadline" if off else "as soon as the warm-ups have caught up"
    show({"group_id": group, "promotion": not off}, f"{group}: the next rebalance comes {when}", format)


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


@options_of(calls=CoordinatorCalls)
def set_rejoin_grace(
    group: GroupArgument,
    calls: CoordinatorCalls,
    grace: Annotated[
        str | None, typer.Argument(metavar="[DURATION]", help="How long tasks wait, such as 60s or 5m.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Wait for nobody, as Kafka does.")] = False,
    reason: ReasonOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Have the tasks of members that leave wait for them.

    A process that comes back in time goes on with its tasks, and no rebalance runs.
    """
    if off == (grace is not None):
        raise InputError("give a duration such as 60s, or --off", "DURATION")
    address = f"{group_path(group)}/rejoin-grace"
    if grace is None:
        calls.call("DELETE", address, reason=reason)
        told = "tasks of members that leave go to others at once"
        show({"group_id": group, "rejoin_grace_ms": None}, f"{group}: {told}", format)
        return
    grace_ms = duration_ms(grace, "DURATION")
    calls.call("PUT", address, body={"grace_ms": grace_ms}, reason=reason)
    told = f"tasks of members that leave wait {duration(grace_ms)} for them"
    show({"group_id": group, "rejoin_grace_ms": grace_ms}, f"{group}: {told}", format)
