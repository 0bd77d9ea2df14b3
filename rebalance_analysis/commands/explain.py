"""`assignor explain`: shows recorded rebalances and the reasons for their changes, as the history of each group or of
one task.

The output of `assignor explain` is usually a history. But if only a FILE and `--format json` or `yaml` are given, the
output has one document for each task of each line.

A new option that selects tasks needs changes in three files. `commands/explain.py` declares the option.
`presentation/history_rows.py` makes the text of a history. `presentation/history_documents.py` makes the JSON of a
history. An option that selects tasks by their kind of change needs a history that was made with `every_task`. Only a
history compares a rebalance with the rebalance before it. `title_of` in `presentation/moves.py` returns the kind of
change of a task.
"""

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import typer

from assignor.errors import InputError
from assignor.explain import explanation_document
from assignor.names.short_names import FullNames, InstanceNames
from assignor.types import JAVA_INT_MAX, AssignorErrorCode, TaskId
from assignor_cli.console import EXIT_NO, LinesSetAside, leave, print_message
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, data_text, show
from assignor_cli.tables import View, paragraph
from coordinator_client.calls import COORDINATOR_METAVAR, DEFAULT_URL, SEVERAL_COORDINATORS
from rebalance_analysis.commands.shared_options import read_with_bar, usable
from rebalance_analysis.history import GroupHistory, TaskHistory, group_history, task_history
from rebalance_analysis.presentation.history_documents import history_document
from rebalance_analysis.presentation.history_rows import history_rows
from rebalance_analysis.presentation.reasons import with_terms_explained
from rebalance_analysis.presentation.rebalances import FactRow
from rebalance_analysis.reading.own_assignors import load_own_assignor
from rebalance_analysis.reading.recorded_group import RecordedGroup, histories_of, history_from_coordinator, history_of
from rebalance_analysis.rerun import Rerun, RerunRebalance, run

