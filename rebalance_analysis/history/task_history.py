"""One task over recorded rebalances: where it ran and why, how often it moved, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from assignor.types import ProcessId, Role, TaskId
from rebalance_analysis.history.past_rebalance import PastRebalance, see
from rebalance_analysis.history.recorded_copies import PlacedCopy
from rebalance_analysis.history.task_rebalance import TaskChange, TaskInRebalance, TaskRebalance, TaskWaiting, active_of


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """`moves`: how often the process that runs the task changed. `without_owner_ms`: from each rebalance that gave the
    task to no member to the next one that did; the time between the death of an owner and its rebalance is not
    included. `without_owner_since_ms`: the time of the last rebalance, when it gave the task to no member.
    """

    moves: int
    warm_up_rounds: int
    without_owner_ms: int
    without_owner_since_ms: int | None
    copies: tuple[PlacedCopy, ...]
    waiting: TaskWaiting | None


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """`instances`: what each process calls itself, see `SeenRebalance.instances`."""

    task: TaskId
    rebalances: tuple[TaskRebalance, ...]
    summary: TaskSummary
    instances: Mapping[ProcessId, str | None]

    @property
    def found(self) -> bool:
        """Whether any rebalance has the task."""
        return any(each.change not in (TaskChange.ABSENT, TaskChange.NOT_PLACED) for each in self.rebalances)


def task_history(rebalances: Iterable[PastRebalance], task: TaskId, before: PastRebalance | None = None) -> TaskHistory:
    """`rebalances`: of one group, oldest first; they are read one at a time. `before`: the one before them, which the
    history does not tell.
    """
    found: list[TaskRebalance] = []
    here = None if before is None else _look(before, task, None)
    instances = {} if here is None else here.seen.instances()
    for past in rebalances:
        was = here
        here = _look(past, task, was)
        instances |= here.seen.instances()
        found.append(here.compared_with(was))
    return TaskHistory(task, tuple(found), _summary(found), instances)


def _look(past: PastRebalance, task: TaskId, was: TaskInRebalance | None) -> TaskInRebalance:
    seen = see(past, None if was is None else was.seen)
    return TaskInRebalance.found(task, seen, next(iter(past.ran.explanations(task)), None))


def _summary(rebalances: Sequence[TaskRebalance]) -> TaskSummary:
    owners = [each.owner.process for each in rebalances if each.owner is not None]
    if rebalances and rebalances[0].before:
        was = active_of(rebalances[0].before)
        owners[:0] = [] if was is None or was.held_back else [was.process]
    without_owner = 0
    for each, following in pairwise(rebalances):
        if each.owner is None and each.change is not TaskChange.ABSENT:
            without_owner += following.facts.since_previous_ms or 0
    last = rebalances[-1] if rebalances else None
    return TaskSummary(
        moves=sum(1 for one, other in pairwise(owners) if one != other),
        warm_up_rounds=sum(1 for each in rebalances if any(copy.role is Role.WARM_UP for copy in each.copies)),
        without_owner_ms=without_owner,
        without_owner_since_ms=None if last is None or last.owner is not None else last.facts.now_ms,
        copies=() if last is None else last.copies,
        waiting=None if last is None else last.waiting,
    )
