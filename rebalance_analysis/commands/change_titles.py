"""What a change of a task is called in the history of a group, and which processes it concerns."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from assignor.decisions import DecisionKind
from assignor.names import ShortNames
from assignor.types import ProcessId, Role
from rebalance_analysis.history import PlacedCopy, TaskChange, TaskRebalance
from rebalance_analysis.short_reasons import ShortReason, short_reason, standby_reason


class Title(NamedTuple):
    """`of_one` and `of_several`: the verb after `1 task` and `3 tasks`."""

    of_one: str
    of_several: str


class ChangeTitle(Enum):
    """Kinds of changes, most important first."""

    MOVES = Title("moves", "move")
    HELD_BACK = Title("moves once it is given up", "move once they are given up")
    STARTS = Title("starts", "start")
    HANDED_OVER = Title("is handed over", "are handed over")
    NO_OWNER = Title("has no owner", "have no owner")
    GONE = Title("is gone", "are gone")
    THREAD = Title("goes to another thread", "go to another thread")
    WARM_UP = Title("gets a warm-up", "get a warm-up")
    NO_WARM_UP = Title("loses its warm-up", "lose their warm-up")
    STANDBYS = Title("gets other standbys", "get other standbys")
    STAYS = Title("stays where it is", "stay where they are")

    def of(self, count: int) -> str:
        return self.value.of_one if count == 1 else self.value.of_several


_SAME = {
    TaskChange.MOVED: ChangeTitle.MOVES,
    TaskChange.HELD_BACK: ChangeTitle.HELD_BACK,
    TaskChange.FIRST: ChangeTitle.STARTS,
    TaskChange.HANDED_OVER: ChangeTitle.HANDED_OVER,
    TaskChange.NOT_PLACED: ChangeTitle.NO_OWNER,
    TaskChange.ABSENT: ChangeTitle.GONE,
    TaskChange.THREAD: ChangeTitle.THREAD,
    TaskChange.STAYED: ChangeTitle.STAYS,
}


def title_of(each: TaskRebalance) -> ChangeTitle:
    """The members say where a task was before the first rebalance that is recorded."""
    active = active_process(each.copies)
    previous = owners_before(each)
    if each.change is TaskChange.FIRST and active is not None and previous:
        return ChangeTitle.STAYS if active in previous else ChangeTitle.MOVES
    if each.change is TaskChange.HELD_BACK and active is None:
        return ChangeTitle.NO_OWNER
    if each.change is TaskChange.HELD_BACK and active in previous:
        return ChangeTitle.THREAD
    if each.change is TaskChange.COPIES:
        return _of_standbys(each)
    return _SAME[each.change]


def owners_before(each: TaskRebalance) -> tuple[ProcessId, ...]:
    """Who had it active, as the members say."""
    return () if each.explanation is None else each.explanation.previous


def active_process(copies: Sequence[PlacedCopy]) -> ProcessId | None:
    """Of the active copy, also when it is held back."""
    return next((copy.process for copy in copies if copy.role is Role.ACTIVE), None)


def same_copies(each: TaskRebalance) -> bool:
    """Whether each process has what it had, or was to get."""
    return _places(each.before) == _places(each.copies)


def same_standbys(each: TaskRebalance) -> bool:
    before, now = ({place for place in _places(copies) if place[0] is not Role.ACTIVE} for copies in _both(each))
    return before == now


def reason_for(each: TaskRebalance, change: ChangeTitle, names: ShortNames) -> ShortReason:
    """Why, in one clause; an empty one when nothing was logged."""
    explanation, problem = each.explanation, each.problem
    if explanation is None or problem is None or change is ChangeTitle.STAYS:
        return ShortReason("")
    if change is ChangeTitle.HANDED_OVER and active_process(each.before) == active_process(each.copies):
        return ShortReason("its owner has given it up")
    if change is ChangeTitle.THREAD:
        return ShortReason("the tasks of an instance are balanced over its threads")
    of_standbys = change in (ChangeTitle.STANDBYS, ChangeTitle.WARM_UP, ChangeTitle.NO_WARM_UP)
    if of_standbys and explanation.target in (None, active_process(each.copies)):
        before, now = map(_places, _both(each))
        gone = {process for _, process in before} - {process for _, process in now}
        new = frozenset(process for _, process in now - before)
        return ShortReason(standby_reason(explanation, new, names.short) or _lost(each, gone, names))
    return short_reason(explanation, problem, names.short) or ShortReason("")


def _of_standbys(each: TaskRebalance) -> ChangeTitle:
    before, now = map(_places, _both(each))
    new, lost = ({role for role, _ in places} for places in (now - before, before - now))
    if new == {Role.WARM_UP} and not lost:
        return ChangeTitle.WARM_UP
    return ChangeTitle.NO_WARM_UP if lost == {Role.WARM_UP} and not new else ChangeTitle.STANDBYS


def _lost(each: TaskRebalance, gone: set[ProcessId], names: ShortNames) -> str:
    """Why processes have no copy any more."""
    clients = {} if each.problem is None else each.problem.clients
    steps = () if each.explanation is None else each.explanation.steps
    left = sorted(names.short(process) for process in gone if process not in clients)
    if left:
        return f"{' and '.join(left)}, which had a copy, {'is' if len(left) == 1 else 'are'} gone"
    waiting = {step.process for step in steps if step.kind is DecisionKind.WARM_UP_BUDGET_SPENT}
    wait = sorted(names.short(process) for process in gone & waiting)
    return f"others warm up first (max.warmup.replicas): {' and '.join(wait)} waits for its turn" if wait else ""


def _both(each: TaskRebalance) -> tuple[Sequence[PlacedCopy], Sequence[PlacedCopy]]:
    return each.before, each.copies


def _places(copies: Sequence[PlacedCopy]) -> set[tuple[Role, ProcessId]]:
    return {(copy.role, copy.process) for copy in copies}
