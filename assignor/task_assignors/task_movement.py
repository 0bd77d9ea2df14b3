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

_Said = tuple[DecisionKind, int, int, int | None, DecisionKind | None]
"""A movement: its kind, the task, the client, the target, and what became of its warm-up there. Decisions are made of
it when somebody looks.
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
    swapped, moved, spent = DecisionKind.SWAPPED, DecisionKind.MOVED_TO_CAUGHT_UP, DecisionKind.WARM_UP_BUDGET_SPENT
    for _, task, caught_up in movements:
        owner = owners[task]
        kind = swapped
        source = queue.poll([client for client in caught_up if task in standbys[client]])
        if source is None:
            kind = moved
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
            said.append((kind, task, source, owner, None))
        else:
            state.move_active(owner, source, task)
            if budget.take():
                state.assign_standby(owner, task)
                state.warm_ups[owner].add(task)
                said.append((kind, task, source, owner, DecisionKind.WARM_UP))
            else:
                said.append((kind, task, source, owner, spent))
        queue.offer(source, owner)
    return said


def _told_kept(state: WorkingState, kept: list[int], clients: Iterable[int], role: Role) -> Iterator[Decision]:
    """`kept`: tasks, each with its client."""
    for task, client in zip(kept, clients, strict=True):
        yield Decision(DecisionKind.KEPT, state.tasks[task], role, state.processes[client])


def _told(state: WorkingState, said: list[_Said], role: Role) -> Iterator[Decision]:
    for kind, task, client, target, warm_up in said:
        name, process = state.tasks[task], state.processes[client]
        target_process = None if target is None else state.processes[target]
        yield Decision(kind, name, role, process, target_process)
        if warm_up is not None:
            yield Decision(warm_up, name, role, target_process, process)


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
    to_caught_up, spent = DecisionKind.MOVED_TO_CAUGHT_UP, DecisionKind.WARM_UP_BUDGET_SPENT
    for _, task, client in movements:
        kind = to_caught_up
        holder = owners[task]
        source = queue.poll([other for other in caught_up[task] if other != holder and task not in standbys[other]])
        if source is None:
            kind = DecisionKind.MOVED_TO_MOST_CAUGHT_UP
            source = lags.nearest_ahead_of(task, client)
            if source is not None and (source == holder or task in standbys[source]):
                source = next((other for other in lags.ahead_of(task, client) if not state.holds(other, task)), None)
            if source is None:
                said.append((DecisionKind.NOWHERE_TO_MOVE, task, client, None, None))
                continue
        moved += 1
        if budget.take():
            state.assign_standby(source, task)
            state.warm_ups[client].add(task)
            said.append((kind, task, source, client, DecisionKind.WARM_UP))
        else:
            state.move_standby(client, source, task)
            said.append((kind, task, source, client, spent))
        queue.offer(source, client)
    return said, moved
