"""One task in one recorded rebalance: where it was and is, what that means for it, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

from assignor.decisions import DecisionKind
from assignor.explain import ActiveOutcome, Explanation
from assignor.task_assignors.base import PlacementProblem
from assignor.types import ProcessId, Role, TaskId
from rebalance_analysis.history.past_rebalance import RebalanceFacts, SeenRebalance
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