DEFAULT_LAST = 10


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """The command-line options of `explain`. The constructor raises InputError for options that exclude each other."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="JSON Lines (also gzip), directories, Parquet, a database; - for stdin. Without FILE: a coordinator.",
        ),
    ] = None
    id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Only the rebalance with this id.")] = None
    task: Annotated[
        str | None, typer.Option("--task", metavar="TASK", help="The history of this task alone, for example 0_3.")
    ] = None
    group: Annotated[
        str | None,
        typer.Option(
            "--group", metavar="GROUP", help="Only this group. Required with --task if the input has several groups."
        ),
    ] = None
    last: Annotated[
        int | None,
        typer.Option(
            "--last", metavar="N", min=1, max=JAVA_INT_MAX, help=f"The last N rebalances. Default: {DEFAULT_LAST}."
        ),
    ] = None
    every: Annotated[
        bool, typer.Option("--all", help="In text output: every task by itself, with every step of its reason.")
    ] = False
    coordinator: Annotated[
        str | None,
        typer.Option(
            "--coordinator",
            metavar=COORDINATOR_METAVAR,
            help=f"Ask this coordinator; {SEVERAL_COORDINATORS}. Default: {DEFAULT_URL}.",
        ),
    ] = None
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="File with the coordinator's bearer token.")
    ] = None
    format: FormatOption = Format.TEXT

    def __post_init__(self) -> None:
        if self.files and (self.coordinator or self.token_file):
            raise InputError("asks a running coordinator: leave the files out", "--coordinator, --token-file")
        if self.id is not None and not self.files:
            raise InputError("chooses a line of a file; a coordinator is asked by --group and --last", "--id")
        if self.id is not None and (self.last is not None or (self.format.is_data and self.shows_history)):
            raise InputError("chooses one line, no history: leave out --id, or --last, --group and --all", "--id")

    @property
    def shows_history(self) -> bool:
        """True if the output is a history; False if the output has one document for each task of each line."""
        by_itself = self.files and self.group is None and self.last is None and not self.every
        return not (by_itself and self.format.is_data)

    @property
    def most(self) -> int:
        """The largest number of rebalances that a history shows."""
        if self.id is not None:
            return 1
        return DEFAULT_LAST if self.last is None else self.last

    @property
    def only_task(self) -> TaskId | None:
        """The task that --task names; None without --task. Raises InputError for text that is not a task id."""
        if self.task is None:
            return None
        try:
            return TaskId.parse(self.task)
        except ValueError as error:
            raise InputError(str(error), "--task") from None


@options_of(options=ExplainOptions)
def explain_files(options: ExplainOptions) -> None:
    """Explain recorded rebalances: each change and its reason.

    For each rebalance of a group, shows its trigger. For each task that the rebalance changed, shows the old process,
    the new process and the reason. One line shows the number of tasks that did not change. FILE is a file of
    recordings. Without a FILE, the command reads the recordings of a running coordinator. With --format json or yaml,
    the command prints documents. A FILE alone gives one document for each task of each rebalance. With --last, --group
    or --all, the command prints the history as one document.

    The exit code is 1 if there is nothing to explain.
    """
    task = options.only_task
    set_aside = LinesSetAside()
    nothing = (
        _print_histories(options, task, set_aside) if options.shows_history else _explain(options, task, set_aside)
    )
    set_aside.leave_if_any()
    if nothing is not None:
        print_message(f"error: nothing to explain: {nothing}")
        leave(EXIT_NO)


def _print_histories(options: ExplainOptions, task: TaskId | None, set_aside: LinesSetAside) -> str | None:
    """Prints the histories of the chosen groups. Returns the reason why there is no history to print; None if a history
    was printed.
    """
    nothing: str | None = "there are no rebalances" if options.id is None else "no such task or id"
    for number, history in enumerate(_chosen(options, set_aside)):
        nothing = _print_history(history, task, options, set_aside, first=number == 0)
    return nothing


def _chosen(options: ExplainOptions, set_aside: LinesSetAside) -> list[RecordedGroup]:
    if not options.files:
        url = DEFAULT_URL if options.coordinator is None else options.coordinator
        asked = history_from_coordinator(url, options.token_file, options.group, options.most)
        return [replace(history_of(asked, options.group, options.most, set_aside), recorded=None)]
    lines = read_with_bar(options.files)
    if options.id is not None:
        everything = histories_of(lines, options.group, sys.maxsize, set_aside)
        return [only for history in everything if (only := history.only(options.id)) is not None][:1]
    if options.task is not None:
        return [history_of(lines, options.group, options.most, set_aside)]
    return histories_of(lines, options.group, options.most, set_aside)


def _print_history(
    history: RecordedGroup, task: TaskId | None, options: ExplainOptions, set_aside: LinesSetAside, *, first: bool
) -> str | None:
    """Prints the history of one group, or of one of its tasks. Returns the reason why there is no history to print;
    None if a history was printed. `first`: True for the first printed history. Prints a blank line before each further
    history.
    """
    past = history.run_again(set_aside)
    before = next(past, None) if len(history.lines) > options.most else None
    group_id, recorded, format = history.group_id, history.recorded, options.format
    found: GroupHistory | TaskHistory
    if task is not None:
        found = task_history(past, task, before)
        if not found.found:
            return f"no task {task} in these rebalances of group {group_id}"
    else:
        found = group_history(past, before, every_task=not format.is_data)
        if not found.rebalances:
            return "there are no rebalances"
    if not first and not format.is_data:
        print()
    text = partial(history_text, group_id, found, recorded, every=options.every)
    show(history_document(group_id, found), text, format)
    return None


def _explain(options: ExplainOptions, task: TaskId | None, set_aside: LinesSetAside) -> str | None:
    """Prints a document for each task of each line. Returns the reason why there is nothing to explain; None if an
    explanation was printed.
    """
    explained = 0
    lines = (
        line
        for line in read_with_bar(options.files or ())
        if options.id is None or line.document is None or line.has_id(options.id)
    )
    for ran in usable(lines, lambda line: run(line.usable_document(), load_own_assignor), set_aside):
        explained += _print(ran, task, options.format)
    return None if explained else "no such task or id"


def _print(ran: Rerun, only: TaskId | None, format: Format) -> int:
    """Prints the explanations of one rebalance, and returns the number of printed explanations."""
    explanations = ran.explanations(only)
    for explanation in explanations:
        print(data_text({"id": ran.id, **explanation_document(explanation)}, format))
    if isinstance(ran, RerunRebalance) and not explanations and only is None:
        reason = ran.error or AssignorErrorCode.NONE.name
        print(data_text({"id": ran.id, "task": None, "text": f"no task was placed: {reason}"}, format))
        return 1
    return len(explanations)


_INDENT = 2
_LABELS = 11
"""Width of the label column of a history, in characters."""


def history_text(
    group_id: str, history: GroupHistory | TaskHistory, recorded: int | None, view: View, *, every: bool
) -> str:
    """Formats a history as text. With `-o wide`, the text shows every task and every rebalance in full."""
    names = FullNames(history.instances) if view.wide else InstanceNames(history.instances)
    rows = history_rows(group_id, history, recorded, names, every=every or view.wide)
    return "\n".join(_line(row, view) for row in with_terms_explained(rows))


def _line(row: FactRow, view: View) -> str:
    indent = _INDENT * row.depth
    if row.label is None:
        return paragraph("", row.text, view, indent=indent)
    return paragraph(f"{' ' * indent}{row.label}", row.text, view, indent=indent + _LABELS)
