"""Data about each task before the rebalance: its home, the levels of its copies, and its weight.

The home of a task is the client that ran it. A task has no home if its previous owner is not caught up and another
client has a smaller lag. By the rules of KIP-441, a task without a home moves immediately and cannot stay on the client
that ran it.

The level of a copy shows how much of the state is missing. A level is a number from 0 (caught up) to `NO_COPY` (no
state). MinimalMovementTaskAssignor compares levels instead of lags. So a small change of a lag does not change a
decision.
"""

from dataclasses import dataclass
from itertools import chain

from assignor.clients.client_state import is_caught_up
from assignor.configs.pins import TaskWeights
from assignor.task_assignors.task_movement import LagRanking, rank_by_lag
from assignor.task_assignors.working_state import WorkingState
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, TaskId

CAUGHT_UP = 0
NO_COPY = 8
NOBODY = -1

_HEAVIEST = 1_000_000
"""The heaviest task gets this whole number as its weight. The weights of all other tasks are scaled by the same factor
and rounded.
"""


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of all tasks before the rebalance, by task number as in `WorkingState`.

    `home[task]`: the home client (see the module docstring), or NOBODY. `previous[task]`: the client that ran the task,
    even if it is not the task's home. `level[task]`: the level of each client that has some of the state, smallest lag
    first. `elsewhere[task]`: the level of all clients without an entry in `level[task]`; CAUGHT_UP if all clients count
    as caught up, otherwise NO_COPY. `weight[task]`: the weight of the task as a whole number, at least 1.
    """

    home: list[int]
    previous: list[int]
    level: list[dict[int, int]]
    elsewhere: list[int]
    weight: list[int]
    lags: LagRanking

    def level_on(self, task: int, client: int) -> int:
        return self.level[task].get(client, self.elsewhere[task])


def copies_before(state: WorkingState, acceptable_recovery_lag: int, weights: TaskWeights | None) -> Copies:
    """Returns the copies before the rebalance. Raises IllegalStateError if a client has no lag for a stateful task."""
    as_reported = rank_by_lag(state, acceptable_recovery_lag)
    known = [state.clients[0].lags.unreported.get(task, UNKNOWN_OFFSET_SUM) for task in state.tasks]
    whole = [
        max(0, *reported.values()) if size < 0 and reported else max(0, size)
        for size, reported in zip(known, as_reported.reported, strict=True)
    ]
    lags = _with_unknown_as_whole(as_reported, whole)
    previous = _previous_owners(state, lags)
    home = [
        NOBODY if owner == NOBODY or lags.is_behind_another(task, owner) else owner
        for task, owner in enumerate(previous)
    ]
    elsewhere = [CAUGHT_UP if _counts_as_caught_up(lags, task) else NO_COPY for task in range(len(state.tasks))]
    level = [_levels(lags, task, whole[task], known[task] >= 0) for task in range(len(state.tasks))]
    place = state.places
    for client, placement_client in enumerate(state.clients):
        for task_id in chain(placement_client.previous_active, placement_client.previous_standby):
            task = place.get(task_id)
            if task is not None and elsewhere[task] == NO_COPY:
                level[task].setdefault(client, NO_COPY - 1)
    return Copies(home, previous, level, elsewhere, stateful_weights(state.tasks, whole, weights), lags)


def stateful_weights(tasks: list[TaskId], restore_sizes: list[int], weights: TaskWeights | None) -> list[int]:
    """Returns the weight of each task as a whole number, at least 1. If all tasks have the same weight, returns 1 for
    each. `restore_sizes`: the size of each task's state, in records.
    """
    if weights is None:
        return [1] * len(tasks)
    if weights.by_restore_size:
        return _as_whole([float(size) for size in restore_sizes])
    by_task = dict(weights.weights)
    return _as_whole([by_task.get(task, 1.0) for task in tasks])


def _as_whole(weights: list[float]) -> list[int]:
    heaviest = max(weights, default=0.0)
    if len(set(weights)) <= 1:
        return [1] * len(weights)
    return [max(1, round(weight / heaviest * _HEAVIEST)) for weight in weights]


def _previous_owners(state: WorkingState, lags: LagRanking) -> list[int]:
    """Returns the previous owner of each task: the first client that reports the task as running. If no client reports
    the task as running, the previous owner is the first client on which the task was active. The previous owner is
    NOBODY if the task was active on no client.
    """
    owner = [NOBODY] * len(state.tasks)
    place = state.places
    for client in range(len(state.clients) - 1, -1, -1):
        for task_id in state.clients[client].previous_active:
            if task_id in place:
                owner[place[task_id]] = client
    for task, reported in enumerate(lags.reported):
        running = [client for client, lag in reported.items() if lag == LATEST_OFFSET]
        if running and owner[task] not in running:
            owner[task] = min(running)
    return owner


def _with_unknown_as_whole(lags: LagRanking, whole: list[int]) -> LagRanking:
    """Replaces unknown lags. If the client reported the task, the lag becomes the length of the whole changelog. If the
    client did not report the task, the lag becomes Java's Long.MAX_VALUE. Kafka sorts unknown lags before all other
    lags, because UNKNOWN_OFFSET_SUM is negative.

    `whole[task]`: the number of records that a client without state of the task has to restore, as far as known.
    """
    reported = [
        {client: whole[task] if lag == UNKNOWN_OFFSET_SUM else lag for client, lag in of_task.items()}
        if UNKNOWN_OFFSET_SUM in of_task.values()
        else of_task
        for task, of_task in enumerate(lags.reported)
    ]
    unreported = [None if lag is None else JAVA_LONG_MAX if lag < 0 else lag for lag in lags.unreported]
    return LagRanking(reported, unreported, lags.client_count, lags.acceptable_recovery_lag)


def _counts_as_caught_up(lags: LagRanking, task: int) -> bool:
    unreported = lags.unreported[task]
    return unreported is not None and is_caught_up(unreported, lags.acceptable_recovery_lag)


def _levels(lags: LagRanking, task: int, whole: int, is_known: bool) -> dict[int, int]:
    """Returns the level of each client that has some state of the task, smallest lag first.

    `is_known`: True if `whole` is the length of the changelog. If `is_known` is True, all clients with a reported lag
    have some state. If `is_known` is False, `whole` is only the largest reported lag. A client with this lag then
    counts as a client without state.
    """
    levels: dict[int, int] = {}
    for client, lag in sorted(lags.reported[task].items(), key=lambda entry: (entry[1], entry[0])):
        if is_caught_up(lag, lags.acceptable_recovery_lag):
            levels[client] = CAUGHT_UP
        elif is_known or lag < whole:
            levels[client] = 1 + min(lag, whole) * (NO_COPY - 2) // max(1, whole)
    return levels
