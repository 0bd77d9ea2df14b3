"""LegacyStickyTaskAssignor: tasks stay where they were as long as the load allows it; lags do not count.

1. Active tasks stay with their owner up to its fair share (tasks per thread, rounded down).
2. What is left goes to a client that had a standby of it, up to the same share.
3. The rest, by task id: to the previous owner or standby unless that is full while another has more room, else to the
   client with most room.
4. Standbys of each stateful task by the rule of 3, where tasks that are not yet together on a client attract.

Source: `LegacyStickyTaskAssignor`, which was `StickyTaskAssignor` before 3.8.
"""

from __future__ import annotations

from assignor.decisions import DecisionLog
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.sticky_placement import StickyPlacement


class LegacyStickyTaskAssignor:
    """Never asks for a probing rebalance. Raises IllegalStateError when the clients have no threads."""

    name = "LegacyStickyTaskAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        placement = StickyPlacement(problem, log)
        placement.keep_previous_active(placement.tasks_per_thread)
        placement.give_to_previous_standby(placement.tasks_per_thread)
        placement.place_remaining_active()
        placement.assign_standbys()
        return placement.result(probing_rebalance_needed=False)
