"""From where tasks belong to where they can run now: stay, swap with a caught-up standby, or move while the target
warms up.

When a task's target is not caught up and another client has a smaller lag, that client gets the task for the time
being. The target restores the state as a warm-up, as far as max.warmup.replicas allows, and gets the task in a later
rebalance. The same holds for standbys. Source: `TaskMovement`, KIP-441.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

from assignor.decisions import Decision, DecisionKind
from assignor.errors import IllegalStateError
from assignor.java.priority_queue import JavaPriorityQueue
from assignor.task_assignors.constrained_priority_set import ConstrainedPrioritySet
from assignor.task_assignors.lag_ranking import LagRanking
from assignor.task_assignors.working_state import WorkingState
from assignor.types import LATEST_OFFSET, Role

StandbyMovement = tuple[int, int, int]
"""The number of caught-up clients, the task, the client that should hold the standby."""


@dataclass(slots=True)
class WarmUpBudget:
    """What remains of max.warmup.replicas; active movements use it first."""

    remaining: int

    def take(self) -> bool:
        if self.remaining <= 0:
            return False
        self.remaining -= 1
        return True


def move_active_tasks(state: WorkingState, lags: LagRanking, budget: WarmUpBudget) -> int:
    """Returns how many active tasks could not stay on their targets."""
    movements: list[tuple[int, int, list[int]]] = []
    kept: list[int] = []
    owners = state.owner.copy()
    for task, owner in enumerate(owners):
        if lags.reported[task].get(owner) != LATEST_OFFSET and lags.is_behind_another(task, owner):
            caught_up = lags.caught_up_clients(task)
            movements.append((len(caught_up), task, caught_up))
        else:
            kept.append(task)
    state.log.later(lambda: _told_kept(state, kept, map(owners.__getitem__, kept), Role.ACTIVE))
    if not movements:
        return 0
    queue = ConstrainedPrioritySet(state.processes, state.load)
    # Fewest caught-up clients first. No two movements here have the same task, so sorting gives the order of the heap.
    for _, task, caught_up in sorted(movements):
        _move_active_task(state, lags, budget, queue, task, caught_up)
    return len(movements)


def _move_active_task(
    state: WorkingState,
    lags: LagRanking,
    budget: WarmUpBudget,
    queue: ConstrainedPrioritySet,
    task: int,
    caught_up: list[int],
) -> None:
    """To a caught-up standby, otherwise to any caught-up client, otherwise to the client with the smallest lag."""
    owner = state.owner[task]
    standbys = [client for client in caught_up if task in state.standby[client]]
    standby = queue.poll(standbys)
    if standby is not None:
        _swap(state, queue, task, owner, standby, DecisionKind.SWAPPED)
        return
    kind = DecisionKind.MOVED_TO_CAUGHT_UP
    source = queue.poll(caught_up)
    if source is None:
        source = lags.nearest_ahead_of(task, owner)
        if source is None:
            raise IllegalStateError("Tried to move task to more caught-up client as scheduled before but none exist")
        kind = DecisionKind.MOVED_TO_MOST_CAUGHT_UP
        if task in state.standby[source]:
            _swap(state, queue, task, owner, source, kind)
            return
    state.move_active(owner, source, task)
    state.say(kind, task, Role.ACTIVE, source, owner)
    if budget.take():
        state.assign_standby(owner, task)
        state.warm_ups[owner].add(task)
        state.say(DecisionKind.WARM_UP, task, Role.ACTIVE, owner, source)
    else:
        state.say(DecisionKind.WARM_UP_BUDGET_SPENT, task, Role.ACTIVE, owner, source)
    queue.offer(source, owner)


def _told_kept(state: WorkingState, kept: list[int], clients: Iterable[int], role: Role) -> Iterator[Decision]:
    """`kept`: tasks, each with its client."""
    for task, client in zip(kept, clients, strict=True):
        yield Decision(DecisionKind.KEPT, state.tasks[task], role, state.processes[client])


def _swap(
    state: WorkingState, queue: ConstrainedPrioritySet, task: int, owner: int, standby: int, kind: DecisionKind
) -> None:
    state.swap_active_and_standby(owner, standby, task)
    state.say(kind, task, Role.ACTIVE, standby, owner)
    queue.offer(standby, owner)


def move_standby_tasks(state: WorkingState, lags: LagRanking, budget: WarmUpBudget) -> int:
    """Returns how many standbys could not stay on their targets and found another client."""
    movements: list[StandbyMovement] = []
    caught_up: dict[int, list[int]] = {}
    kept: list[int] = []
    keepers: list[int] = []
    for client, standby_tasks in enumerate(state.standby):
        for task in sorted(standby_tasks - state.warm_ups[client]):
            if not lags.is_behind_another(task, client):
                kept.append(task)
                keepers.append(client)
                continue
            if task not in caught_up:
                caught_up[task] = lags.caught_up_clients(task)
            movements.append((len(caught_up[task]), task, client))
    state.log.later(lambda: _told_kept(state, kept, keepers, Role.STANDBY))
    if not movements:
        return 0
    queue = ConstrainedPrioritySet(state.processes, state.load)
    return sum(
        _move_standby_task(state, lags, budget, queue, task, client, caught_up[task])
        for _, task, client in _in_drawing_order(movements, distinct_tasks=len(caught_up))
    )


def _in_drawing_order(movements: list[StandbyMovement], distinct_tasks: int) -> Iterable[StandbyMovement]:
    """Fewest caught-up clients first, then by task. A task may be queued for several clients: then Java's heap
    decides.
    """
    if len(movements) == distinct_tasks:
        return sorted(movements)
    heap = JavaPriorityQueue(itemgetter(0, 1), movements)
    return (movement for movement in iter(heap.poll, None) if movement is not None)


def _move_standby_task(
    state: WorkingState,
    lags: LagRanking,
    budget: WarmUpBudget,
    queue: ConstrainedPrioritySet,
    task: int,
    client: int,
    caught_up: list[int],
) -> int:
    """To a caught-up client without a copy, otherwise to the one with the smallest lag before it. Returns 1 if it
    moved, else 0.
    """
    kind = DecisionKind.MOVED_TO_CAUGHT_UP
    holder, standby = state.owner[task], state.standby
    source = queue.poll([other for other in caught_up if other != holder and task not in standby[other]])
    if source is None:
        source = lags.nearest_ahead_of(task, client)
        if source is not None and (source == holder or task in standby[source]):
            source = next((other for other in lags.ahead_of(task, client) if not state.holds(other, task)), None)
        if source is None:
            state.say(DecisionKind.NOWHERE_TO_MOVE, task, Role.STANDBY, client)
            return 0
        kind = DecisionKind.MOVED_TO_MOST_CAUGHT_UP
    state.say(kind, task, Role.STANDBY, source, client)
    if budget.take():
        state.assign_standby(source, task)
        state.warm_ups[client].add(task)
        state.say(DecisionKind.WARM_UP, task, Role.STANDBY, client, source)
    else:
        state.move_standby(client, source, task)
        state.say(DecisionKind.WARM_UP_BUDGET_SPENT, task, Role.STANDBY, client, source)
    queue.offer(source, client)
    return 1
