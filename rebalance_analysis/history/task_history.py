"""One task over recorded rebalances: in each one where it was and is, what that means for it and what it waits for; and
over all of them how often it moved, and how long it had no owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple, Self

from assignor.decisions import DecisionKind
from assignor.explain import ActiveOutcome, Explanation
from assignor.task_assignors.base import PlacementProblem
from assignor.types import ProcessId, Role, TaskId
from rebalance_analysis.history.past_rebalance import PastRebalance, RebalanceFacts, SeenRebalance, see
from rebalance_analysis.history.recorded_copies import PlacedCopy


class TaskChange(StrEnum):
    """What the rebalance meant for the task. When several apply, the first one counts."""

    ABSENT = "not there"  # the rebalance has no such task
    NOT_PLACED = "not placed"  # the rebalance placed no tasks at all, or gave this one to no member
    FIRST = "placed"  # it ran nowhere before, or nothing earlier is recorded
    HELD_BACK = "held back"  # its new owner gets it once the old one has given it up
    HANDED_OVER = "handed over"  # it was held back, and runs now
    MOVED = "moved"  # active on another process than before
    THREAD = "to another thread"  # of the same process
    COPIES = "standbys changed"
    STAYED = "stays"


_WAITS = (DecisionKind.WAITING_FOR_REVOCATION, DecisionKind.WARM_UP, DecisionKind.WARM_UP_BUDGET_SPENT)


class TaskWaiting(NamedTuple):
    """What has to happen next: `member` has to give the task up, or `process` has to catch up or to get a turn at
    warming up. `lag`: of `process`, in records. `next_round_ms`: when the group rebalances again by itself.
    """

    kind: DecisionKind
    process: ProcessId | None
    member: str | None
    lag: int | None
    next_round_ms: int | None


@dataclass(frozen=True, slots=True)
class TaskRebalance:
    """`before`: the copies after the rebalance before. `outcome`, `reason` and `explanation` come from this program's
    own run; `differs`: it placed the task elsewhere than recorded. `problem`: what the assignor was given.
    """

    task: TaskId
    facts: RebalanceFacts
    change: TaskChange
    before: tuple[PlacedCopy, ...]
    copies: tuple[PlacedCopy, ...]
    outcome: ActiveOutcome | None
    reason: str | None
    differs: bool
    waiting: TaskWaiting | None
    explanation: Explanation | None = None
    problem: PlacementProblem | None = None

    @property
    def owner(self) -> PlacedCopy | None:
        """The active copy, unless it is held back."""
        return next((copy for copy in self.copies if copy.role is Role.ACTIVE and not copy.held_back), None)


class TaskInRebalance(NamedTuple):
    """One task in one rebalance. `explanation`: of this program's own run, None when it placed no such task."""

    task: TaskId
    seen: SeenRebalance
    explanation: Explanation | None
    copies: tuple[PlacedCopy, ...]

    @classmethod
    def found(cls, task: TaskId, seen: SeenRebalance, explanation: Explanation | None) -> Self:
        return cls(task, seen, explanation, seen.placed.copies(task, explanation))

    def compared_with(self, was: TaskInRebalance | None) -> TaskRebalance:
        """`was`: the task in the rebalance before, None when this is the first."""
        explanation = self.explanation
        differs = self.task in self.seen.placed.differing
        return TaskRebalance(
            task=self.task,
            facts=self.seen.facts,
            change=_change(self, was),
            before=() if was is None else was.copies,
            copies=self.copies,
            outcome=None if explanation is None else explanation.outcome,
            reason=None if explanation is None else explanation.text.partition(" – ")[2] or None,
            differs=differs,
            waiting=None if explanation is None or differs else _waiting(explanation, self.seen),
            explanation=explanation,
            problem=self.seen.placed.problem,
        )


def _change(here: TaskInRebalance, was: TaskInRebalance | None) -> TaskChange:
    placed, task = here.seen.placed, here.task
    if here.explanation is None and task not in placed.differing:
        return TaskChange.ABSENT if placed.placement is not None else TaskChange.NOT_PLACED
    if task in placed.held_back:
        return TaskChange.HELD_BACK
    active = active_of(here.copies)
    if active is None:
        return TaskChange.NOT_PLACED
    before = None if was is None else active_of(was.copies)
    if was is None or before is None:
        held_back = was is not None and task in was.seen.placed.held_back
        return TaskChange.HANDED_OVER if held_back else TaskChange.FIRST
    if before.held_back:
        return TaskChange.HANDED_OVER
    if active.process != before.process:
        return TaskChange.MOVED
    if active.member != before.member:
        return TaskChange.THREAD
    return TaskChange.STAYED if _others(was.copies) == _others(here.copies) else TaskChange.COPIES


def active_of(copies: Sequence[PlacedCopy]) -> PlacedCopy | None:
    """The active copy, also when it is held back."""
    return next((copy for copy in copies if copy.role is Role.ACTIVE), None)


def _others(copies: Sequence[PlacedCopy]) -> set[tuple[Role, ProcessId]]:
    """Standbys by process: which thread of the process has one does not matter."""
    return {(copy.role, copy.process) for copy in copies if copy.role is not Role.ACTIVE}


def _waiting(explanation: Explanation, seen: SeenRebalance) -> TaskWaiting | None:
    step = next((step for kind in _WAITS for step in explanation.steps if step.kind is kind), None)
    if step is None:
        return None
    process = None if step.process is None else step.process
    client = None if seen.placed.problem is None or process is None else seen.placed.problem.clients.get(process)
    lag = None if client is None or step.task not in client.lags else client.lags.lag_for(step.task)
    next_round_ms = None if step.kind is DecisionKind.WAITING_FOR_REVOCATION else seen.facts.probing_at_ms
    member = None if step.other_consumer is None else seen.placed.names.get(step.other_consumer, step.other_consumer)
    return TaskWaiting(step.kind, process, member, lag, next_round_ms)


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
    here = None if before is None else _in_rebalance(before, task, None)
    instances = {} if here is None else here.seen.instances()
    for past in rebalances:
        was = here
        here = _in_rebalance(past, task, was)
        instances |= here.seen.instances()
        found.append(here.compared_with(was))
    return TaskHistory(task, tuple(found), _summary(found), instances)


def _in_rebalance(past: PastRebalance, task: TaskId, was: TaskInRebalance | None) -> TaskInRebalance:
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
