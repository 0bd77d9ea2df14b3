"""The task assignor of a group, wrapped in what its operators ask for."""

from __future__ import annotations

from assignor.steering.away import AwayAssignor
from assignor.steering.draining import DrainingAssignor
from assignor.steering.keeping import KeepingAssignor
from assignor.steering.steering import Steering
from assignor.task_assignors.base import TaskAssignor


def steered_assignor(assignor: TaskAssignor, steering: Steering) -> TaskAssignor:
    """`assignor` itself when nothing is steered. What is kept is kept on drained instances, too.

    Who is away is passed over among those that are not drained: the other way round, what a drained instance runs would
    go back to it.
    """
    if steering.away_processes:
        assignor = AwayAssignor(assignor, steering.away_processes)
    if steering.drained_processes or steering.drained_members:
        assignor = DrainingAssignor(assignor, steering)
    return KeepingAssignor(assignor) if steering.keeps_owned else assignor
