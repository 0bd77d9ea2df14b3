"""The whole path with real parts: a uvicorn process, a SQLite file, Spark executors in JVMs of their own.

One group through join, rebalance, kill -9 of an executor and kill -9 of the coordinator in the middle of a rebalance;
after each it is stable again, and by what the members saw no task was lost or owned twice.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_engine.session.spark_session import spark_session
from spark_jobs.workers.group_view import GroupView, listed_rebalances
from spark_jobs.workers.member_process import EXECUTOR_TAG, InstanceEnd
from spark_jobs.workers.ownership_history import executors_of_members
from spark_jobs.workers.running import run
from streams_runtime.common.states import InstanceState
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.acceptance.group_under_test import THREADS, GroupUnderTest
from tests.spark_jobs.log_directories import LogDirectories
from tests.spark_jobs.quick_java import quick_java
from tests.spark_jobs.small_application import write_records
from tests.warm_coordinator import WarmCoordinator

pytestmark = [pytest.mark.spark, pytest.mark.long]

GROUP_ID = "failover"
EXECUTORS = 3
MEMBERS = EXECUTORS * THREADS
RECORDS = 20
HEARTBEAT_INTERVAL_MS = 1_000
MAX_GAP_AFTER_KILL_MS = 5_000
"""Half the session timeout: the others take over because of the SIGHUP, not because the session runs out."""


@pytest.fixture(scope="module")
def coordinator(
    tmp_path_factory: pytest.TempPathFactory, log_directories: LogDirectories
) -> Iterator[CoordinatorProcess]:
    """Its first rebalance waits until all executors are up: who joins later would have to warm up first."""
    settings = {"group.initial.rebalance.delay.ms": 5_000, **log_directories.setting}
    with WarmCoordinator(tmp_path_factory.mktemp("coordinator"), settings) as one:
        yield one


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with quick_java(), spark_session(f"local-cluster[{EXECUTORS},1,1024]", "failover") as session:
        yield session


@pytest.fixture
def group(
    spark: SparkSession,
    coordinator: CoordinatorProcess,
    client: CoordinatorClient,
    log_directories: LogDirectories,
    tmp_path: Path,
) -> Iterator[GroupUnderTest]:
    configs = {"heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS, "rack_aware_assignment_tags": EXECUTOR_TAG}
    tested = GroupUnderTest(coordinator, client, GROUP_ID, log_directories.take(), tmp_path, configs)
    write_records(tested.records, RECORDS)
    settings = tested.settings()
    workers = run(
        spark,
        settings.application,
        instances=EXECUTORS,
        coordinator_url=coordinator.url,
        state_dir=settings.state_dir,
        log_dir=settings.log_dir,
    )
    try:
        yield tested
    finally:
        ends = workers.stop()
    assert sorted(ends, key=lambda end: end.partition) == [
        InstanceEnd(partition, InstanceState.NOT_RUNNING) for partition in range(EXECUTORS)
    ]


def test_should_lose_no_task_and_own_none_twice_through_every_fault(group: GroupUnderTest) -> None:
    view = join(group)
    view = rebalance(group, view)
    view = kill_an_executor(group, view)
    kill_the_coordinator_in_the_middle_of_a_rebalance(group, view)


def join(group: GroupUnderTest) -> GroupView:
    group.wait_until_counted(RECORDS)
    view = group.wait_until_whole(MEMBERS, "all executors to have joined", is_caught_up)
    executors = executors_of_members(group.lines())
    active = {task: executors[member.member_id] for member in view.members for task in member.active}
    standby = {task: executors[member.member_id] for member in view.members for task in member.standby}
    assert set(active.values()) == {"0", "1", "2"}
    assert standby.keys() == active.keys()
    assert [task for task in active if active[task] == standby[task]] == [], "a standby beside its active"
    group.assert_no_task_lost_or_owned_twice()
    return view


def rebalance(group: GroupUnderTest, before: GroupView) -> GroupView:
    lines_before = len(group.lines())
    group.declare(max_warmup_replicas=3)
    view = group.wait_until_whole(MEMBERS, "a rebalance", lambda seen: seen.generation_id > before.generation_id)
    assert reason_of_rebalance(group, before.generation_id + 1) == "definition-changed"
    group.assert_lost_nothing_since(lines_before)
    group.assert_no_task_lost_or_owned_twice()
    return view


def kill_an_executor(group: GroupUnderTest, before: GroupView) -> GroupView:
    lines = group.lines()
    executor, jvm_pid = next((line.executor, line.jvm_pid) for line in lines if line.jvm_pid is not None)
    gone = {member_id for member_id, its_executor in executors_of_members(lines).items() if its_executor == executor}
    assert jvm_pid is not None
    killed_ms = time.time() * 1000
    os.kill(jvm_pid, signal.SIGKILL)
    view = group.wait_until_whole(
        MEMBERS, "Spark to have started a new executor", lambda seen: gone.isdisjoint(ids_of(seen))
    )
    assert reason_of_rebalance(group, before.generation_id + 1) == "member-left"
    assert group.longest_gap_ms(killed_ms) < MAX_GAP_AFTER_KILL_MS
    assert {member.process_id for member in view.members} == {member.process_id for member in before.members}
    group.assert_no_task_lost_or_owned_twice()
    return view


def kill_the_coordinator_in_the_middle_of_a_rebalance(group: GroupUnderTest, before: GroupView) -> None:
    """One Python worker is stopped meanwhile, so the rebalance cannot be over before."""
    lines_before = len(group.lines())
    stopped = group.lines()[-1].pid  # of the newest line, so it lives
    os.kill(stopped, signal.SIGSTOP)
    try:
        group.declare(max_warmup_replicas=4)
        group.coordinator.kill()
        group.coordinator.start()
        assert listed_rebalances(group.client, GROUP_ID)[-1].generation_id == before.generation_id, (
            "the rebalance was not over"
        )
    finally:
        os.kill(stopped, signal.SIGCONT)
    view = group.wait_until_whole(
        MEMBERS, "the rebalance to be over", lambda seen: seen.generation_id > before.generation_id
    )
    assert ids_of(view) == ids_of(before), "nobody was evicted"
    assert reason_of_rebalance(group, before.generation_id + 1) == "definition-changed"
    group.assert_lost_nothing_since(lines_before)
    group.assert_counts_on(RECORDS)
    group.assert_no_task_lost_or_owned_twice()


def reason_of_rebalance(group: GroupUnderTest, generation_id: int) -> str:
    return {one.generation_id: one.reason for one in listed_rebalances(group.client, GROUP_ID)}[generation_id]


def is_caught_up(view: GroupView) -> bool:
    return all(lag <= 0 for lag in view.lags.values())


def ids_of(view: GroupView) -> set[str]:
    return {member.member_id for member in view.members}
