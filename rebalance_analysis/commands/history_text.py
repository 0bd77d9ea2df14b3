"""Histories on a terminal: the rows of a task's or a group's history, wrapped to the width that is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assignor.names import FullNames, InstanceNames, ShortNames
from assignor.types import ProcessId
from assignor_cli.tables import View, paragraph
from rebalance_analysis.history import GroupHistory, TaskHistory
from rebalance_analysis.presentation.group_rows import group_history_rows
from rebalance_analysis.presentation.rebalances import FactRow
from rebalance_analysis.presentation.task_rows import task_history_rows

_INDENT = 2
_LABELS = 11
"""How wide the column of labels is."""


def task_history_text(group_id: str, history: TaskHistory, recorded: int | None, view: View, *, every: bool) -> str:
    """See `task_history_rows`; `-o wide` has every rebalance in full."""
    names = names_for(history.instances, view)
    return _text(task_history_rows(group_id, history, recorded, names, every=every or view.wide), view)


def group_history_text(group_id: str, history: GroupHistory, recorded: int | None, view: View, *, every: bool) -> str:
    """See `group_history_rows`; `-o wide` has every task in full."""
    names = names_for(history.instances, view)
    return _text(group_history_rows(group_id, history, recorded, names, every=every or view.wide), view)


def names_for(instances: Mapping[ProcessId, str | None], view: View) -> ShortNames:
    return FullNames(instances) if view.wide else InstanceNames(instances)


def _text(rows: Iterable[FactRow], view: View) -> str:
    return "\n".join(_line(row, view) for row in rows)


def _line(row: FactRow, view: View) -> str:
    indent = _INDENT * row.depth
    if row.label is None:
        return paragraph("", row.text, view, indent=indent)
    return paragraph(f"{' ' * indent}{row.label}", row.text, view, indent=indent + _LABELS)
