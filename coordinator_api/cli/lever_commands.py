"""The commands of `assignor groups` for levers, which are operator commands that Kafka does not have.

Each command has a `--reason`, which the coordinator's audit log and the description of the group show.
"""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

import typer

from assignor.errors import InputError
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import show
from assignor_cli.tables import Column, View
from coordinator_api.cli.calls import Cell, GroupCommand, OperatorCommand, document_table, duration_ms
from coordinator_api.views import DONE, EFFECTS, missing_of_drain, moves_of_held
from rebalance_analysis.presentation.forecasts import verdict
from rebalance_analysis.presentation.moves import copy_changes
from rebalance_analysis.presentation.quantities import duration_text

GenerationOption = Annotated[
    int | None,
    typer.Option(
        "--generation", metavar="N", help="Generation of the rebalance. Default: the rebalance that waits for approval."
    ),
]

levers = typer.Typer()

_SOME_PROCESS = "2230ea3e-4048-4d7d-bee0-e650940ec648"
_PROCESS_DIGITS = 8


_CHANGED_TASKS: Sequence[Cell] = (
    (Column("TASK"), lambda each, view: each.task),
    (Column("ACTIVE", wrap=True, optional=True), lambda each, view: " -> ".join(each.active or ())),
    (Column("STANDBY", wrap=True, optional=True), lambda each, view: each.standby),
    (Column("WARM-UP", wrap=True, optional=True), lambda each, view: each.warm_up),
)


@levers.command("drain", epilog=example("groups drain orders", f"groups drain orders --instance {_SOME_PROCESS}"))
@options_of(command=OperatorCommand)
def drain(
    command: OperatorCommand,
    instance: Annotated[
        str | None, typer.Option("--instance", metavar="PROCESS", help="Drain only the instance with this process id.")
    ] = None,
    member: Annotated[str | None, typer.Option("--member", metavar="ID", help="Drain only this member.")] = None,
    end: Annotated[bool, typer.Option("--end", help="End the drain of the instance or the member.")] = False,
) -> None:
    """Stop all members, or move the tasks of one instance.

    If --instance or --member is given, no member stops. Each task of the drained instance or member moves to another
    instance as soon as the other instance has caught up. Repeat the command to see which tasks still have to move, and
    whether the instance or member can be stopped.
    """
    group = command.group
    if instance is None and member is None and not end:
        command.send("POST", "/drain")
        command.show({"draining": True}, DONE["stop-all"])
        return
    if (instance is None) == (member is None):
        raise InputError("name what is drained: one instance or one member", "--instance, --member")
    if instance is not None and not _is_process_id(instance):
        shows = f"as `assignor groups describe {group} -o wide` shows them"
        raise InputError(f"must be a whole process id, {shows}, not {instance[:80]!r}", "--instance")
    target = member or instance
    if end:
        command.send("DELETE", "/drain", instance=instance, member=member)
        command.show({"drained": target, "ended": True}, f"{target} may have tasks again")
        return
    command.send("POST", "/drain", instance=instance, member=member)
    answer = command.get(f"{command.path}/drain", instance=instance, member=member)
    if answer["safe_to_stop"]:
        text = f"{group}: {target} has no active tasks, and can be stopped"
    else:
        missing = [f"  {each}" for each in missing_of_drain(answer)]
        text = "\n".join([f"{group}: {target} is being drained; do not stop it yet", *missing])
    show(answer, text, command.format)


def _is_process_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


@levers.command("promote", epilog=example("groups promote orders", "groups promote orders --off"))
@options_of(command=OperatorCommand)
def promote(
    command: OperatorCommand,
    off: Annotated[bool, typer.Option("--off", help="Wait for the probing deadline, as Kafka does.")] = False,
) -> None:
    """Rebalance as soon as all warm-ups have caught up."""
    command.send("DELETE" if off else "PUT", "/promotion")
    command.show({"promotion": not off}, DONE["promote-off" if off else "promote"])


@levers.command("rebalance", epilog=example("groups rebalance orders --reason 'after the disk was replaced'"))
@options_of(command=OperatorCommand)
def request_rebalance(command: OperatorCommand) -> None:
    """Start a rebalance now."""
    command.send("POST", "/rebalance")
    command.show({"rebalance": "requested"}, DONE["rebalance"])


@levers.command("pause", epilog=example("groups pause orders --reason 'the database is being moved'"))
@options_of(command=OperatorCommand)
def pause_group(command: OperatorCommand) -> None:
    """Pause all members: they process no records until a resume.

    Paused members stay in the group, restore their state and keep standbys up to date.
    """
    command.send("POST", "/pause")
    command.show({"paused": True}, DONE["pause"])


@levers.command("resume", epilog=example("groups resume orders"))
@options_of(command=OperatorCommand)
def resume_group(command: OperatorCommand) -> None:
    """End a pause: members continue where they stopped."""
    command.send("POST", "/resume")
    command.show({"paused": False}, DONE["resume"])


