"""Members with default settings hear at once: what a process leaves behind, however it ends, goes on within seconds.

The bounds leave room for a busy machine. They are far below the default session timeout of 45 s and the 15 s after
which members used to hear of a rebalance; `python -m benchmarks failover-defaults` measures how fast it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.acceptance.group_under_test import THREADS, GroupUnderTest
from tests.acceptance.instance_processes import InstanceProcess, instances
from tests.spark_jobs.log_directories import LogDirectories
from tests.spark_jobs.small_application import write_records

RECORDS = 20
SOON_MS = 7_000
DEFAULTS = {"session_timeout_ms": None, "heartbeat_interval_ms": None}


@pytest.fixture
def group(
    coordinator: CoordinatorProcess, client: CoordinatorClient, log_directories: LogDirectories, tmp_path: Path
) -> GroupUnderTest:
    tested = GroupUnderTest(
        coordinator, client, f"group-{tmp_path.name}", log_directories.take(), tmp_path, configs=DEFAULTS
    )
    write_records(tested.records, RECORDS)
    tested.declare()
    return tested


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(InstanceProcess.kill, id="killed"),
        pytest.param(InstanceProcess.hang_up, id="told to leave", marks=pytest.mark.long),
    ],
)
def test_should_take_over_soon_from_a_process_that_ended(
    group: GroupUnderTest, end: Callable[[InstanceProcess], None]
) -> None:
    with instances(group.settings(), 3) as processes:
        group.wait_until_counted(RECORDS)
        group.wait_until_whole(3 * THREADS, "three instances")
        pid, ended_ms = processes[1].pid, time.time() * 1000

        end(processes[1])

        group.wait_until_whole(2 * THREADS, "the other two to have taken over")
        deaths = {pid: ended_ms} if end is InstanceProcess.kill else {}
        assert group.longest_gap_ms(ended_ms, deaths) < SOON_MS
        group.assert_counts_on(RECORDS)
        group.assert_no_task_lost_or_owned_twice(deaths)
