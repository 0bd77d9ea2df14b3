"""Gives no new tasks to absent instances, because their tasks do not run.

An absent instance keeps the tasks that it ran, even if the wrapped assignor would move one of these tasks. A present
client keeps its standby of a task if the instance that ran the task is absent. If the wrapped assignor would move a
task to an absent instance, the task stays on the client that runs it. If no client runs a task, the task goes to a
present client: the least loaded caught-up client, or else the least loaded client. No warm-up begins on an absent
instance. If all clients are absent, the placement is not changed.

Kafka has no counterpart: an absent static member (KIP-345) gets new tasks like any other member.
"""

from collections.abc import Iterable
from dataclasses import replace

from assignor.task_assignors.base import Placement, PlacementProblem, TaskAssignor
from assignor.task_assignors.decisions import Decision, DecisionKind, DecisionLog
from assignor.task_assignors.steering.changing_placement import ChangingPlacement, is_caught_up_on
from assignor.types import ProcessId, Role, TaskId


class AwayAssignor:
    def __init__(self, assignor: TaskAssignor, away: frozenset[ProcessId]) -> None:
        self.name = assignor.name
        self._assignor = assignor
        self._away = away

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        inner_log = DecisionLog()
        placed = self._assignor.assign(problem, inner_log)
        present = problem.clients.keys() - self._away
        is_wrong = placed.is_refused or placed.clients.keys() != problem.clients.keys()
        if is_wrong or not present or present == problem.clients.keys():
            log.extend(inner_log)
            return placed  # if the placement lacks clients, `validate_placement` raises the error
        copies = ChangingPlacement.of(placed)
        decided = DecisionLog()
        for process in sorted(problem.clients.keys() - present):
            had = problem.clients[process]
            for task in sorted(copies.warm_ups[process] - had.previous_standby - had.previous_active):
                copies.drop_standby(process, task)
            for task in sorted(copies.active[process] - had.previous_active):
                decided.append(_give(problem, copies, task, process, present))
        decided.extend(_keep(problem, copies, present))
        log.extend(step for step in inner_log if _still_holds(step, copies))
        log.extend(decided)
        return replace(placed, clients=copies.placed())


def _give(
    problem: PlacementProblem, copies: ChangingPlacement, task: TaskId, away: ProcessId, present: Iterable[ProcessId]
) -> Decision:
    everybody = sorted(present)
    running = [process for process in everybody if task in problem.clients[process].previous_active]
    ready = [process for process in running or everybody if is_caught_up_on(problem, process, task)]
    chosen = copies.least_loaded(ready or running or everybody, problem.clients)
    copies.swap_with_standby(task, chosen)
    return Decision(DecisionKind.AWAY_PASSED_OVER, task, Role.ACTIVE, chosen, away)


def _keep(problem: PlacementProblem, copies: ChangingPlacement, present: Iterable[ProcessId]) -> Iterable[Decision]:
    """Gives the tasks of absent clients back to these clients. An absent client does not get a task that a present
    client reports as running. If several absent clients ran a task, the first of these clients gets the task.
    """
    here = frozenset(present)
    run_here = frozenset(task for process in here for task in problem.clients[process].previous_active)
    for process in sorted(problem.clients.keys() - here):
        for task in sorted(problem.clients[process].previous_active - run_here):
            taker = copies.owner.get(task)
            if taker is None or taker not in here:
                continue
            copies.drop_standby(process, task)
            copies.move_active(task, process)
            standbys = sum(task in copies.standby[each] - copies.warm_ups[each] for each in copies.standby)
            if task in problem.clients[taker].previous_standby and standbys < problem.configs.num_standby_replicas:
                copies.standby[taker].add(task)
            yield Decision(DecisionKind.AWAY_KEEPS, task, Role.ACTIVE, process, taker)


def _still_holds(step: Decision, copies: ChangingPlacement) -> bool:
    warms_up = step.process is not None and step.task in copies.warm_ups.get(step.process, ())
    return step.kind is not DecisionKind.WARM_UP or warms_up
