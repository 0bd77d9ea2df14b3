import re

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import StreamsError
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementProblem, validate_placement
from assignor.types import ProcessId
from tests.assignor.task_assignors.high_availability_cases import client, problem, process, tasks

ONE, TWO, STRANGER = process(1), process(2), process(3)
NAMES = {ONE: str(ONE), TWO: str(TWO), STRANGER: str(STRANGER)}


def case() -> PlacementProblem:
    """Two clients, 0_0 and 0_1 stateful, 1_0 stateless."""
    return problem(AssignmentConfigs(), [client(1), client(2)], "0_0 0_1", stateless="1_0")


def placement(copies: dict[ProcessId, tuple[str, str]], warm_ups: str = "") -> Placement:
    """Active and standby by client; `warm_ups` are client 2's."""
    return Placement(
        False,
        {
            process_id: ClientPlacement(
                frozenset(tasks(active)),
                frozenset(tasks(standby)),
                frozenset(tasks(warm_ups)) if process_id == TWO else frozenset(),
            )
            for process_id, (active, standby) in copies.items()
        },
    )


def test_should_accept_a_placement_with_every_task_active_once() -> None:
    validate_placement(case(), placement({ONE: ("0_0 1_0", "0_1"), TWO: ("0_1", "0_0")}, warm_ups="0_0"))


@pytest.mark.parametrize(
    "copies, warm_ups, message",
    [
        (
            {ONE: ("0_0 1_0 7_7", ""), TWO: ("0_1", "")},
            "",
            f"a fatal error: UNKNOWN_TASK_ID (7_7 on {ONE} is no task of this group)",
        ),
        (
            {ONE: ("0_0 1_0", ""), TWO: ("0_1", "7_7")},
            "",
            f"a fatal error: UNKNOWN_TASK_ID (7_7 on {TWO} is no task of this group)",
        ),
        (
            {ONE: ("0_0 1_0", ""), TWO: ("0_0 0_1", "")},
            "",
            f"an error: ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES (0_0 on {TWO} and on another client)",
        ),
        (
            {ONE: ("0_0 1_0", ""), TWO: ("0_1", "1_0")},
            "",
            f"an error: INVALID_STANDBY_TASK (1_0 on {TWO} is stateless)",
        ),
        ({ONE: ("0_0 0_1 1_0", "")}, "", f"an error: MISSING_PROCESS_ID ({TWO} has no entry)"),
        (
            {ONE: ("0_0 1_0", ""), TWO: ("0_1", ""), STRANGER: ("", "")},
            "",
            f"a fatal error: UNKNOWN_PROCESS_ID ({STRANGER} is no client of this group)",
        ),
        ({ONE: ("0_0", ""), TWO: ("0_1", "")}, "", "an error: TASK_WITHOUT_ACTIVE (nobody runs 1_0)"),
        (
            {ONE: ("0_0 1_0", "0_0"), TWO: ("0_1", "")},
            "",
            f"an error: TWO_COPIES_ON_ONE_CLIENT (0_0 is both active and standby on {ONE})",
        ),
        (
            {ONE: ("0_0 1_0", ""), TWO: ("0_1", "")},
            "0_0",
            f"an error: INVALID_STANDBY_TASK (0_0 warms up on {TWO}, but is no standby there)",
        ),
    ],
)
def test_should_name_the_first_fault_as_kafka_does(
    copies: dict[ProcessId, tuple[str, str]], warm_ups: str, message: str
) -> None:
    with pytest.raises(StreamsError, match=re.escape(f"Task assignment with mine:Own returned {message}") + r"\Z"):
        validate_placement(case(), placement(copies, warm_ups), "mine:Own")