@levers.command("grace", epilog=example("groups grace orders 60s", "groups grace orders --off"))
@options_of(command=OperatorCommand)
def set_rejoin_grace(
    command: OperatorCommand,
    grace: Annotated[
        str | None, typer.Argument(metavar="[DURATION]", help="Time for which tasks are reserved, such as 60s or 5m.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Do not reserve tasks, as in Kafka.")] = False,
) -> None:
    """For a limited time, reserve the tasks of members that leave.

    A process that comes back in time continues with its tasks, and no rebalance runs.
    """
    if off == (grace is not None):
        raise InputError("give a duration such as 60s, or --off", "DURATION")
    if grace is None:
        command.send("DELETE", "/rejoin-grace")
        command.show({"rejoin_grace_ms": None}, DONE["grace-off"])
        return
    setting = {"grace_ms": duration_ms(grace, "DURATION")}
    command.send("PUT", "/rejoin-grace", setting)
    command.show({"rejoin_grace_ms": setting["grace_ms"]}, EFFECTS["rejoin_grace"](setting))


@levers.command("hold", epilog=example("groups hold orders --time-limit 30m", "groups hold orders --off"))
@options_of(command=OperatorCommand)
def hold(
    command: OperatorCommand,
    time_limit: Annotated[
        str, typer.Option("--time-limit", metavar="TIME", help="Longest wait for approval: 60s, 10m, 1h30m.")
    ] = "10m",
    off: Annotated[
        bool,
        typer.Option(
            "--off", help="End the hold, and carry out the rebalance that waits for approval.", show_default=False
        ),
    ] = False,
) -> None:
    """Make rebalances that move tasks wait for approval.

    Members continue with their present tasks while a rebalance waits. If the owner of a task has failed or left, the
    task is placed at once.
    """
    if off:
        command.send("DELETE", "/hold")
        command.show({"hold": None}, DONE["hold-off"])
        return
    setting = {"time_limit_ms": duration_ms(time_limit, "--time-limit")}
    command.send("PUT", "/hold", setting)
    command.show({"hold": setting}, EFFECTS["hold"](setting))


@levers.command("held", epilog=example("groups held orders"))
@options_of(command=GroupCommand)
def show_held(command: GroupCommand) -> None:
    """Show the rebalance that waits for approval, and its moves."""
    document = command.get(f"{command.path}/hold")
    show(document, lambda view: _held_text(command.group, document, view), command.format)


@levers.command("approve", epilog=example("groups approve orders --generation 12"))
@options_of(command=OperatorCommand)
def approve(command: OperatorCommand, generation: GenerationOption = None) -> None:
    """Carry out the rebalance that waits for approval.

    The approval also covers the rebalances that follow from the approved rebalance.
    """
    approved = command.send("POST", "/approve", generation=generation)["generation_id"]
    command.show({"approved": approved}, f"the rebalance of generation {approved} is carried out")


@levers.command("discard", epilog=example("groups discard orders --reason 'not during the sale'"))
@options_of(command=OperatorCommand)
def discard(command: OperatorCommand, generation: GenerationOption = None) -> None:
    """Discard the rebalance that waits for approval.

    After a discard, all tasks stay where they are. The command needs a reason.
    """
    if not command.reason:
        raise InputError("say why, for those who find it in the history", "--reason")
    discarded = command.send("POST", "/discard", generation=generation)["generation_id"]
    what = f"the rebalance of generation {discarded} is discarded; tasks stay where they are"
    command.show({"discarded": discarded}, what)


def held_line(held: Any, view: View) -> str:
    """Describes a rebalance that waits, in one line. `held`: the JSON object `held_rebalance` of the group."""
    left_ms = held["until_ms"] - view.now_ms
    until = f"for {duration_text(left_ms)} more" if left_ms > 0 else "no more"
    return f"a rebalance (generation {held['generation_id']}) waits for approval {until}: {moves_of_held(held)}"


def _held_text(group: str, document: Any, view: View) -> str:
    held = document["held"]
    if held is None:
        rule = "rebalances do not wait for approval" if document["hold"] is None else "no rebalance waits for approval"
        return f"{group}: {rule}"
    lines = [f"{group}: {held_line(held, view)}"]
    if held["difference"] is not None:
        changed = [
            copy_changes(each, lambda process: process[:_PROCESS_DIGITS]) for each in held["difference"]["tasks"]
        ]
        lines += ["", document_table("No task would be elsewhere.", _CHANGED_TASKS, changed, view)]
    if held["forecast"] is not None:
        moves = held["forecast"]["active_moves"]
        lines += ["", f"If approved now: {verdict(held['forecast'])} Moves of active tasks in all: {moves:,}."]
    return "\n".join(lines)
