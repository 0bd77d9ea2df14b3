"""Makes the history of a group over recorded rebalances, with the triggers and the moved tasks of each rebalance."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from assignor.types import ProcessId, TaskId
from rebalance_analysis.history.past_rebalance import PastRebalance, RebalanceFacts, SeenRebalance, see
from rebalance_analysis.history.task_history import TaskRebalance, task_rebalance


class Move(NamedTuple):
    """The move of an active task to another process. `giver`: the process that had the task after the previous
    rebalance; None if no process had it, or if no earlier rebalance is recorded. `receiver`: the process that has the
    task after this rebalance; None if no process has it. `held_back`: True if the receiver gets the task only after the
    previous owner has revoked it.
    """

    task: TaskId
    giver: ProcessId | None
    receiver: ProcessId | None
    held_back: bool


@dataclass(frozen=True, slots=True)
class GroupRebalance:
    """One rebalance of a group. `moves`: the moves of active tasks, sorted by task. `handed_over`: the number of tasks
    that the previous rebalance held back and this rebalance assigned. `held_back`: the number of tasks that wait until
    their old owner has revoked them. This number includes tasks that move to another thread of the same process.
    `differing`: the number of tasks whose recorded placement differs from this program's placement. `task_rebalances`:
    the changes of every task, sorted by task; empty unless `group_history` was called with `every_task`.
    """

    facts: RebalanceFacts
    processes: int
    tasks: int
    moves: tuple[Move, ...]
    handed_over: int
    held_back: int
    standbys: int
    warm_ups: int
    differing: int
    task_rebalances: tuple[TaskRebalance, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The history of one group. `instances`: the name of each process, as `SeenRebalance.instances` defines it."""

    rebalances: tuple[GroupRebalance, ...]
    instances: Mapping[ProcessId, str | None]

    @property
    def moves(self) -> int:
        """The number of moves of active tasks in the history. A task that had no process before does not count as
        moved.
        """
        return sum(1 for each in self.rebalances for move in each.moves if move.giver is not None)


_Owners = Mapping[TaskId, ProcessId]


def group_history(
    rebalances: Iterable[PastRebalance], before: PastRebalance | None = None, *, every_task: bool = False
) -> GroupHistory:
    """Makes the history of one group. `rebalances`: the rebalances of the group, oldest first; only one of the
    rebalances is in memory at a time. `before`: the rebalance before the oldest of `rebalances`, for comparison.
    `every_task`: True to fill in `GroupRebalance.task_rebalances`. A history with `every_task` takes longer, because
    every task is explained.
    """
    found: list[GroupRebalance] = []
    seen: SeenRebalance | None = None
    active: _Owners = {}
    tasks: dict[TaskId, TaskRebalance] = {}
    instances: dict[ProcessId, str | None] = {}
    for past in rebalances if before is None else chain((before,), rebalances):
        previous, active_before = seen, active
        seen = see(past, previous)
        active = seen.placed.active()
        instances |= seen.instances()
        if every_task:
            tasks = _tasks(past, seen, tasks)
        if past is not before:
            of_tasks = tuple(tasks[task] for task in sorted(tasks))
            found.append(_group_rebalance(seen, previous, active, active_before, of_tasks))
    return GroupHistory(tuple(found), instances)


def _tasks(
    past: PastRebalance, seen: SeenRebalance, before: Mapping[TaskId, TaskRebalance]
) -> dict[TaskId, TaskRebalance]:
    """Returns the changes of every task that exists in this rebalance or in the previous rebalance (`before`)."""
    explanations = {explanation.task: explanation for explanation in past.ran.explanations(None)}
    tasks = {*explanations, *seen.placed.differing, *before}
    return {task: task_rebalance(task, seen, explanations.get(task), before.get(task)) for task in tasks}


def _group_rebalance(
    seen: SeenRebalance, previous: SeenRebalance | None, now: _Owners, before: _Owners, tasks: tuple[TaskRebalance, ...]
) -> GroupRebalance:
    placed = seen.placed
    was_held_back = frozenset[TaskId]() if previous is None else previous.placed.held_back
    placements = () if placed.placement is None else tuple(placed.placement.clients.values())
    moves = (
        Move(task, before.get(task), now.get(task), task in placed.held_back)
        for task in sorted({*now, *before})
        if before.get(task) != now.get(task)
    )
    return GroupRebalance(
        facts=seen.facts,
        processes=len(seen.processes),
        tasks=len(now),
        moves=tuple(moves),
        handed_over=len(was_held_back & now.keys() - placed.held_back),
        held_back=len(placed.held_back),
        standbys=sum(len(client.standby) - len(client.warm_ups) for client in placements),
        warm_ups=sum(len(client.warm_ups) for client in placements),
        differing=len(placed.differing),
        task_rebalances=tasks,
    )
