"""From where tasks belong to where they can run now: stay, swap with a caught-up standby, or move while the target
warms up.

When a task's target is not caught up and another client has a smaller lag, that client gets the task for the time
being. The target restores the state as a warm-up, as far as max.warmup.replicas allows, and gets the task in a later
rebalance. The same holds for standbys. Source: `TaskMovement`, KIP-441.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from assignor.decisions import Decision, DecisionKind
from assignor.errors import IllegalStateError
from assignor.java.priority_queue import JavaPriorityQueue
from assignor.task_assignors.constrained_priority_set import ConstrainedPrioritySet
from assignor.task_assignors.lag_ranking import LagRanking
from assignor.task_assignors.working_state import NamedNumbers, WorkingState
from assignor.types import LATEST_OFFSET, Role

_Movement = tuple[int, int]
"""The task, and the client that should hold the standby."""

_DecisionFields = list[Any]
"""Five fields of each movement, one movement after the other: its kind, the task, the client, the target, and what
became of its warm-up there. Decisions are made of it when somebody looks; a tuple of each would keep Python's cycle
collector busy.
"""


class WarmUpBudget:
    """What remains of max.warmup.replicas; active movements use it first."""

    def __init__(self, remaining: int) -> None:
        self.remaining = remaining

    def take(self) -> bool:
        if self.remaining <= 0:
            return False
        self.remaining -= 1
        return True


def move_active_tasks(state: WorkingState, lags: LagRanking, budget: WarmUpBudget) -> int:
    """Returns how many active tasks could not stay on their targets."""
    names, owners = state.names, state.owner.copy()
    kept: list[int] = []
    movements = _active_movements(lags, owners, kept)
    state.log.later(lambda: _decisions_to_keep(names, kept, map(owners.__getitem__, kept), Role.ACTIVE))
    if not movements:
        return 0
    # no two movements have the same task, so sorting gives the order of Kafka's heap
    decided = _move_active(state, lags, budget, _fewest_caught_up_first(lags, movements))
    state.log.later(lambda: _decisions(names, decided, Role.ACTIVE))
    return len(movements)


def _active_movements(lags: LagRanking, owners: list[int], kept: list[int]) -> list[int]:
    """Tasks that cannot stay; all others are added to `kept`."""
    reported = lags.reported
    movements: list[int] = []
    for task, owner in enumerate(owners):
        if reported[task].get(owner) == LATEST_OFFSET or lags.caught_up_instead_of(task, owner) is None:
            kept.append(task)
        else:
            movements.append(task)
    return movements


def _fewest_caught_up_first(lags: LagRanking, tasks: list[int]) -> list[int]:
    """`tasks`: sorted, and asked for before."""
    counts = [len(lags.caught_up[task]) for task in tasks]
    return [tasks[place] for place in sorted(range(len(tasks)), key=counts.__getitem__)]


def _move_active(state: WorkingState, lags: LagRanking, budget: WarmUpBudget, movements: list[int]) -> _DecisionFields:
    """To a caught-up standby, otherwise to any caught-up client, otherwise to the client with the smallest lag."""
    owners, standbys, caught_up_on = state.owner, state.standby, lags.caught_up
    queue = ConstrainedPrioritySet(state.processes, state.assigned, state.capacity)
    decided: _DecisionFields = []
    swapped, moved, spent = DecisionKind.SWAPPED, DecisionKind.MOVED_TO_CAUGHT_UP, DecisionKind.WARM_UP_BUDGET_SPENT
    for task in movements:
        owner = owners[task]
        caught_up = caught_up_on[task]
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
            decided += (kind, task, source, owner, None)
        else:
            state.move_active(owner, source, task)
            if budget.take():
                state.assign_standby(owner, task)
                state.warm_ups[owner].add(task)
                decided += (kind, task, source, owner, DecisionKind.WARM_UP)
            else:
                decided += (kind, task, source, owner, spent)
        queue.offer(source, owner)
    return decided


def _decisions_to_keep(names: NamedNumbers, kept: list[int], clients: Iterable[int], role: Role) -> Iterator[Decision]:
    """`kept`: tasks, each with its client."""
    for task, client in zip(kept, clients, strict=True):
        yield Decision(DecisionKind.KEPT, names.tasks[task], role, names.processes[client])


def _decisions(names: NamedNumbers, decided: _DecisionFields, role: Role) -> Iterator[Decision]:
    for kind, task, client, target, warm_up in zip(*[iter(decided)] * 5, strict=True):
        name, process = names.tasks[task], names.processes[client]
        target_process = None if target is None else names.processes[target]
        yield Decision(kind, name, role, process, target_process)
        if warm_up is not None:
            yield Decision(warm_up, name, role, target_process, process)


def move_standby_tasks(state: WorkingState, lags: LagRanking, budget: WarmUpBudget) -> int:
    """Returns how many standbys could not stay on their targets and found another client."""
    names = state.names
    kept: list[int] = []
    keepers: list[int] = []
    movements = _standby_movements(state, lags, kept, keepers)
    state.log.later(lambda: _decisions_to_keep(names, kept, keepers, Role.STANDBY))
    if not movements:
        return 0
    decided, moved = _move_standbys(state, lags, budget, _in_drawing_order(lags, movements))
    state.log.later(lambda: _decisions(names, decided, Role.STANDBY))
    return moved


def _standby_movements(state: WorkingState, lags: LagRanking, kept: list[int], keepers: list[int]) -> list[_Movement]:
    """Standbys that cannot stay, by client and then by task; all others are added to `kept` and `keepers`."""
    movements: list[_Movement] = []
    for client, standby_tasks in enumerate(state.standby):
        for task in sorted(standby_tasks - state.warm_ups[client]):
            if lags.caught_up_instead_of(task, client) is None:
                kept.append(task)
                keepers.append(client)
            else:
                movements.append((task, client))
    return movements


def _in_drawing_order(lags: LagRanking, movements: list[_Movement]) -> list[_Movement]:
    """Fewest caught-up clients first, then by task. A task may be queued for several clients: then Java's heap
    decides.
    """
    client_of = dict(movements)
    if len(client_of) == len(movements):
        return [(task, client_of[task]) for task in _fewest_caught_up_first(lags, sorted(client_of))]
    keyed = [(len(lags.caught_up[task]), task, client) for task, client in movements]
    heap = JavaPriorityQueue(itemgetter(0, 1), keyed)
    return [(movement[1], movement[2]) for movement in iter(heap.poll, None) if movement is not None]


def _move_standbys(
    state: WorkingState, lags: LagRanking, budget: WarmUpBudget, movements: list[_Movement]
) -> tuple[_DecisionFields, int]:
    """To a caught-up client without a copy, otherwise to the one with the smallest lag before it. Counts what moved."""
    owners, standbys, caught_up_on = state.owner, state.standby, lags.caught_up
    queue = ConstrainedPrioritySet(state.processes, state.assigned, state.capacity)
    decided: _DecisionFields = []
    moved = 0
    to_caught_up, spent = DecisionKind.MOVED_TO_CAUGHT_UP, DecisionKind.WARM_UP_BUDGET_SPENT
    for task, client in movements:
        kind = to_caught_up
        holder = owners[task]
        caught_up = caught_up_on[task]
        source = queue.poll([other for other in caught_up if other != holder and task not in standbys[other]])
        if source is None:
            kind = DecisionKind.MOVED_TO_MOST_CAUGHT_UP
            source = lags.nearest_ahead_of(task, client)
            if source is not None and (source == holder or task in standbys[source]):
                source = next((other for other in lags.ahead_of(task, client) if not state.holds(other, task)), None)
            if source is None:
                decided += (DecisionKind.NOWHERE_TO_MOVE, task, client, None, None)
                continue
        moved += 1
        if budget.take():
            state.assign_standby(source, task)
            state.warm_ups[client].add(task)
            decided += (kind, task, source, client, DecisionKind.WARM_UP)
        else:
            state.move_standby(client, source, task)
            decided += (kind, task, source, client, spent)
        queue.offer(source, client)
    return decided, moved
