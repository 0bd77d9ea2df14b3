"""Makes the history of one task over recorded rebalances. For each rebalance, the history has the kind of change, and
the copies of the task before and after the rebalance. The history also has the event that the task waits for. The
history also has the total number of moves of the task. It also has the total time during which the task had no owner.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, pairwise
from typing import NamedTuple

from assignor.explain import ActiveOutcome, Explanation
from assignor.task_assignors.base import PlacementProblem
from assignor.task_assignors.decisions import DecisionKind
from assignor.types import ProcessId, Role, TaskId
from rebalance_analysis.history.past_rebalance import PastRebalance, PlacedCopy, RebalanceFacts, SeenRebalance, see


class TaskChange(StrEnum):
    """The kind of change that a rebalance made to a task, according to the recordings. If several kinds apply, the
    first of them in this enum is used.

    Users see the kinds of `ChangeTitle` in `presentation/moves.py` instead.
    """

    ABSENT = "not there"  # The rebalance does not have this task.
    NOT_PLACED = "not placed"  # The rebalance placed no tasks, or assigned this task to no member.
    FIRST = "placed"  # No process had the task before, or no earlier rebalance is recorded.
    HELD_BACK = "held back"  # The new owner gets the task when the old owner has revoked it.
    HANDED_OVER = "handed over"  # The previous rebalance held the task back, and this rebalance assigns it.
    MOVED = "moved"  # The task is active on a different process than before the rebalance.
    THREAD = "to another thread"  # The task is active on a different thread of the same process.
    COPIES = "standbys changed"
    STAYED = "stays"


_WAITS = (DecisionKind.WAITING_FOR_REVOCATION, DecisionKind.WARM_UP, DecisionKind.WARM_UP_BUDGET_SPENT)


class TaskWaiting(NamedTuple):
    """The event that a task waits for. `member`: the member that has to revoke the task first. `process`: the process
    whose warm-up has to catch up first. If max.warmup.replicas allows no more warm-ups, the warm-up on `process` starts
    later. `kind`: the kind of this event. `lag`: the lag of the process in records. `next_round_ms`: the time of the
    next probing rebalance.
    """

    kind: DecisionKind
    process: ProcessId | None
    member: str | None
    lag: int | None
    next_round_ms: int | None


@dataclass(frozen=True, slots=True)
class TaskRebalance:
    """One task in one rebalance. `before`: the copies of the task after the previous rebalance; empty for the first
    recorded rebalance. `outcome`, `reason` and `explanation` come from the new run of the rebalance. `differs`: True if
    the new run and the recorded leader place the task differently. `is_held_back`: True if the task waits until its old
    owner has revoked it. `problem`: the placement problem that the assignor solved.
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
    is_held_back: bool = False
    explanation: Explanation | None = None
    problem: PlacementProblem | None = None

    @property
    def owner(self) -> PlacedCopy | None:
        """The active copy of the task; None if there is no active copy or if it is held back."""
        return next((copy for copy in self.copies if copy.role is Role.ACTIVE and not copy.held_back), None)


def task_rebalance(
    task: TaskId, seen: SeenRebalance, explanation: Explanation | None, was: TaskRebalance | None
) -> TaskRebalance:
    """Makes the part of a task's history about one rebalance. `explanation`: the explanation of the task from the new
    run; None if the new run did not place the task. `was`: the task in the previous rebalance; None for the first
    rebalance.
    """
    placed = seen.placed
    copies = placed.copies(task, explanation)
    differs = task in placed.differing
    if explanation is None and not differs:
        change = TaskChange.ABSENT if placed.placement is not None else TaskChange.NOT_PLACED
    else:
        change = _change(copies, was, is_held_back=task in placed.held_back)
    return TaskRebalance(
        task=task,
        facts=seen.facts,
        change=change,
        before=() if was is None else was.copies,
        copies=copies,
        outcome=None if explanation is None else explanation.outcome,
        reason=None if explanation is None else explanation.text.partition(" – ")[2] or None,
        differs=differs,
        waiting=None if explanation is None or differs else _waiting(explanation, seen),
        is_held_back=task in placed.held_back,
        explanation=explanation,
        problem=placed.problem,
    )


