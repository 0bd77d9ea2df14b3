"""One task over recorded rebalances: where it ran and why, how often it moved, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from assignor.decisions import DecisionKind
from assignor.explain import ActiveOutcome, Explanation
from assignor.story.past_rebalance import PastRebalance, RebalanceFacts, SeenRebalance, see
from assignor.story.recorded_copies import PlacedCopy
from assignor.types import ProcessId, Role, TaskId


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
    """`before`: the copies after the rebalance before. `outcome` and `reason` come from this program's own run;
    `differs`: it placed the task elsewhere than recorded.
    """

    facts: RebalanceFacts
    change: TaskChange
    before: tuple[PlacedCopy, ...]
    copies: tuple[PlacedCopy, ...]
    outcome: ActiveOutcome | None
    reason: str | None
    differs: bool
    waiting: TaskWaiting | None

    @property
    def owner(self) -> PlacedCopy | None:
        """The active copy, unless it is held back."""
        return next((copy for copy in self.copies if copy.role is Role.ACTIVE and not copy.held_back), None)


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
class TaskStory:
    task: TaskId
    rebalances: tuple[TaskRebalance, ...]
    summary: TaskSummary

    @property
    def found(self) -> bool:
        """Whether any rebalance has the task."""
        return any(each.change not in (TaskChange.ABSENT, TaskChange.NOT_PLACED) for each in self.rebalances)


class _Here(NamedTuple):
    """One task in one rebalance."""

    seen: SeenRebalance
    explanation: Explanation | None
    copies: tuple[PlacedCopy, ...]


def story(rebalances: Iterable[PastRebalance], task: TaskId, before: PastRebalance | None = None) -> TaskStory:
    """`rebalances`: of one group, oldest first; they are read one at a time. `before`: the one before them, which the
    story does not tell.
    """
    found: list[TaskRebalance] = []
    here = None if before is None else _look(before, task, None)
    for past in rebalances:
        was = here
        here = _look(past, task, was)
        found.append(_task_rebalance(task, here, was))
    return TaskStory(task, tuple(found), _summary(found))


def _look(past: PastRebalance, task: TaskId, was: _Here | None) -> _Here:
    seen = see(past, None if was is None else was.seen)
    explanation = next(iter(past.ran.explanations(task)), None)
    return _Here(seen, explanation, seen.placed.copies(task, explanation))


def _task_rebalance(task: TaskId, here: _Here, was: _Here | None) -> TaskRebalance:
    explanation = here.explanation
    differs = task in here.seen.placed.differing
    return TaskRebalance(
        facts=here.seen.facts,
        change=_change(task, here, was),
        before=() if was is None else was.copies,
        copies=here.copies,
        outcome=None if explanation is None else explanation.outcome,
        reason=None if explanation is None else explanation.text.partition(" – ")[2] or None,
        differs=differs,
        waiting=None if explanation is None or differs else _waiting(explanation, here.seen),
    )


def _change(task: TaskId, here: _Here, was: _Here | None) -> TaskChange:
    placed = here.seen.placed
    if here.explanation is None and task not in placed.differing:
        return TaskChange.ABSENT if placed.placement is not None else TaskChange.NOT_PLACED
    if task in placed.held_back:
        return TaskChange.HELD_BACK
    active = _active(here.copies)
    if active is None:
        return TaskChange.NOT_PLACED
    before = None if was is None else _active(was.copies)
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


def _active(copies: Sequence[PlacedCopy]) -> PlacedCopy | None:
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


def _summary(rebalances: Sequence[TaskRebalance]) -> TaskSummary:
    owners = [each.owner.process for each in rebalances if each.owner is not None]
    if rebalances and rebalances[0].before:
        was = _active(rebalances[0].before)
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
