"""`assignor explain`: why every task is where it is after a recorded rebalance or placement problem is run again; and,
with --last or --group or asked of a coordinator, the story of one task or of the whole group over its last rebalances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from assignor.commands.console import EXIT_NO, LinesSetAside, leave, say
from assignor.commands.explain_history import group_story_lines, task_story_lines
from assignor.commands.help_texts import example
from assignor.commands.option_groups import options_of
from assignor.commands.output import Format, FormatOption, show
from assignor.commands.reading_bar import read_with_bar
from assignor.errors import AssignorFault, InputError
from assignor.explain import explanation_document
from assignor.reading.group_history import history_from_coordinator, history_of
from assignor.reading.own_assignors import load_own_assignor
from assignor.rerun import Rerun, RerunRebalance, run
from assignor.story import PastRebalance, group_story, group_story_document, story, task_story_document
from assignor.types import TaskId

DEFAULT_COORDINATOR = "http://127.0.0.1:8080"
DEFAULT_LAST = 10


def register(app: typer.Typer) -> None:
    app.command(
        "explain", epilog=example("explain recordings/orders.jsonl.gz", "explain --group orders --task 0_3 --last 5")
    )(explain_files)


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """What is to be explained. Raises InputError for options that do not go together."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="JSON Lines, plain or gzip, directories, Parquet, a database; - for stdin. None: ask a coordinator.",
        ),
    ] = None
    id: Annotated[str | None, typer.Option("--id", help="Only the line with this id.")] = None
    task: Annotated[str | None, typer.Option("--task", help="Only this task, for example 0_3.")] = None
    group: Annotated[
        str | None, typer.Option("--group", help="Tell the story of this group. Required when there are several.")
    ] = None
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, help=f"Tell the story of the last N rebalances. Default: {DEFAULT_LAST}."),
    ] = None
    every: Annotated[bool, typer.Option("--all", help="In a story, also show rebalances without a change in full.")] = (
        False
    )
    coordinator: Annotated[
        str | None,
        typer.Option("--coordinator", metavar="URL", help=f"Ask this coordinator. Default: {DEFAULT_COORDINATOR}."),
    ] = None
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="File with the coordinator's bearer token.")
    ] = None
    format: FormatOption = Format.TEXT

    def __post_init__(self) -> None:
        if self.files and (self.coordinator or self.token_file):
            raise InputError("asks a running coordinator: leave the files out", "--coordinator, --token-file")
        if self.tells_story and self.id is not None:
            raise InputError("chooses one line; a story has several: leave --id or --last and --group out", "--id")

    @property
    def tells_story(self) -> bool:
        """A story over several rebalances, not each line by itself."""
        return not self.files or self.group is not None or self.last is not None or self.every

    @property
    def only_task(self) -> TaskId | None:
        """Raises InputError for text that is no task."""
        if self.task is None:
            return None
        try:
            return TaskId.parse(self.task)
        except ValueError as error:
            raise InputError(str(error), "--task") from None


@options_of(options=ExplainOptions)
def explain_files(options: ExplainOptions) -> None:
    """Tell what happened in recorded rebalances, and why.

    Exit 1 when there is nothing to explain.
    """
    task = options.only_task
    set_aside = LinesSetAside()
    nothing = _tell_story(options, task, set_aside) if options.tells_story else _explain(options, task, set_aside)
    set_aside.leave_if_any()
    if nothing is not None:
        say(f"nothing to explain: {nothing}")
        leave(EXIT_NO)


def _tell_story(options: ExplainOptions, task: TaskId | None, set_aside: LinesSetAside) -> str | None:
    """Why there is no story, None when it was told."""
    last = DEFAULT_LAST if options.last is None else options.last
    if options.files:
        history = history_of(read_with_bar(options.files), options.group, last, set_aside)
        recorded: int | None = history.recorded
    else:
        url = DEFAULT_COORDINATOR if options.coordinator is None else options.coordinator
        asked = history_from_coordinator(url, options.token_file, options.group, last)
        history = history_of(asked, options.group, last, set_aside)
        recorded = None
    past = history.run_again(set_aside)
    before = next(past, None) if len(history.lines) > last else None
    if task is None:
        return _tell_of_group(history.group_id, past, before, recorded, options)
    return _tell_of_task(history.group_id, task, past, before, recorded, options)


def _tell_of_group(
    group_id: str,
    past: Iterator[PastRebalance],
    before: PastRebalance | None,
    recorded: int | None,
    options: ExplainOptions,
) -> str | None:
    told = group_story(past, before)
    if not told.rebalances:
        return "there are no rebalances"
    show(
        group_story_document(group_id, told),
        lambda view: "\n".join(group_story_lines(group_id, told, recorded)),
        options.format,
    )
    return None


def _tell_of_task(
    group_id: str,
    task: TaskId,
    past: Iterator[PastRebalance],
    before: PastRebalance | None,
    recorded: int | None,
    options: ExplainOptions,
) -> str | None:
    told = story(past, task, before)
    if not told.found:
        return f"no task {task} in these rebalances of group {group_id}"
    show(
        task_story_document(group_id, told),
        lambda view: "\n".join(task_story_lines(group_id, told, recorded, every=options.every)),
        options.format,
    )
    return None


def _explain(options: ExplainOptions, task: TaskId | None, set_aside: LinesSetAside) -> str | None:
    """Each line by itself. Why nothing was explained, None when something was."""
    explained = 0
    for line in read_with_bar(options.files or ()):
        if options.id is not None and line.document is not None and line.document.get("id") != options.id:
            continue
        try:
            ran = run(line.usable_document(), load_own_assignor)
        except AssignorFault as error:
            set_aside(line.where, error)
            continue
        explained += _print(ran, task, options.format)
    return None if explained else "no such task or id"


def _print(ran: Rerun, only: TaskId | None, format: Format) -> int:
    """How many explanations there were."""
    explanations = ran.explanations(only)
    for explanation in explanations:
        show({"id": ran.id, **explanation_document(explanation)}, f"{ran.id} {explanation.text}", format)
    if isinstance(ran, RerunRebalance) and not explanations and only is None:
        problem = f"no task was placed: {_reason_of_early_end(ran)}"
        show({"id": ran.id, "task": None, "text": problem}, f"{ran.id} {problem}", format)
        return 1
    return len(explanations)


def _reason_of_early_end(ran: RerunRebalance) -> str:
    error = ran.result.error
    return ran.result.error_code.name if error is None else error.as_recorded()
