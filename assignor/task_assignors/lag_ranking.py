"""Which clients are caught up on a task, and which come next by lag.

Kafka builds for every task the sorted set of caught-up clients and the set of all clients sorted by lag. Nearly every
client reports nothing about a given task, and then has the same lag as every other such client. So only reported lags
are kept by task; the other clients share the task's unreported lag, and follow in process order. Source:
`HighAvailabilityTaskAssignor.tasksToCaughtUpClients`, `tasksToClientByLag`, and
`TaskMovement.taskIsNotCaughtUpOnClientAndOtherMoreCaughtUpClientsExist`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import filterfalse

from assignor.clients.task_lags import TaskLags, is_caught_up
from assignor.errors import IllegalStateError
from assignor.task_assignors.working_state import WorkingState
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, TaskId


class LagRanking:
    """`reported[task]`: lag by client, for clients that reported one; `unreported[task]`: the lag of all others.

    `unreported[task]` is None only when every client has reported the task. `caught_up[task]`: what
    `caught_up_instead_of` gave, since each copy of a task asks. Tasks and clients as in `WorkingState`.
    """

    def __init__(
        self,
        reported: list[dict[int, int]],
        unreported: list[int | None],
        client_count: int,
        acceptable_recovery_lag: int,
    ) -> None:
        self.reported = reported
        self.unreported = unreported
        self.client_count = client_count
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.caught_up: list[list[int]] = [[]] * len(reported)

    def is_caught_up(self, task: int, client: int) -> bool:
        return is_caught_up(self.lag(task, client), self.acceptable_recovery_lag)

    def lag(self, task: int, client: int) -> int:
        lag = self.reported[task].get(client)
        if lag is None:
            lag = self.unreported[task]
            assert lag is not None
        return lag

    def caught_up_clients(self, task: int) -> list[int]:
        """Sorted."""
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
        """The caught-up clients, sorted, when the client is not one of them and another client has a smaller lag;
        otherwise None. Nobody may change the list.
        """
        reported, unreported = self.reported[task], self.unreported[task]
        lag = reported.get(client)
        if lag is None:
            if not reported:
                return None  # all clients have the same lag
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
        """Whether the client is not caught up on the task while another client has a smaller lag."""
        return self.caught_up_instead_of(task, client) is not None

    def nearest_ahead_of(self, task: int, client: int) -> int | None:
        """The first of `ahead_of`; None when there is none."""
        reported, unreported = self.reported[task], self.unreported[task]
        nearest = min([(lag, other) for other, lag in reported.items()], default=None)
        if unreported is not None and (nearest is None or unreported <= nearest[0]):
            other = next((each for each in range(self.client_count) if each not in reported), None)
            if other is not None and (nearest is None or (unreported, other) < nearest):
                nearest = (unreported, other)
        return None if nearest is None or nearest[1] == client else nearest[1]

    def ahead_of(self, task: int, client: int) -> Iterator[int]:
        """The clients before `client` by (lag, process id), smallest lag first."""
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
    """Raises IllegalStateError when a client has no lag for a stateful task, as `ClientState.lagFor` does."""
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
    """The lags that differ, or may differ, from the shared ones; all lags when the client does not share them."""
    if lags.unreported is shared or lags.unreported == shared:
        return lags.reported
    return {task: lags.lag_for(task) for task in tasks}
