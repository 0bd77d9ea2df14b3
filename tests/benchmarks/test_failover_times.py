"""How the times of a failover are read from ownership logs."""

import pytest

from benchmarks.handovers import Handover, handover, lost_tasks, percentile
from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine
from tests.spark_jobs.ownership_lines import owned

DIED_MS = 10_000.0
DEAD, ALIVE, NEXT = 7, 8, 9
DEATHS = {DEAD: DIED_MS}


CASES = {
    "split into its steps": (
        [
            owned(9_000, OwnershipEvent.ASSIGNED, ALIVE, ("0_1",)),
            owned(10_500, OwnershipEvent.JOINING, ALIVE, ("0_1",)),
            owned(10_540, OwnershipEvent.ASSIGNED, ALIVE, ("0_0", "0_1")),
            owned(10_570, OwnershipEvent.RESTORED, ALIVE, ("0_0", "0_1"), "0_0"),
            owned(10_580, OwnershipEvent.PROCESSED, ALIVE, ("0_0", "0_1"), "0_0"),
        ],
        Handover(detection=500, rebalance=40, restore=30, first_record=10, records=5),
    ),
    "to an owner that has not processed it yet": (
        [
            owned(10_200, OwnershipEvent.JOINING, ALIVE, ()),
            owned(10_250, OwnershipEvent.ASSIGNED, ALIVE, ("0_0",)),
            owned(10_300, OwnershipEvent.JOINING, NEXT, ()),
            owned(10_400, OwnershipEvent.REVOKED, ALIVE, ()),
        ],
        None,
    ),
    "to the owner that processed it": (
        [
            owned(10_200, OwnershipEvent.JOINING, ALIVE, ()),
            owned(10_250, OwnershipEvent.ASSIGNED, ALIVE, ("0_0",)),
            owned(10_300, OwnershipEvent.JOINING, NEXT, ()),
            owned(10_400, OwnershipEvent.REVOKED, ALIVE, ()),
            owned(10_450, OwnershipEvent.ASSIGNED, NEXT, ("0_0",)),
            owned(10_480, OwnershipEvent.PROCESSED, NEXT, ("0_0",), "0_0"),
        ],
        Handover(detection=300, rebalance=150, restore=0, first_record=30, records=0),
    ),
    "no detection by an owner that had joined before the death": (
        [
            owned(9_900, OwnershipEvent.STARTED, NEXT, ()),
            owned(9_950, OwnershipEvent.JOINING, NEXT, ()),
            owned(10_200, OwnershipEvent.ASSIGNED, NEXT, ("0_0",)),
            owned(10_300, OwnershipEvent.JOINING, NEXT, ("0_0",)),
            owned(10_400, OwnershipEvent.RESTORED, NEXT, ("0_0",), "0_0"),
            owned(10_410, OwnershipEvent.PROCESSED, NEXT, ("0_0",), "0_0"),
        ],
        Handover(detection=0, rebalance=200, restore=200, first_record=10, records=5),
    ),
    "not by the last work of the process that ends": (
        [
            owned(10_050, OwnershipEvent.PROCESSED, DEAD, ("0_0",), "0_0"),
            owned(10_100, OwnershipEvent.CLOSED, DEAD, ()),
        ],
        None,
    ),
}


@pytest.mark.parametrize("lines, expected", CASES.values(), ids=CASES)
def test_should_time_the_steps_of_a_takeover(lines: list[OwnershipLine], expected: Handover | None) -> None:
    lines = [owned(9_000, OwnershipEvent.ASSIGNED, DEAD, ("0_0",)), *lines]
    assert lost_tasks(lines, DIED_MS, DEATHS) == ["0_0"]
    assert handover(lines, "0_0", DIED_MS, DEATHS) == expected


def test_should_add_up_the_steps() -> None:
    assert Handover(detection=500, rebalance=40, restore=30, first_record=10, records=5).total == 580


@pytest.mark.parametrize("percent, expected", [(50, 10), (95, 19), (100, 20)])
def test_should_take_the_value_that_so_many_percent_are_not_above(percent: int, expected: float) -> None:
    assert percentile([float(value) for value in range(20, 0, -1)], percent) == expected
