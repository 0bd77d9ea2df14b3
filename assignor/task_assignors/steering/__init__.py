"""The operators' instructions for a rebalance: for example, which instances to drain. The instructions apply in
addition to Kafka's rules.

`steered_assignor` wraps the task assignor of the group. Without instructions, no assignor is wrapped, and the rebalance
has the same result as in Kafka. Kafka has no instructions by operators.
"""

from dataclasses import dataclass

from assignor.task_assignors.base import TaskAssignor
from assignor.task_assignors.steering.away import AwayAssignor
from assignor.task_assignors.steering.draining import DrainingAssignor
from assignor.task_assignors.steering.keeping import KeepingAssignor
from assignor.types import ProcessId


@dataclass(frozen=True, slots=True)
class Steering:
    """The instructions of operators.

    `drained_processes`: the instances to drain. Their tasks move away as soon as other instances can run them.
    `drained_members`: the member ids of threads to drain. Their tasks move away as soon as other threads can run them.
    Member ids that the group does not have are ignored. `keeps_owned`: True if every task and standby stays on the
    client that reports it. A task is then placed only if no client runs it. `away_processes`: instances that keep their
    tasks and get no new tasks.
    """

    drained_processes: frozenset[ProcessId] = frozenset()
    drained_members: frozenset[str] = frozenset()
    keeps_owned: bool = False
    away_processes: frozenset[ProcessId] = frozenset()


NO_STEERING = Steering()


def steered_assignor(assignor: TaskAssignor, steering: Steering) -> TaskAssignor:
    """Returns an assignor that follows the instructions of `steering`. If `steering` has no instructions, returns
    `assignor` itself. If `keeps_owned` is True, tasks on drained instances stay there, too.

    The draining assignor has to wrap the away assignor. If the away assignor wrapped the draining assignor, tasks would
    move back to absent drained instances.
    """
    processes, members, away = steering.drained_processes, steering.drained_members, steering.away_processes
    if away:
        assignor = AwayAssignor(assignor, away)
    if processes or members:
        assignor = DrainingAssignor(assignor, processes, members, away)
    return KeepingAssignor(assignor) if steering.keeps_owned else assignor
