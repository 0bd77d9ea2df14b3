"""FallbackPriorTaskAssignor: what the leader turns to when lags cannot be computed.

Every active task stays with its previous owner, whatever its load; the rest is placed as the sticky assignor does, and
a probing rebalance is always due, since lags may be known by then. Source: `FallbackPriorTaskAssignor`.
"""

from __future__ import annotations

from assignor.decisions import DecisionLog
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.sticky_placement import StickyPlacement


class FallbackPriorTaskAssignor:
    """Does not look at lags. Raises IllegalStateError when the clients have no threads."""

    name = "FallbackPriorTaskAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        placement = StickyPlacement(problem, log)
        placement.keep_previous_active(tasks_per_thread=None)
        placement.give_to_previous_standby(placement.tasks_per_thread)
        placement.place_remaining_active()
        placement.assign_standbys()
        return placement.result(probing_rebalance_needed=True)
