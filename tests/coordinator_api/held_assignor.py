"""A user's own assignor for tests: it places as HighAvailability does, but only when the file it waits for is gone."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.registry import task_assignor_named

HOLD_FILE_VARIABLE = "HELD_ASSIGNOR_FILE"
HELD = "held"
"""In the file, once an assignor waits for it to go away."""
CLASS_PATH = "tests.coordinator_api.held_assignor:HeldAssignor"


def hold_while(file: Path) -> None:
    """In this process, while the file exists."""
    os.environ[HOLD_FILE_VARIABLE] = str(file)


def holds(file: Path) -> bool:
    """Whether an assignor waits for the file to go away; false before that, and when the file is gone."""
    with suppress(FileNotFoundError):
        return file.read_text(encoding="ascii") == HELD
    return False


def held_problem(process_id: str = "00000000-0000-0000-0000-000000000001") -> dict[str, Any]:
    """A placement/1 that is computed as long as the file is there."""
    return {
        "format": "placement/1",
        "id": "held",
        "assignor": CLASS_PATH,
        "configs": {},
        "tasks": ["0_0"],
        "stateful": [],
        "clients": {process_id: {"capacity": 1, "lags": {}}},
    }


class HeldAssignor:
    """Named by its class path. Runs in a worker process of the service."""

    name = CLASS_PATH

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        hold = Path(os.environ[HOLD_FILE_VARIABLE])
        with suppress(FileNotFoundError), hold.open("r+") as file:
            file.write(HELD)
        while hold.exists():
            time.sleep(0.01)
        return task_assignor_named("HighAvailabilityTaskAssignor").assign(problem, log)


class BrokenAssignor:
    """Always fails, as only a user's own can."""

    name = "tests.coordinator_api.held_assignor:BrokenAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        raise RuntimeError("no idea")


class DyingAssignor:
    """Ends its process, as the system does when memory runs out."""

    name = "tests.coordinator_api.held_assignor:DyingAssignor"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")
