"""A whole group over recorded rounds: for each round what set it off and which tasks went where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assignor.story.past_rebalance import PastRebalance, RebalanceFacts, SeenRebalance, see
from assignor.types import ProcessId, TaskId


class Move(NamedTuple):
    """An active task that goes elsewhere. `giver`: where it was, None for nowhere; `receiver`: where it goes, None for
    nobody. `held_back`: the receiver gets it once the giver has given it up.
    """

    task: TaskId
    giver: ProcessId | None
    receiver: ProcessId | None
    held_back: bool


@dataclass(frozen=True, slots=True)
class GroupRebalance:
    """`moves`: in the order of the tasks. `handed_over`: tasks that the round before held back and that run now.
    `held_back`: tasks that nobody was given yet, those that only change their thread among them. `differing`: tasks
    placed elsewhere than this program places them.
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


@dataclass(frozen=True, slots=True)
class GroupStory:
    rounds: tuple[GroupRebalance, ...]

    @property
    def moves(self) -> int:
        """Tasks placed anew out of nowhere, in the first round, are no moves."""
        return sum(1 for each in self.rounds for move in each.moves if move.giver is not None)


def group_story(rounds: Iterable[PastRebalance], before: PastRebalance | None = None) -> GroupStory:
    """`rounds`: of one group, oldest first; one at a time is held. `before`: the one before them, not told itself."""
    told: list[GroupRebalance] = []
    seen = None if before is None else see(before, None)
    active: Mapping[TaskId, ProcessId] = {} if seen is None else seen.placed.active()
    for past in rounds:
        previous, active_before = seen, active
        seen = see(past, previous)
        active = seen.placed.active()
        told.append(_told(seen, previous, active, active_before))
    return GroupStory(tuple(told))


def _told(
    seen: SeenRebalance,
    previous: SeenRebalance | None,
    active: Mapping[TaskId, ProcessId],
    before: Mapping[TaskId, ProcessId],
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
    )
