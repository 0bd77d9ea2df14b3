"""A whole group over recorded rebalances: what set each one off, and which tasks went where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assignor.types import ProcessId, TaskId
from rebalance_analysis.history.past_rebalance import PastRebalance, RebalanceFacts, SeenRebalance, see
from rebalance_analysis.history.task_history import TaskInRebalance, TaskRebalance


class Move(NamedTuple):
    """An active task that changes its process. `giver`: its process before, None for nowhere; `receiver`: its process
    now, None for nowhere. `held_back`: the receiver gets the task only after the giver has given it up.
    """

    task: TaskId
    giver: ProcessId | None
    receiver: ProcessId | None
    held_back: bool


@dataclass(frozen=True, slots=True)
class GroupRebalance:
    """`moves`: in the order of the tasks. `handed_over`: tasks that the rebalance before held back and that run now.
    `held_back`: tasks that no member was given yet, including those that only change their thread. `differing`: tasks
    that this program would have placed elsewhere. `task_rebalances`: what the rebalance meant for every task, in their
    order; empty unless that was asked for.
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
    """`instances`: what each process calls itself, see `SeenRebalance.instances`."""

    rebalances: tuple[GroupRebalance, ...]
    instances: Mapping[ProcessId, str | None]

    @property
    def moves(self) -> int:
        """Tasks that ran nowhere before, as in the first rebalance, are not counted."""
        return sum(1 for each in self.rebalances for move in each.moves if move.giver is not None)


def group_history(
    rebalances: Iterable[PastRebalance], before: PastRebalance | None = None, *, every_task: bool = False
) -> GroupHistory:
    """`rebalances`: of one group, oldest first; they are read one at a time. `before`: the one before them, which the
    history leaves out. `every_task`: fill in `task_rebalances`, which costs an explanation for each.
    """
    found: list[GroupRebalance] = []
    seen = None if before is None else see(before, None)
    active: Mapping[TaskId, ProcessId] = {} if seen is None else seen.placed.active()
    tasks = {} if before is None or seen is None or not every_task else _tasks(before, seen, ())
    instances = {} if seen is None else seen.instances()
    for past in rebalances:
        previous, active_before, tasks_before = seen, active, tasks
        seen = see(past, previous)
        active = seen.placed.active()
        instances |= seen.instances()
        task_rebalances: tuple[TaskRebalance, ...] = ()
        if every_task:
            tasks = _tasks(past, seen, tasks_before)
            task_rebalances = tuple(tasks[task].compared_with(tasks_before.get(task)) for task in sorted(tasks))
        found.append(_group_rebalance(seen, previous, active, active_before, task_rebalances))
    return GroupHistory(tuple(found), instances)


def _tasks(past: PastRebalance, seen: SeenRebalance, before: Iterable[TaskId]) -> dict[TaskId, TaskInRebalance]:
    """Every task of the rebalance, and those that were there `before`."""
    explanations = {explanation.task: explanation for explanation in past.ran.explanations(None)}
    tasks = {*explanations, *seen.placed.differing, *before}
    return {task: TaskInRebalance.found(task, seen, explanations.get(task)) for task in tasks}


def _group_rebalance(
    seen: SeenRebalance,
    previous: SeenRebalance | None,
    active: Mapping[TaskId, ProcessId],
    before: Mapping[TaskId, ProcessId],
    task_rebalances: tuple[TaskRebalance, ...],
) -> GroupRebalance:
    placed = seen.placed
    was_held_back = frozenset[TaskId]() if previous is None else previous.placed.held_back
    placements = () if placed.placement is None else tuple(placed.placement.clients.values())
    moves = (
        Move(task, before.get(task), active.get(task), task in placed.held_back)
        for task in sorted({*active, *before})
        if before.get(task) != active.get(task)
    )
    return GroupRebalance(
        facts=seen.facts,
        processes=len(seen.processes),
        tasks=len(active),
        moves=tuple(moves),
        handed_over=len(was_held_back & active.keys() - placed.held_back),
        held_back=len(placed.held_back),
        standbys=sum(len(client.standby) - len(client.warm_ups) for client in placements),
        warm_ups=sum(len(client.warm_ups) for client in placements),
        differing=len(placed.differing),
        task_rebalances=task_rebalances,
    )
