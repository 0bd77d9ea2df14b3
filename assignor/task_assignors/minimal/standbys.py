"""Where standbys belong, so that as few of them as possible have to be restored anew.

Each client gets the whole number below or above its share of all copies, active and standby. The client that gives an
active task up has all of its state, and is as good a home for its standby as the one that had it. Small groups get the
best there is (`minimal_standby_flow.py`), large ones and those with tags what is found step by step, which is hardly
ever worse (`minimal_spread_standbys.py`).
"""

from __future__ import annotations

from assignor.decisions import DecisionKind
from assignor.task_assignors.minimal.copies import Copies
from assignor.task_assignors.minimal.spread import StandbySpread
from assignor.task_assignors.minimal.spread_standbys import SpreadStandbys
from assignor.task_assignors.minimal.standby_flow import MAX_ARCS, cheapest_standbys
from assignor.task_assignors.standby_default import log_missing_hosts
from assignor.task_assignors.working_state import WorkingState
from assignor.types import Role


def assign_standby_targets(
    state: WorkingState, copies: Copies, spread: StandbySpread, num_standby_replicas: int
) -> list[list[int]]:
    """Puts standbys into `state`, whose active tasks are where they belong. Returns their clients by task, sorted."""
    tasks = range(len(state.tasks))
    exactly = [task for task in tasks if not spread.spreads(task) and not spread.is_apart(task)]
    if len(exactly) * len(state.clients) > MAX_ARCS:
        exactly = []
    one_by_one = sorted(set(tasks).difference(exactly))
    placed = SpreadStandbys(state, copies, spread, one_by_one).placed(num_standby_replicas, balance=not exactly)
    if exactly:
        cheapest = cheapest_standbys(state, copies, spread, exactly, num_standby_replicas)
        for task, standbys in cheapest.items():
            for client in standbys:
                spread.put(task, client)
        placed |= cheapest
    targets = [sorted(placed[task]) for task in tasks]
    for task, standbys in enumerate(targets):
        _say_why(state, copies, task, standbys)
        if len(standbys) < num_standby_replicas:
            log_missing_hosts(state, task, num_standby_replicas - len(standbys))
    return targets


def _say_why(state: WorkingState, copies: Copies, task: int, standbys: list[int]) -> None:
    levels = copies.level[task]
    gives_up = sorted(
        (client for client in levels if client != state.owner[task] and client not in standbys),
        key=lambda client: (levels[client], client),
    )
    for client in standbys:
        if client in levels:
            state.say(DecisionKind.TARGET_KEPT, task, Role.STANDBY, client)
        elif gives_up:
            state.say(DecisionKind.TARGET_MOVED, task, Role.STANDBY, client, gives_up.pop(0))
        else:
            state.say(DecisionKind.TARGET_NEW, task, Role.STANDBY, client)
