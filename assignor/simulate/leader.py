"""What the leader of a forecast answers to: a round from what the members report. Two formats, two leaders.

Either runs the real code; they differ in what a member is (a stream thread with its bytes, or a process as one) and in
who holds a moved task back until its owner gave it up (the pipeline itself, or this model of it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from assignor.simulate.group_members import HandedOut, Members
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.types import TaskId


@dataclass(frozen=True, slots=True)
class Decided:
    """One round. `handed_out`: by thread. `held_back`: tasks that wait until their owner has given them up.

    `rejoin`: members come back as soon as they have done as told. `probing_at_ms`: since the recorded round.
    """

    problem: PlacementProblem
    placement: Placement
    handed_out: Mapping[str, HandedOut]
    held_back: frozenset[TaskId] = field(default_factory=frozenset)
    rejoin: bool = False
    probing_at_ms: int | None = None


class ForecastLeader(Protocol):
    def recorded_rebalance(self) -> tuple[Decided, Members]:
        """The first round, and the members as they were when it was asked for. Raises RoundFailed, InputError."""
        ...

    def next_rebalance(self, members: Members, now_ms: int) -> Decided:
        """One more, from what `members` report at `now_ms` (since the recorded round). Raises RoundFailed."""
        ...
