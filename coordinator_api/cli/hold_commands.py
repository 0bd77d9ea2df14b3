"""Hold and approve among the commands of `assignor groups`: computed rebalances that wait until somebody agrees."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from assignor.commands.help_texts import example
from assignor.commands.option_groups import options_of
from assignor.commands.output import Format, FormatOption, show
from assignor.commands.tables import Column, View, table_text
from assignor.coordinator_calls import group_path
from assignor.errors import InputError
from assignor.story.words import duration
from coordinator_api.cli.call_options import CoordinatorCalls, GroupArgument, ReasonOption
from coordinator_api.cli.durations import duration_ms
from coordinator_api.cli.lever_lines import held_in_words

GenerationOption = Annotated[
    int | None,
    typer.Option("--generation", metavar="N", help="The rebalance that was looked at. Default: whichever waits."),
]

_MOVES = (
    Column("TASK"),
    Column("ACTIVE", wrap=True, optional=True),
    Column("STANDBY", wrap=True, optional=True),
    Column("WARM-UP", wrap=True, optional=True),
)
_PROCESS_DIGITS = 8


def register(groups: typer.Typer) -> None:
    """Add the commands to `assignor groups`."""
    groups.command("hold", epilog=example("groups hold orders --time-limit 30m", "groups hold orders --off"))(hold)
    groups.command("held", epilog=example("groups held orders"))(show_held)
    groups.command("approve", epilog=example("groups approve orders --generation 12"))(approve)
    groups.command("discard", epilog=example("groups discard orders --reason 'not during the sale'"))(discard)


@options_of(calls=CoordinatorCalls)
def hold(
    group: GroupArgument,
    calls: CoordinatorCalls,
    time_limit: Annotated[
        str, typer.Option("--time-limit", metavar="TIME", help="Then it is carried out: 60s, 10m, 1h30m.")
    ] = "10m",
    off: Annotated[
        bool, typer.Option("--off", help="Hold no more. A rebalance that waits is carried out.", show_default=False)
    ] = False,
    reason: ReasonOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Have rebalances that move tasks wait for approval.

    Members go on with the tasks they have. Tasks whose owner has died or left are placed at once.
    """
    if off:
        calls.call("DELETE", f"{group_path(group)}/hold", reason=reason)
        show({"group_id": group, "hold": None}, f"{group}: rebalances do not wait any more", format)
        return
    limit_ms = duration_ms(time_limit, "--time-limit")
    calls.call("PUT", f"{group_path(group)}/hold", body={"time_limit_ms": limit_ms}, reason=reason)
    show(
        {"group_id": group, "hold": {"time_limit_ms": limit_ms}},
        f"{group}: rebalances that move tasks wait {duration(limit_ms)} for approval",
        format,
    )


@options_of(calls=CoordinatorCalls)
def show_held(group: GroupArgument, calls: CoordinatorCalls, format: FormatOption = Format.TEXT) -> None:
    """Show the rebalance that waits, and what it would move."""
    document = calls.get(f"{group_path(group)}/hold")
    show(document, lambda view: held_text(group, document, view), format)


@options_of(calls=CoordinatorCalls)
def approve(
    group: GroupArgument,
    calls: CoordinatorCalls,
    generation: GenerationOption = None,
    reason: ReasonOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Carry out the rebalance that waits, and what follows it."""
    answer = calls.call("POST", f"{group_path(group)}/approve", generation=generation, reason=reason)
    text = f"{group}: the rebalance of generation {answer['generation_id']} is carried out"
    show({"group_id": group, "approved": answer["generation_id"]}, text, format)


@options_of(calls=CoordinatorCalls)
def discard(
    group: GroupArgument,
    calls: CoordinatorCalls,
    generation: GenerationOption = None,
    reason: ReasonOption = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Discard the rebalance that waits: all tasks stay. It needs a reason."""
    if not reason:
        raise InputError("say why, for those who find it in the history", "--reason")
    answer = calls.call("POST", f"{group_path(group)}/discard", generation=generation, reason=reason)
    text = f"{group}: the rebalance of generation {answer['generation_id']} is discarded; tasks stay where they are"
    show({"group_id": group, "discarded": answer["generation_id"]}, text, format)


def held_text(group: str, document: Any, view: View) -> str:
    held = document["held"]
    if held is None:
        rule = "rebalances do not wait for approval" if document["hold"] is None else "no rebalance waits for approval"
        return f"{group}: {rule}"
    lines = [f"{group}: {held_in_words(held, view)}"]
    if held["difference"] is not None:
        rows = ((each["task"], *_copies(each)) for each in held["difference"]["tasks"])
        lines += ["", table_text("No task would be elsewhere.", _MOVES, rows, view)]
    if held["forecast"] is not None:
        lines += ["", _forecast_text(held["forecast"])]
    return "\n".join(lines)


def _copies(task: Any) -> tuple[str, str, str]:
    """What moves of one task, by role: `from -> to`, or who loses and who gets a copy."""
    active = task["active"]
    moves = active["from"] != active["to"]
    return (
        f"{_short(active['from'])} -> {_short(active['to'])}" if moves else "",
        _gone_and_new(task["standby"]),
        _gone_and_new(task["warm_up"]),
    )


def _gone_and_new(copies: Any) -> str:
    return " ".join([f"-{_short(one)}" for one in copies["gone"]] + [f"+{_short(one)}" for one in copies["new"]])


def _short(process: str | None) -> str:
    return "nowhere" if process is None else process[:_PROCESS_DIGITS]


def _forecast_text(forecast: Any) -> str:
    after = forecast["stable_after_ms"]
    rounds, moves = len(forecast["rounds"]), forecast["active_moves"]
    ends = "not stable" if after is None else f"stable after {duration(after)}"
    return f"Approved now: {ends}, with {rounds} rebalances and {moves} moves of active tasks ({forecast['end']})."
