"""`assignor explain`: why every task is where it is after a recorded rebalance or placement problem is run again."""

from __future__ import annotations

from typing import Annotated

import typer

from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, Format, as_line, leave, say
from assignor.commands.lines import read_lines
from assignor.commands.own_assignors import load_own_assignor
from assignor.errors import AssignorFault, InputError
from assignor.explain import explanation_document
from assignor.rounds import PlacementRound, RebalanceRound, run
from assignor.types import TaskId


def register(app: typer.Typer) -> None:
    app.command("explain")(explain_file)


def explain_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON Lines, plain or gzip; - for stdin.")],
    id: Annotated[str | None, typer.Option("--id", help="Only the line with this id.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only this task, for example 0_3.")] = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Say for each task and round why the task is where it is. Exit 1 when there is nothing to explain."""
    only = None if task is None else _task(task)
    explained = unusable = 0
    for line in read_lines([file]):
        if id is not None and line.document is not None and line.document.get("id") != id:
            continue
        try:
            if line.document is None:
                raise InputError(line.problem or "is not usable")
            ran = run(line.document, load_own_assignor)
        except AssignorFault as error:
            unusable += 1
            say(f"{line.where}: {error}")
            continue
        explained += _print(ran, only, format)
    if unusable:
        leave(EXIT_UNUSABLE)
    if not explained:
        say("nothing to explain: no such task or id")
        leave(EXIT_NO)


def _print(ran: RebalanceRound | PlacementRound, only: TaskId | None, format: Format) -> int:
    explanations = ran.explanations(only)
    for explanation in explanations:
        if format is Format.JSON:
            print(as_line({"id": ran.id, **explanation_document(explanation)}))
        else:
            print(f"{ran.id} {explanation.text}")
    if isinstance(ran, RebalanceRound) and not explanations and only is None:
        print(_ended_early(ran, format))
        return 1
    return len(explanations)


def _ended_early(ran: RebalanceRound, format: Format) -> str:
    error = ran.result.error
    reason = ran.result.error_code.name if error is None else error.as_recorded()
    if format is Format.JSON:
        return as_line({"id": ran.id, "task": None, "text": f"no task was placed: {reason}"})
    return f"{ran.id} no task was placed: {reason}"


def _task(text: str) -> TaskId:
    try:
        return TaskId.parse(text)
    except ValueError as error:
        raise InputError(str(error), "--task") from None
