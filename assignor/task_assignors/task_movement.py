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

_Said = tuple[DecisionKind, int, int, int | None]
"""A step of a movement: its kind, the task, the client and the other one. Decisions are made of them when somebody
looks.
"""


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
    reported = lags.reported
    for task, owner in enumerate(owners):
        caught_up = None if reported[task].get(owner) == LATEST_OFFSET else lags.caught_up_instead_of(task, owner)
        if caught_up is None:
            kept.append(task)
        else:
            movements.append((len(caught_up), task, caught_up))
    state.log.later(lambda: _told_kept(state, kept, map(owners.__getitem__, kept), Role.ACTIVE))
    if not movements:
        return 0
    # Fewest caught-up clients first. No two movements here have the same task, so sorting gives the order of the heap.
    said = _move_active(state, lags, budget, sorted(movements))
    state.log.later(lambda: _told(state, said, Role.ACTIVE))
    return len(movements)


def _move_active(
    state: WorkingState, lags: LagRanking, budget: WarmUpBudget, movements: list[tuple[int, int, list[int]]]
) -> list[_Said]:
    """To a caught-up standby, otherwise to any caught-up client, otherwise to the client with the smallest lag."""
    owners, standbys = state.owner, state.standby
    queue = ConstrainedPrioritySet(state.processes, state.assigned, state.capacity)
    said: list[_Said] = []
    for _, task, caught_up in movements:
        owner = owners[task]
        kind = DecisionKind.SWAPPED
        source = queue.poll([client for client in caught_up if task in standbys[client]])
        if source is None:
            kind = DecisionKind.MOVED_TO_CAUGHT_UP
            source = queue.poll(caught_up)
            if source is None:
                kind = DecisionKind.MOVED_TO_MOST_CAUGHT_UP
                source = lags.nearest_ahead_of(task, owner)
                if source is None:
                    raise IllegalStateError(
                        "Tried to move task to more caught-up client as scheduled before but none exist"
                    )
        if task in standbys[source]:
            state.swap_active_and_standby(owner, source, task)
            said.append((kind, task, source, owner))
        else:
            state.move_active(owner, source, task)
            said.append((kind, task, source, owner))
            if budget.take():
                state.assign_standby(owner, task)
                state.warm_ups[owner].add(task)
                said.append((DecisionKind.WARM_UP, task, owner, source))
            else:
                said.append((DecisionKind.WARM_UP_BUDGET_SPENT, task, owner, source))
        queue.offer(source, owner)
    return said


def _told_kept(state: WorkingState, kept: list[int], clients: Iterable[int], role: Role) -> Iterator[Decision]:
    """`kept`: tasks, each with its client."""
    for task, client in zip(kept, clients, strict=True):
        yield Decision(DecisionKind.KEPT, state.tasks[task], role, state.processes[client])


def _told(state: WorkingState, said: list[_Said], role: Role) -> Iterator[Decision]:
    tasks, processes = state.tasks, state.processes
    for kind, task, client, other in said:
        yield Decision(kind, tasks[task], role, processes[client], None if other is None else processes[other])


def move_standby_tasks(state: WorkingState, lags: LagRanking, budget: WarmUpBudget) -> int:
    """Returns how many standbys could not stay on their targets and found another client."""
    movements: list[StandbyMovement] = []
    caught_up: dict[int, list[int]] = {}
    kept: list[int] = []
    keepers: list[int] = []
    for client, standby_tasks in enumerate(state.standby):
        for task in sorted(standby_tasks - state.warm_ups[client]):
            others = lags.caught_up_instead_of(task, client)
            if others is None:
                kept.append(task)
                keepers.append(client)
            else:
                caught_up[task] = others
                movements.append((len(others), task, client))
    state.log.later(lambda: _told_kept(state, kept, keepers, Role.STANDBY))
    if not movements:
        return 0
    in_order = _in_drawing_order(movements, distinct_tasks=len(caught_up))
    said, moved = _move_standbys(state, lags, budget, in_order, caught_up)
    state.log.later(lambda: _told(state, said, Role.STANDBY))
    return moved


def _in_drawing_order(movements: list[StandbyMovement], distinct_tasks: int) -> Iterable[StandbyMovement]:
    """Fewest caught-up clients first, then by task. A task may be queued for several clients: then Java's heap
    decides.
    """
    if len(movements) == distinct_tasks:
        return sorted(movements)
    heap = JavaPriorityQueue(itemgetter(0, 1), movements)
    return (movement for movement in iter(heap.poll, None) if movement is not None)


def _move_standbys(
    state: WorkingState,
    lags: LagRanking,
    budget: WarmUpBudget,
    movements: Iterable[StandbyMovement],
    caught_up: dict[int, list[int]],
) -> tuple[list[_Said], int]:
    """To a caught-up client without a copy, otherwise to the one with the smallest lag before it. Counts what moved."""
    owners, standbys = state.owner, state.standby
    queue = ConstrainedPrioritySet(state.processes, state.assigned, state.capacity)
    said: list[_Said] = []
    moved = 0
    for _, task, client in movements:
        kind = DecisionKind.MOVED_TO_CAUGHT_UP
        holder = owners[task]
        source = queue.poll([other for other in caught_up[task] if other != holder and task not in standbys[other]])
        if source is None:
            kind = DecisionKind.MOVED_TO_MOST_CAUGHT_UP
            source = lags.nearest_ahead_of(task, client)
            if source is not None and (source == holder or task in standbys[source]):
                source = next((other for other in lags.ahead_of(task, client) if not state.holds(other, task)), None)
            if source is None:
                said.append((DecisionKind.NOWHERE_TO_MOVE, task, client, None))
                continue
        moved += 1
        said.append((kind, task, source, client))
        if budget.take():
            state.assign_standby(source, task)
            state.warm_ups[client].add(task)
            said.append((DecisionKind.WARM_UP, task, client, source))
        else:
            state.move_standby(client, source, task)
            said.append((DecisionKind.WARM_UP_BUDGET_SPENT, task, client, source))
        queue.offer(source, client)
    return said, moved
