"""`assignor diff`: lists the tasks that moved between two outputs or recordings."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import typer

from assignor.errors import AssignorFault, InputError
from assignor.names.short_names import short_members
from assignor_cli.console import EXIT_NO, leave
from assignor_cli.output import Format, FormatOption, show
from assignor_cli.tables import View, fitted
from rebalance_analysis.commands.shared_options import read_with_bar
from rebalance_analysis.presentation.comparisons import diff_rows
from rebalance_analysis.reading.task_owners import TaskOwners, owner_moves, owners_in, tasks_of


def diff_files(
    a: Annotated[str, typer.Argument(metavar="A", help="A recording or the output of assign; FILE#ID for one line.")],
    b: Annotated[str, typer.Argument(metavar="B", help="A recording or the output of assign, to compare with A.")],
    format: FormatOption = Format.TEXT,
) -> None:
    """List the tasks whose owner in B is another member than in A.

    Compares the lines of A and B that have the same id. If A and B have one line each, compares these lines even if
    their ids differ. The exit code is 1 if a task moved, as in the Unix command `diff`.
    """
    moved = 0
    for name, before, after in _pairs(_lines_of(a), _lines_of(b)):
        moves = list(owner_moves(before, after))
        moved += len(moves)
        document = {"id": name, "tasks": len(tasks_of(before, after)), "moves": moves}
        show(document, partial(_text, document), format)
    if moved:
        leave(EXIT_NO)


def _lines_of(source: str) -> dict[str, TaskOwners]:
    """Returns the task owners of each line of `source`, by the id of the line. Raises InputError if a line has no
    output.
    """
    file, _, wanted = source.partition("#")
    lines: dict[str, TaskOwners] = {}
    for line in read_with_bar([file]):
        if line.document is None:
            raise InputError(line.problem or "is not usable", line.where)
        name = line.document.get("id")
        if wanted and not line.has_id(wanted):
            continue
        if not isinstance(name, str) or name in lines:
            raise InputError("has no id of its own", line.where)
        try:
            lines[name] = owners_in(line.document)
        except AssignorFault as error:
            raise InputError(str(error), line.where) from error
    if not lines:
        raise InputError(f"has no line with the id {wanted!r}" if wanted else "has no lines", file)
    return lines


def _pairs(a: Mapping[str, TaskOwners], b: Mapping[str, TaskOwners]) -> Iterator[tuple[str, TaskOwners, TaskOwners]]:
    if len(a) == len(b) == 1:
        (name_a, before), (name_b, after) = *a.items(), *b.items()
        yield name_a if name_a == name_b else f"{name_a} -> {name_b}", before, after
        return
    common = [name for name in a if name in b]
    if not common:
        raise InputError("no id is in both; name one line of each as FILE#ID")
    for name in common:
        yield name, a[name], b[name]


def _text(document: Mapping[str, Any], view: View) -> str:
    """Returns a text with a line for each moved task. The heading of a comparison has the id of the compared lines.
    With `-o wide`, each line begins with this id.
    """
    name, short = document["id"], {} if view.wide else short_members(_members(document["moves"]))
    lines = diff_rows(document, short)
    if view.wide:
        return "\n".join(f"{name} {line}" for line in lines)
    return fitted("\n".join([name, *(f"  {line}" for line in lines)]), view)


def _members(moves: Iterable[Mapping[str, Any]]) -> set[str]:
    sides = (side for move in moves for side in (move["active"], move["standby"]) if side is not None)
    return {member for side in sides for members in side.values() for member in members}
