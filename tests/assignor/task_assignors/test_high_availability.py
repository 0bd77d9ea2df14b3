"""What HighAvailabilityTaskAssignor refuses. Its rules are in `small_groups/HighAvailabilityTaskAssignor.toml`."""

import pytest

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError, InputError
from assignor.task_assignors.base import PlacementClient, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.high_availability import HighAvailabilityTaskAssignor
from assignor.types import TaskId
from tests.assignor.task_assignors.high_availability_cases import client, problem, process, tasks


def assign(case: PlacementProblem) -> None:
    HighAvailabilityTaskAssignor().assign(case, DecisionLog())


def test_should_refuse_what_no_group_can_be() -> None:
    with pytest.raises(InputError, match="clients: a placement needs at least one client"):
        assign(problem(AssignmentConfigs(), [], "0_0"))
    with pytest.raises(InputError, match="capacity must be at least 1, not 0"):
        assign(problem(AssignmentConfigs(), [client(1, capacity=0)], "0_0"))


def test_should_say_which_task_has_no_lag() -> None:
    clients = {
        process(1): PlacementClient(process(1), 1, TaskLags({TaskId(0, 0): 5})),
        process(2): PlacementClient(process(2), 1, TaskLags({})),
    }
    with pytest.raises(IllegalStateError, match="Tried to lookup lag for unknown task 0_0"):
        assign(PlacementProblem(AssignmentConfigs(), tasks("0_0"), tasks("0_0"), clients))
