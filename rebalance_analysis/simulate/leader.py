"""What a forecast asks its leader for: a decision from what the members report. One leader for each format.

Both run the real code. They differ in what a member is (a stream thread with its bytes, or a whole process), and in
who holds a moved task back until its owner has given it up (the pipeline itself, or this model of it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.types import TaskId
from rebalance_analysis.simulate.group_members import HandedOut, Members


@dataclass(frozen=True, slots=True)
class Decided:
    """One rebalance. `handed_out`: by thread. `held_back`: tasks that wait until their owner has given them up.

    `rejoin`: the members rejoin as soon as they have applied their assignments. `probing_at_ms`: since the recorded
    rebalance.
    """

    problem: PlacementProblem
    placement: Placement
    handed_out: Mapping[str, HandedOut]
    held_back: frozenset[TaskId] = field(default_factory=frozenset)
    rejoin: bool = False
    probing_at_ms: int | None = None


class ForecastLeader(Protocol):
    """Decides the rebalances of a forecast."""

    def recorded_rebalance(self) -> tuple[Decided, Members]:
        """The first rebalance, and the members as they were when it began. Raises RebalanceNotPlaced, InputError."""
        ...

    def next_rebalance(self, members: Members, now_ms: int) -> Decided:
        """The next one, from what `members` report at `now_ms` (since the recorded one). Raises RebalanceNotPlaced."""
        ...
