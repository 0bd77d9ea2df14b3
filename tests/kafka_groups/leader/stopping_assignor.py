"""Task assignors that stop for ever once a group is so large: a leader is then between its join and its assignments."""

import sys
import threading
from typing import ClassVar

from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor

STOPPED = "the assignor has stopped"


class StopsAtTwo:
    """Decides as `HighAvailabilityTaskAssignor` while there is one process."""

    clients: ClassVar[int] = 2

    @property
    def name(self) -> str:
        return f"{__name__}:{type(self).__name__}"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        if len(problem.clients) >= self.clients:
            print(STOPPED, file=sys.stderr, flush=True)
            threading.Event().wait()
        return HighAvailabilityTaskAssignor().assign(problem, log)


class StopsAtThree(StopsAtTwo):
    """While there are two."""

    clients = 3
