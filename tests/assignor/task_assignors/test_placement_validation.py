import json
import re
from pathlib import Path

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import StreamsError
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementProblem, validate_placement
from assignor.types import ProcessId
from tests.assignor.task_assignors.high_availability_cases import client, problem, process, tasks

FAULTS = json.loads((Path(__file__).parent / "faulty_placements.json").read_text())
"""The active tasks and the standbys of each client, the warm-ups of client 2, and the error."""


def case() -> PlacementProblem:
    """Two clients, 0_0 and 0_1 stateful, 1_0 stateless."""
    return problem(AssignmentConfigs(), [client(1), client(2)], "0_0 0_1", stateless="1_0")


def placement(copies: dict[str, list[str]], warm_ups: str = "") -> Placement:
    """Active and standby by client; `warm_ups` are client 2's."""
    clients: dict[ProcessId, ClientPlacement] = {}
    for number, held in copies.items():
        active, standby, warming = map(frozenset, map(tasks, [*held, warm_ups if number == "2" else ""]))
        clients[process(int(number))] = ClientPlacement(active, standby, warming)
    return Placement(False, clients)


def test_should_accept_a_placement_with_every_task_active_once() -> None:
    validate_placement(case(), placement({"1": ["0_0 1_0", "0_1"], "2": ["0_1", "0_0"]}, warm_ups="0_0"))


@pytest.mark.parametrize(("copies", "warm_ups", "message"), FAULTS, ids=[fault[-1] for fault in FAULTS])
def test_should_name_the_first_fault_as_kafka_does(copies: dict[str, list[str]], warm_ups: str, message: str) -> None:
    text = "Task assignment with mine:Own returned " + message.format(None, *map(process, range(1, 4)))
    with pytest.raises(StreamsError, match=re.escape(text) + r"\Z"):
        validate_placement(case(), placement(copies, warm_ups), "mine:Own")
