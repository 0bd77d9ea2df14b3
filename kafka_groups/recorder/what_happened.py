"""What a recorded rebalance did and why it came: for the line of progress, and the note of the recording. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from assignor.errors import AssignorFault
from assignor.names import InstanceNames
from assignor.task_assignors.base import TaskAssignor
from rebalance_analysis.history import PastRebalance, TriggerKind
from rebalance_analysis.history.past_rebalance import SeenRebalance, see
from rebalance_analysis.presentation.rebalances import triggers_text
from rebalance_analysis.rerun import run


class Happened(NamedTuple):
    """`moved`: `6 tasks move`. `why`: `a joined with 2 threads`. Empty where it is not known."""

    moved: str = ""
    why: str = ""

    def in_words(self) -> str:
        return "; because ".join(part for part in self if part)


class WhatHappened:
    """Compares each line of a group with the one that was written before it."""

    def __init__(self, task_assignor: TaskAssignor | None = None) -> None:
        self._load = None if task_assignor is None else lambda _name: task_assignor
        self._before: SeenRebalance | None = None

    def since_the_last(self, document: Mapping[str, Any]) -> Happened:
        """Nothing for a line that cannot be run again."""
        try:
            ran = run(document, self._load)
            now = see(PastRebalance(document["generation_id"], ran), self._before)
        except AssignorFault:
            self._before = None
            return Happened()
        before, self._before = self._before, now
        active = now.placed.active()
        if before is None:
            return Happened(f"{len(active):,} active tasks")
        had = before.placed.active()
        moved = _moves(sum(1 for task, process in active.items() if had.get(task, process) != process))
        if now.facts.triggers[0].kind is TriggerKind.REJOINED:
            return Happened(moved)
        names = InstanceNames({**before.instances(), **now.instances()})
        return Happened(moved, triggers_text(now.facts.triggers, names, None))


def _moves(count: int) -> str:
    return {0: "no task moves", 1: "1 task moves"}.get(count, f"{count:,} tasks move")
