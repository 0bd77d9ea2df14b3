"""Moves tasks from their targets to clients that can run them now. A task stays on its target, swaps with a caught-up
standby, or runs on another client while its target warms up.

A task or standby cannot stay on its target if the target is not caught up and another client has a smaller lag. The
target then restores the state as a warm-up, as far as max.warmup.replicas allows. The target gets the task or standby
in a later rebalance.

`LagRanking` finds the caught-up clients of a task, and the clients that come next by lag. Kafka builds two sets for
every task: the sorted caught-up clients, and all clients sorted by lag. Only a few clients report a given task. All
clients that do not report a task have the same lag on it. So for each task, `LagRanking` stores the reported lags, and
one unreported lag for all other clients. The clients without a reported lag are sorted by process id.

Source: `TaskMovement`, `HighAvailabilityTaskAssignor.tasksToCaughtUpClients`, `tasksToClientByLag`; KIP-441.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import filterfalse
from operator import itemgetter
from typing import Any

from assignor.clients.client_state import TaskLags, is_caught_up
from assignor.errors import IllegalStateError
from assignor.java.priority_queue import JavaPriorityQueue
from assignor.task_assignors.constrained_priority_set import ConstrainedPrioritySet
from assignor.task_assignors.decisions import Decision, DecisionKind
from assignor.task_assignors.working_state import NamedNumbers, WorkingState
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, Role, TaskId


@dataclass(eq=False)
class LagRanking:
    """The lags of all clients on all tasks. Tasks and clients are numbers, as in `WorkingState`.

    `reported[task]`: the lags of the clients that reported the task, by client. `unreported[task]`: the lag of the
    clients that did not report the task; None only if every client has reported the task. `caught_up[task]`: a cache of
    the caught-up clients, because `caught_up_instead_of` is called for each copy of the task.
    """

    reported: list[dict[int, int]]
    unreported: list[int | None]
    client_count: int
    acceptable_recovery_lag: int
    caught_up: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.caught_up = [[]] * len(self.reported)

    def is_caught_up(self, task: int, client: int) -> bool:
        return is_caught_up(self.lag(task, client), self.acceptable_recovery_lag)

    def lag(self, task: int, client: int) -> int:
        lag = self.reported[task].get(client)
        if lag is None:
            lag = self.unreported[task]
            assert lag is not None
        return lag

    def caught_up_clients(self, task: int) -> list[int]:
        """Returns the caught-up clients, sorted."""
        reported = self.reported[task]
        acceptable = self.acceptable_recovery_lag
        if acceptable == JAVA_LONG_MAX:
            caught_up = list(reported)
        else:
            caught_up = [each for each, lag in reported.items() if 0 <= lag <= acceptable or lag == LATEST_OFFSET]
        unreported = self.unreported[task]
        if unreported is not None and unreported <= acceptable and is_caught_up(unreported, acceptable):
            caught_up += [client for client in range(self.client_count) if client not in reported]
        caught_up.sort()
        return caught_up

    def caught_up_instead_of(self, task: int, client: int) -> list[int] | None:
        """Returns the caught-up clients, sorted, if `client` is not caught up and another client has a smaller lag.
        Returns None if `client` is caught up or no client has a smaller lag. Do not change the returned list, because
        it is cached.
        """
        reported, unreported = self.reported[task], self.unreported[task]
        lag = reported.get(client)
        if lag is None:
            if not reported:
                return None  # no client reported the task, so all clients have the same lag
            lag = unreported
            assert lag is not None
        acceptable = self.acceptable_recovery_lag
        if 0 <= lag <= acceptable or lag == LATEST_OFFSET or acceptable == JAVA_LONG_MAX:
            return None
        caught_up = self.caught_up[task] or self.caught_up_clients(task)
        self.caught_up[task] = caught_up
        if caught_up and lag > acceptable:
            return caught_up
        is_behind = min(reported.values()) < lag or (unreported is not None and unreported < lag)
        return caught_up if is_behind else None

    def is_behind_another(self, task: int, client: int) -> bool:
        """True if the client is not caught up on the task and another client has a smaller lag."""
        return self.caught_up_instead_of(task, client) is not None

    def nearest_ahead_of(self, task: int, client: int) -> int | None:
        """Returns the first client that `ahead_of` yields. Returns None if `ahead_of` yields no client."""
        reported, unreported = self.reported[task], self.unreported[task]
        nearest = min([(lag, other) for other, lag in reported.items()], default=None)
        if unreported is not None and (nearest is None or unreported <= nearest[0]):
            other = next((each for each in range(self.client_count) if each not in reported), None)
            if other is not None and (nearest is None or (unreported, other) < nearest):
                nearest = (unreported, other)
        return None if nearest is None or nearest[1] == client else nearest[1]

    def ahead_of(self, task: int, client: int) -> Iterator[int]:
        """Yields the clients that come before `client` in the order of lag and process id, smallest lag first."""
        reported, unreported = self.reported[task], self.unreported[task]
        others: Iterator[int] = iter(())
        if unreported is not None:
            others = filterfalse(reported.__contains__, range(self.client_count))
        other = next(others, None)
        for lag, each in sorted(zip(reported.values(), reported, strict=True)):
            while other is not None and unreported is not None and (unreported, other) < (lag, each):
                if other == client:
                    return
                yield other
                other = next(others, None)
            if each == client:
                return
            yield each
        while other is not None and other != client:
            yield other
            other = next(others, None)


def rank_by_lag(state: WorkingState, acceptable_recovery_lag: int) -> LagRanking:
    """Returns the lags of all clients on all tasks. Raises IllegalStateError if a client has no lag for a stateful
    task, as `ClientState.lagFor` does.
    """
    shared = state.clients[0].lags.unreported
    place = state.places.get
    reported: list[dict[int, int]] = [{} for _ in state.tasks]
    for client, placement_client in enumerate(state.clients):
        own = _own_lags(placement_client.lags, shared, state.tasks)
        for number, lag in zip(map(place, own), own.values(), strict=True):
            if number is not None:
                reported[number][client] = lag
    client_count = len(state.clients)
    unreported = list(map(shared.get, state.tasks))
    if None in unreported:
        for number, lag_of_others in enumerate(unreported):
            if lag_of_others is None and len(reported[number]) < client_count:
                raise IllegalStateError(f"Tried to lookup lag for unknown task {state.tasks[number]}")
    for number, lags in enumerate(reported):
        if len(lags) == client_count:
            unreported[number] = None
    return LagRanking(reported, unreported, client_count, acceptable_recovery_lag)


def _own_lags(lags: TaskLags, shared: Mapping[TaskId, int], tasks: list[TaskId]) -> Mapping[TaskId, int]:
    """Returns the client's lags, without lags that are certainly equal to those in `shared`. If `shared` does not
    contain the client's unreported lags, returns all lags of the client.
    """
    if lags.unreported is shared or lags.unreported == shared:
        return lags.reported
    return {task: lags.lag_for(task) for task in tasks}


_Movement = tuple[int, int]
"""A standby that cannot stay on its target: the task and the target."""

_DecisionFields = list[Any]
"""A flat list with five fields for each movement. The fields are the kind of decision, the task, the client, the
target, and the kind of decision about the target's warm-up. The list is flat because a tuple for each movement would
burden Python's garbage collector. Decisions are made from the list only when a caller reads the log.
"""


class WarmUpBudget:
    """The number of warm-ups that max.warmup.replicas still allows. The warm-ups of active tasks use the budget first.
    The warm-ups of standbys use the rest of the budget.
    """

    def __init__(self, remaining: int) -> None:
        self.remaining = remaining

    def take(self) -> bool:
        if self.remaining <= 0:
            return False
        self.remaining -= 1
        return True


def move_active_tasks(state: WorkingState, lags: LagRanking, budget: WarmUpBudget) -> int:
    """Moves active tasks that cannot stay on their targets. Returns the number of moved tasks."""
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
    """Returns the active tasks that cannot stay on their targets, and adds all other active tasks to `kept`."""
    reported = lags.reported
    movements: list[int] = []
    for task, owner in enumerate(owners):
        if reported[task].get(owner) == LATEST_OFFSET or lags.caught_up_instead_of(task, owner) is None:
            kept.append(task)
        else:
            movements.append(task)
    return movements


def _fewest_caught_up_first(lags: LagRanking, tasks: list[int]) -> list[int]:
    """Sorts tasks by their number of caught-up clients. `tasks`: the tasks, sorted; `lags.caught_up` has an entry for
    each of them.
    """
    counts = [len(lags.caught_up[task]) for task in tasks]
    return [tasks[place] for place in sorted(range(len(tasks)), key=counts.__getitem__)]


def _move_active(state: WorkingState, lags: LagRanking, budget: WarmUpBudget, movements: list[int]) -> _DecisionFields:
    """Moves each task to a caught-up client, preferably to a client that has a standby of the task. If no client is
    caught up, moves the task to the client with the smallest lag.
    """
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
    """Yields the decisions about tasks that stay. `kept`: the tasks that stay. `clients`: the client of each task of
    `kept`.
    """
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
    """Moves standbys that cannot stay on their targets. Returns the number of moved standbys."""
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
    """Returns the standbys that cannot stay on their targets, sorted by client and then by task. Adds the tasks of all
    other standbys to `kept`, and their clients to `keepers`.
    """
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
    """Sorts the movements by the number of caught-up clients, fewest first, then by task. If several movements have the
    same task, they are in the order of Java's heap.
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
    """Moves each standby to a caught-up client without a copy. If every caught-up client has a copy, the standby moves
    to the client with the smallest lag among the clients without a copy. A standby never moves to a client that comes
    after the target in the order of lag and process id. Returns the decisions and the number of moves.
    """
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
