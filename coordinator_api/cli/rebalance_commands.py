"""`assignor rebalances`: lists and explains the recorded rebalances of a group."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from assignor.errors import AssignorFault, InputError
from assignor.recording.fields import as_task_id
from assignor.types import JAVA_INT_MAX, TaskId
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import ResultOutput, output_from_options, show
from assignor_cli.tables import Column, View, age_text, paragraph
from coordinator_api.cli.calls import Cell, CoordinatorCalls, GroupArgument, GroupCommand, document_table
from coordinator_api.views import hold_text
from coordinator_client.calls import group_path
from rebalance_analysis.commands.explain import history_text
from rebalance_analysis.history import PastRebalance, group_history, task_history
from rebalance_analysis.presentation.moves import ChangeTitle
from rebalance_analysis.presentation.quantities import counted, utc_iso
from rebalance_analysis.reading.own_assignors import load_own_assignor
from rebalance_analysis.rerun import run

rebalances = typer.Typer(help="The recorded rebalances of a group.", no_args_is_help=True)

_REBALANCES: Sequence[Cell] = (
    (Column("GENERATION", right=True), lambda each, view: each["generation_id"]),
    (Column("REASON", wrap=True), lambda each, view: each["reason"]),
    (Column("OUTCOME", wrap=True), lambda each, view: each["outcome"]),
    (Column("MEMBERS", right=True), lambda each, view: each["members"]),
    (Column("TIME", wide=True), lambda each, view: utc_iso(each["now_ms"])),
    (Column("APPROVAL", wrap=True, optional=True), lambda each, view: hold_text(each.get("hold"))),
    (Column("ERROR", wrap=True, optional=True), lambda each, view: each["error"]),
    (Column("AGE"), lambda each, view: age_text(each["now_ms"], view.now_ms)),
)


@rebalances.command("list", epilog=example("rebalances list orders --limit 5"))
@options_of(calls=CoordinatorCalls, output=output_from_options)
def list_rebalances(
    group: GroupArgument,
    calls: CoordinatorCalls,
    output: ResultOutput,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Largest number of rebalances to list.")] = 20,
    before: Annotated[
        int | None, typer.Option(min=0, max=JAVA_INT_MAX, help="List only generations below this number.")
    ] = None,
) -> None:
    """List the last rebalances with their causes and outcomes."""
    path = f"{group_path(group)}/rebalances"
    output.show(lambda: calls.get(path, limit=limit, before=before), rebalance_list)


def rebalance_list(document: Any, view: View) -> str:
    return document_table("No rebalances.", _REBALANCES, document["rebalances"], view)


@rebalances.command("show", epilog=example("rebalances show orders 7", "rebalances show orders 7 --task 0_3"))
@options_of(command=GroupCommand)
def show_rebalance(
    command: GroupCommand,
    generation: Annotated[int, typer.Argument(min=0, help="Generation of the rebalance.")],
    task: Annotated[str | None, typer.Option("--task", help="Only this task, for example 0_3. Text only.")] = None,
) -> None:
    """Explain one rebalance.

    Shows the triggers of the rebalance, and each move of a task with its reason, like `assignor explain`.
    By default, one line states the number of tasks that do not move. With --format wide, each task that does not move
    has its own line. With --format json or yaml, prints the recorded rebalance/1 document. `assignor assign` can run a
    rebalance/1 document.
    """
    path = f"{command.path}/rebalances"
    recorded = command.get(f"{path}/{generation}")
    if command.format.is_data:
        show(recorded, "", command.format)
        return
    only = None if task is None else as_task_id(task, "--task")
    earlier = command.get(path, limit=1, before=generation)["rebalances"]
    before = _past(command.get(f"{path}/{earlier[0]['generation_id']}")) if earlier else None
    past = _past(recorded)
    if past is None:
        # The rebalance cannot be run here, for example without the group's custom assignor. The coordinator runs the
        # rebalance instead.
        explained = command.get(f"{path}/{generation}/explain", task=task)
        show(explained, lambda view: _explanations(explained, view), command.format)
    else:
        show(recorded, _rebalance_text(command.group, past, before, only), command.format)


def _rebalance_text(
    group_id: str, past: PastRebalance, before: PastRebalance | None, only: TaskId | None
) -> Callable[[View], str]:
    """The text of `assignor explain` for a rebalance. Raises InputError for a task that the rebalance does not have."""
    if only is None:
        whole = group_history([past], before, every_task=True)
        return lambda view: history_text(group_id, whole, None, view, every=view.wide)
    of_task = task_history([past], only, before)
    if not of_task.found:
        raise InputError(f"there is no task {only} in this rebalance of group {group_id}", "--task")
    return functools.partial(history_text, group_id, of_task, None, every=True)


def _past(document: Mapping[str, Any]) -> PastRebalance | None:
    """Runs a recorded rebalance again. Returns None if the rebalance cannot be run here."""
    try:
        return PastRebalance(document["generation_id"], run(document, load_own_assignor))
    except AssignorFault:
        return None


def _explanations(document: Any, view: View) -> str:
    if document["error"]:
        return f"generation {document['generation_id']} failed: {document['error']}"
    every = document["explanations"]
    shown = every if view.wide or len(every) == 1 else [each for each in every if each["outcome"] != "kept"]
    lines = [paragraph(each["task"], each["text"].partition(" ")[2], view, indent=6) for each in shown]
    kept = len(every) - len(shown)
    if kept:
        lines.append(f"{counted(kept, 'task')} {ChangeTitle.STAYS.of(kept)}")
    if not document["same_result"]:
        lines.insert(
            0, "Run again, this rebalance decides otherwise than recorded. The reasons are those of the new run."
        )
    return "\n".join(lines) or "No tasks."
