"""`assignor explain`: why every task is where it is after a recorded rebalance or placement problem is run again; and,
with --last or --group or asked of a coordinator, the story of one task or of the whole group over its last rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, Format, as_line, leave, say
from assignor.commands.explain_history import group_story_lines, task_story_lines
from assignor.commands.past_rounds import Chosen, from_coordinator, from_lines
from assignor.errors import AssignorFault, InputError
from assignor.explain import explanation_document
from assignor.reading.lines import read_lines
from assignor.reading.own_assignors import load_own_assignor
from assignor.rerun import Rerun, RerunRebalance, run
from assignor.story import group_story, group_story_document, story, task_story_document
from assignor.types import TaskId

DEFAULT_COORDINATOR = "http://127.0.0.1:8080"
DEFAULT_LAST = 10


def register(app: typer.Typer) -> None:
    app.command("explain")(explain_files)


def explain_files(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="JSON Lines, plain or gzip, a directory, Parquet or a database; - for stdin. None: a coordinator.",
        ),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Only the line with this id.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only this task, for example 0_3.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Tell the story of this group. Needed when there are several.")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", min=1, help=f"Tell the story of so many rounds. Default: {DEFAULT_LAST}.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="In a story, also rounds without a change in full.")] = False,
    coordinator: Annotated[
        str | None,
        typer.Option("--coordinator", metavar="URL", help=f"Ask this one. Default: {DEFAULT_COORDINATOR}."),
    ] = None,
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="File with the coordinator's bearer token.")
    ] = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Say for each task and round why the task is where it is; or tell what became of a task over the last rounds.

    Exit 1 when there is nothing to explain.
    """
    only = None if task is None else _task(task)
    if files and (coordinator or token_file):
        raise InputError("asks a running coordinator: leave the files out", "--coordinator, --token-file")
    if files and group is None and last is None and not every:
        _explain_lines(files, id, only, format)
        return
    if id is not None:
        raise InputError("chooses one line; a story has several: leave --id or --last and --group out", "--id")
    rounds = DEFAULT_LAST if last is None else last
    if files:
        chosen = from_lines(read_lines(files), group, rounds)
        _tell(chosen, only, rounds, chosen.recorded, format, every=every)
    else:
        url = DEFAULT_COORDINATOR if coordinator is None else coordinator
        _tell(from_coordinator(url, token_file, group, rounds), only, rounds, None, format, every=every)


def _tell(chosen: Chosen, task: TaskId | None, last: int, recorded: int | None, format: Format, *, every: bool) -> None:
    """One more round was chosen where there is one: the first one told is compared with it."""
    past = chosen.run()
    before = next(past, None) if len(chosen.lines) > last else None
    if task is None:
        whole = group_story(past, before)
        found = bool(whole.rounds)
        lines = group_story_lines(chosen.group_id, whole, recorded)
        document = group_story_document(chosen.group_id, whole)
    else:
        told = story(past, task, before)
        found = told.found
        lines = task_story_lines(chosen.group_id, told, recorded, every=every)
        document = task_story_document(chosen.group_id, told)
    if found:
        for line in [as_line(document)] if format is Format.JSON else lines:
            print(line)
    if chosen.unusable:
        leave(EXIT_UNUSABLE)
    if not found:
        what = "there are no rounds" if task is None else f"no task {task} in these rounds of group {chosen.group_id}"
        say(f"nothing to explain: {what}")
        leave(EXIT_NO)


def _explain_lines(files: Sequence[str], id: str | None, only: TaskId | None, format: Format) -> None:
    explained = unusable = 0
    for line in read_lines(files):
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


def _print(ran: Rerun, only: TaskId | None, format: Format) -> int:
    explanations = ran.explanations(only)
    for explanation in explanations:
        if format is Format.JSON:
            print(as_line({"id": ran.id, **explanation_document(explanation)}))
        else:
            print(f"{ran.id} {explanation.text}")
    if isinstance(ran, RerunRebalance) and not explanations and only is None:
        print(_ended_early(ran, format))
        return 1
    return len(explanations)


def _ended_early(ran: RerunRebalance, format: Format) -> str:
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
