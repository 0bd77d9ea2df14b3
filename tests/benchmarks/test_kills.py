"""What kills counts: which tasks a killed process ran, who could take them over, and what the table says of it."""

import pytest

from benchmarks.handovers import Handover
from benchmarks.kills import WHILE_STABLE, Kill, tasks_run, verdict
from spark_jobs.ownership.ownership_log import OwnershipEvent
from tests.spark_jobs.ownership_lines import owned

DEAD, ALIVE = 7, 8


def took(total_ms: float) -> Handover:
    return Handover(total_ms - 60, 30, 20, 10, 5)


def lost(when: str, *totals_ms: float) -> Kill:
    return Kill(when, {f"0_{number}": took(ms) for number, ms in enumerate(totals_ms)}, {})


def test_should_count_tasks_of_which_the_process_had_processed_a_record() -> None:
    lines = [
        owned(1, OwnershipEvent.ASSIGNED, DEAD, ("0_0", "0_1", "0_2")),
        owned(2, OwnershipEvent.PROCESSED, DEAD, ("0_0", "0_1", "0_2"), task="0_0"),
        owned(3, OwnershipEvent.PROCESSED, DEAD, ("0_0", "0_1", "0_2"), task="0_1"),
        owned(4, OwnershipEvent.REVOKED, DEAD, ("0_0", "0_2")),
        owned(5, OwnershipEvent.ASSIGNED, DEAD, ("0_0", "0_1", "0_2")),
        owned(6, OwnershipEvent.PROCESSED, ALIVE, ("0_3",), task="0_3"),
    ]
    assert tasks_run(lines, DEAD) == {"0_0"}


@pytest.mark.parametrize(
    "totals_ms, wrong, expected",
    [
        ([700.0] * 19 + [1_000.0], 0, "reached"),
        ([700.0] * 19 + [1_001.0], 0, "MISSED"),
        ([700.0] * 18 + [900.0] * 2, 0, "MISSED"),
        ([700.0], 1, "MISSED"),
        ([], 0, "MISSED"),
    ],
)
def test_should_reach_the_goal_when_none_is_late_and_none_miscounted(
    totals_ms: list[float], wrong: int, expected: str
) -> None:
    assert verdict([lost(WHILE_STABLE, ms) for ms in totals_ms], wrong).endswith(expected)
