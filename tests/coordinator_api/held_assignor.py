"""A user's own assignor for tests: it places as HighAvailability does, but only when the file it waits for is gone."""

from __future__ import annotations

import os
import time
from pathlib import Path

from assignor.decisions import DecisionLog
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.registry import task_assignor_named

HOLD_FILE_VARIABLE = "HELD_ASSIGNOR_FILE"
CLASS_PATH = "tests.coordinator_api.held_assignor:HeldAssignor"


class HeldAssignor:
    """Named by its class path. Runs inside the service's process."""

    name = CLASS_PATH

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        while Path(os.environ[HOLD_FILE_VARIABLE]).exists():
            time.sleep(0.01)
        return task_assignor_named("HighAvailabilityTaskAssignor").assign(problem, log)


class BrokenAssignor:
    """Always fails, as only a user's own can."""

    name = "tests.coordinator_api.held_assignor:BrokenAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        raise RuntimeError("no idea")
