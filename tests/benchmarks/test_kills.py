"""What kills counts: which tasks a killed process ran, who could take them over, and what the table says of it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.handovers import Handover
from benchmarks.instance_processes import InstanceProcesses
from benchmarks.kills import IN_REBALANCE, WHILE_STABLE, Kill, copies_held, slow, table, tasks_run, verdict
from spark_jobs.workers.ownership_log import SUFFIX, OwnershipEvent, OwnershipLine

DEAD, ALIVE = 7, 8


def line(
    at_ms: float,
    event: OwnershipEvent,
    pid: int,
    active: tuple[str, ...],
    standby: tuple[str, ...] = (),
    task: str | None = None,
) -> OwnershipLine:
    return OwnershipLine(at_ms, event, f"p{pid}", f"t{pid}", "e", pid, None, active=active, standby=standby, task=task)


def took(total_ms: float) -> Handover:
    return Handover(total_ms - 60, 30, 20, 10, 5)


def lost(when: str, *totals_ms: float) -> Kill:
    return Kill(when, {f"0_{number}": took(ms) for number, ms in enumerate(totals_ms)}, {})


def test_should_count_tasks_of_which_the_process_had_processed_a_record() -> None:
    lines = [
        line(1, OwnershipEvent.ASSIGNED, DEAD, ("0_0", "0_1", "0_2")),
        line(2, OwnershipEvent.PROCESSED, DEAD, ("0_0", "0_1", "0_2"), task="0_0"),
        line(3, OwnershipEvent.PROCESSED, DEAD, ("0_0", "0_1", "0_2"), task="0_1"),
        line(4, OwnershipEvent.REVOKED, DEAD, ("0_0", "0_2")),
        line(5, OwnershipEvent.ASSIGNED, DEAD, ("0_0", "0_1", "0_2")),
        line(6, OwnershipEvent.PROCESSED, ALIVE, ("0_3",), task="0_3"),
    ]
    assert tasks_run(lines, DEAD) == {"0_0"}


def test_should_know_the_copies_that_living_processes_held_at_the_kill() -> None:
    lines = [
        line(1, OwnershipEvent.ASSIGNED, ALIVE, ("0_0",), ("0_1", "0_2")),
        line(2, OwnershipEvent.ASSIGNED, DEAD, ("0_1",), ("0_0",)),
        line(3, OwnershipEvent.ASSIGNED, ALIVE, ("0_0",), ("0_1",)),
        line(5, OwnershipEvent.ASSIGNED, ALIVE, ("0_0", "0_1")),
    ]
    assert copies_held(lines, [ALIVE], 4) == {("0_0", f"t{ALIVE}"), ("0_1", f"t{ALIVE}")}


def test_should_not_take_a_new_instance_with_the_process_id_of_an_old_one_for_dead(tmp_path: Path) -> None:
    instances = InstanceProcesses({}, "http://127.0.0.1:1", tmp_path)
    instances.log_dir.mkdir()
    log_of_dead, log_of_living = (instances.log_dir / f"thread-{pid}{SUFFIX}" for pid in (DEAD, ALIVE))
    log_of_dead.touch()
    log_of_living.touch()
    instances.deaths[DEAD] = 3.0

    instances.forget_ended()

    assert not instances.deaths
    assert not log_of_dead.exists()
    assert log_of_living.exists()


def test_should_count_a_kill_by_its_slowest_task_and_those_without_a_ready_standby_apart() -> None:
    kills = [
        lost(WHILE_STABLE, 200, 300),
        lost(IN_REBALANCE, 1_200),
        Kill(WHILE_STABLE, {"0_1": took(100), "0_2": took(400)}, {}, frozenset({"0_1"})),
        Kill(IN_REBALANCE, {}, {"0_1": took(2_000), "0_2": took(3_000)}),
        Kill(IN_REBALANCE, {}, {}),
    ]
    console = Console(file=io.StringIO(), width=160)
    console.print(table(kills))

    assert isinstance(console.file, io.StringIO)
    printed = [[cell.strip() for cell in row.strip("│").split("│")] for row in console.file.getvalue().splitlines()]
    assert [WHILE_STABLE, "2", "2", "350", "400", "400", "0"] in printed
    assert ["of these, tasks not taken over by their standby", "1", "1", "100", "100", "100", "0"] in printed
    assert [IN_REBALANCE, "3", "1", "1,200", "1,200", "1,200", "1"] in printed
    assert ["all", "5", "3", "400", "1,200", "1,200", "1"] in printed
    assert ["without a ready standby", "1", "1", "3,000", "3,000", "3,000", "1"] in printed


def test_should_name_the_steps_of_a_kill_that_came_too_late() -> None:
    assert slow(3, lost(IN_REBALANCE, 200, 1_000)) is None
    assert slow(4, lost(IN_REBALANCE, 200, 1_200)) == (
        "kill 4, during a rebalance, task 0_1, taken over by its standby: detection 1,140 ms, rebalance 30 ms,"
        " restore 20 ms, first record 10 ms, in all 1,200 ms; 5 records read"
    )


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