def _change(copies: Sequence[PlacedCopy], was: TaskRebalance | None, *, is_held_back: bool) -> TaskChange:
    if is_held_back:
        return TaskChange.HELD_BACK
    active = active_of(copies)
    if active is None:
        return TaskChange.NOT_PLACED
    before = None if was is None else active_of(was.copies)
    if was is None or before is None:
        return TaskChange.HANDED_OVER if was is not None and was.is_held_back else TaskChange.FIRST
    if before.held_back:
        return TaskChange.HANDED_OVER
    if active.process != before.process:
        return TaskChange.MOVED
    if active.member != before.member:
        return TaskChange.THREAD
    return TaskChange.STAYED if _others(was.copies) == _others(copies) else TaskChange.COPIES


def active_of(copies: Sequence[PlacedCopy]) -> PlacedCopy | None:
    """Returns the active copy, including an active copy that is held back; None if no copy is active."""
    return next((copy for copy in copies if copy.role is Role.ACTIVE), None)


def _others(copies: Sequence[PlacedCopy]) -> set[tuple[Role, ProcessId]]:
    """Returns the roles and processes of the standbys and warm-ups. The result has no threads, because a move to
    another thread of the same process is not a change.
    """
    return {(copy.role, copy.process) for copy in copies if copy.role is not Role.ACTIVE}


def _waiting(explanation: Explanation, seen: SeenRebalance) -> TaskWaiting | None:
    step = next((step for kind in _WAITS for step in explanation.steps if step.kind is kind), None)
    if step is None:
        return None
    next_round_ms = None if step.kind is DecisionKind.WAITING_FOR_REVOCATION else seen.facts.probing_at_ms
    placed = seen.placed
    lag, member = placed.lag(step.task, step.process), placed.name(step.other_consumer)
    return TaskWaiting(step.kind, step.process, member, lag, next_round_ms)


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """The history of a task in numbers. `moves`: the number of times that the active task moved to another process.
    `without_owner_ms`: the total time without an owner. A period without an owner begins with a rebalance that assigns
    the task to no member. The period without an owner ends with the next rebalance. The time from the failure of an
    owner to the next rebalance is not included. `without_owner_since_ms`: the time of the last rebalance if it assigned
    the task to no member; otherwise None.
    """

    moves: int
    warm_up_rounds: int
    without_owner_ms: int
    without_owner_since_ms: int | None
    copies: tuple[PlacedCopy, ...]
    waiting: TaskWaiting | None


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """The history of one task. `instances`: the name of each process, as `SeenRebalance.instances` defines it."""

    task: TaskId
    rebalances: tuple[TaskRebalance, ...]
    summary: TaskSummary
    instances: Mapping[ProcessId, str | None]

    @property
    def found(self) -> bool:
        """True if at least one rebalance placed the task."""
        return any(each.change not in (TaskChange.ABSENT, TaskChange.NOT_PLACED) for each in self.rebalances)


def task_history(rebalances: Iterable[PastRebalance], task: TaskId, before: PastRebalance | None = None) -> TaskHistory:
    """Makes the history of a task. `rebalances`: the rebalances of one group, oldest first; only one of the rebalances
    is in memory at a time. `before`: the rebalance before the oldest of `rebalances`, for comparison.
    """
    found: list[TaskRebalance] = []
    seen: SeenRebalance | None = None
    was: TaskRebalance | None = None
    instances: dict[ProcessId, str | None] = {}
    for past in rebalances if before is None else chain((before,), rebalances):
        seen = see(past, seen)
        instances |= seen.instances()
        was = task_rebalance(task, seen, next(iter(past.ran.explanations(task)), None), was)
        if past is not before:
            found.append(was)
    return TaskHistory(task, tuple(found), _summary(found), instances)


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
