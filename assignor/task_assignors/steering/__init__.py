"""What operators ask of a rebalance beside Kafka's rules: instances that are to be emptied, and tasks that are to stay.

A steered rebalance wraps the task assignor that the group is set to (`steered_assignor`). Without steering nothing is
wrapped, and a rebalance is Kafka's. Kafka has no counterpart.
"""

from __future__ import annotations

from dataclasses import dataclass

from assignor.task_assignors.base import TaskAssignor
from assignor.task_assignors.steering.away import AwayAssignor
from assignor.task_assignors.steering.draining import DrainingAssignor
from assignor.task_assignors.steering.keeping import KeepingAssignor
from assignor.types import ProcessId


@dataclass(frozen=True, slots=True)
class Steering:
    """`drained_processes`: instances that are to have no tasks as soon as others can run theirs. `drained_members`: the
    same for single threads, by member id; names that the group does not have mean nothing. `keeps_owned`: every task
    and standby stays on the client that says it runs it; only tasks that nobody runs are placed. `away_processes`:
    instances that keep what they have, and get nothing new.
    """

    drained_processes: frozenset[ProcessId] = frozenset()
    drained_members: frozenset[str] = frozenset()
    keeps_owned: bool = False
    away_processes: frozenset[ProcessId] = frozenset()


NO_STEERING = Steering()


def steered_assignor(assignor: TaskAssignor, steering: Steering) -> TaskAssignor:
    """`assignor` itself when nothing is steered. What is kept is kept on drained instances, too.

    Who is away is passed over among those that are not drained: the other way round, what a drained instance runs would
    go back to it.
    """
    processes, members, away = steering.drained_processes, steering.drained_members, steering.away_processes
    if away:
        assignor = AwayAssignor(assignor, away)
    if processes or members:
        assignor = DrainingAssignor(assignor, processes, members, away)
    return KeepingAssignor(assignor) if steering.keeps_owned else assignor
