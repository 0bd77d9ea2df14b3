"""Which of the two standby assignors places the standbys. Source: `StandbyTaskAssignor`, `StandbyTaskAssignorFactory`.

Kafka's factory knows a third choice, spreading standbys over the racks of the clients. HighAvailabilityTaskAssignor of
4.3.1 never asks for it: it hands the factory no RackAwareTaskAssignor. So the rack of a client decides nothing here.
"""

from __future__ import annotations

from typing import Protocol

from assignor.configs import AssignmentConfigs
from assignor.task_assignors.standby_client_tags import ClientTagStandbyTaskAssignor
from assignor.task_assignors.standby_default import DefaultStandbyTaskAssignor
from assignor.task_assignors.working_state import WorkingState


class StandbyTaskAssignor(Protocol):
    def assign(self, state: WorkingState, num_standby_replicas: int) -> None:
        """Give every task so many standbys, or as many as there are clients for."""
        ...

    def may_move(self, source: int, destination: int) -> bool:
        """Whether any standby may go from one client to another, to balance their load."""
        ...


def standby_task_assignor(state: WorkingState, configs: AssignmentConfigs) -> StandbyTaskAssignor:
    if configs.rack_aware_assignment_tags:
        return ClientTagStandbyTaskAssignor(state, configs.rack_aware_assignment_tags)
    return DefaultStandbyTaskAssignor()
