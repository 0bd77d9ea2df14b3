"""Standbys on the clients with the fewest copies per thread, any client will do. Source: `DefaultStandbyTaskAssignor`.

Kafka draws clients out of its ConstrainedPrioritySet. No load changes here while its client is queued, so the layout
of Java's heap cannot show, and a plain heap gives the same clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from assignor.decisions import Decision, DecisionKind
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role


class DefaultStandbyTaskAssignor:
    """Answers to `StandbyTaskAssignor` of standby_assignors.py."""

    def assign(self, state: WorkingState, num_standby_replicas: int) -> None:
        assign_to_least_loaded(state, ((task, num_standby_replicas) for task in range(len(state.tasks))))

    def may_move(self, source: int, destination: int) -> bool:
        return True


def assign_to_least_loaded(state: WorkingState, wanted: Iterable[tuple[int, int]]) -> None:
    """`wanted`: tasks in the order to place them, each with the number of standbys that it lacks.

    Source: `StandbyTaskAssignmentUtils.pollClientAndMaybeAssignAndUpdateRemainingStandbyTasks`.
    """
    queue = [(state.load(client), client) for client in range(len(state.clients))]
    heapify(queue)
    for task, missing in wanted:
        drawn: list[int] = []
        while queue and missing > 0:
            client = heappop(queue)[1]
            drawn.append(client)
            if not state.holds(client, task):
                state.assign_standby(client, task)
                state.say(DecisionKind.TARGET, task, Role.STANDBY, client)
                missing -= 1
        for client in drawn:
            heappush(queue, (state.load(client), client))
        if missing > 0:
            log_missing_hosts(state, task, missing)


def log_missing_hosts(state: WorkingState, task: int, missing: int) -> None:
    state.log.append(Decision(DecisionKind.NO_STANDBY_HOST, state.tasks[task], Role.STANDBY, detail=missing))
