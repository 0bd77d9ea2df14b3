"""Instances as Spark tasks on local[*] and on a standalone master; local-cluster is in tests/acceptance."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.coordinator_process import CoordinatorProcess
from spark_jobs.executor_identity import ExecutorIdentity, executor_identity
from spark_jobs.group_view import GroupView, wait_until_held
from spark_jobs.member_process import InstanceEnd
from spark_jobs.ownership_history import overlaps, ownership_intervals
from spark_jobs.ownership_log import read_ownership
from spark_jobs.session import SparkNotStarted, spark_session
from spark_jobs.workers import WorkersFailed, instance_settings, run_members
from streams_runtime.coordinator_client import CoordinatorClient
from tests.spark_jobs.standalone_cluster import standalone_cluster
from tests.spark_jobs.user_app import GROUP_ID
from tests.streams_runtime.small_group import small_definition, task_names

TIMEOUT_S = 90.0
PROGRAM = "from assignor.commands import main; main()"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    before = spark_environment()
    with standalone_cluster(cores=2) as master, spark_session(master, "standalone test") as session:
        yield session
    assert spark_environment() == before


def spark_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "SPARK" in name or name == "JAVA_HOME"}


def owned_once_by(members: set[str]) -> Callable[[GroupView], bool]:
    def wanted(view: GroupView) -> bool:
        owners = view.owners()
        return {member.client_id for member in view.members} == members and {
            task: len(names) for task, names in owners.items()
        } == dict.fromkeys(task_names(4), 1)

    return wanted


@pytest.mark.spark
def test_should_run_on_a_standalone_master_until_it_is_told_to_stop(
    spark: SparkSession, coordinator: CoordinatorProcess, client: CoordinatorClient, tmp_path: Path
) -> None:
    definition = small_definition("standalone")
    settings = replace(
        instance_settings(definition, coordinator.url, str(tmp_path / "state"), str(tmp_path / "log")),
        threads=2,
        heartbeat_interval_ms=200,
    )
    names = {f"standalone-p{partition}-t{thread}" for partition in range(2) for thread in range(2)}
    workers = run_members(spark, definition, settings, 2)
    wait_until_held(client, "standalone", tmp_path / "log", owned_once_by(names), "both instances", TIMEOUT_S)
    assert workers.wait(0.0) is None, "they run until they are told to stop"
    ends = workers.stop()
    assert {line.executor for line in read_ownership(tmp_path / "log")} == {"0"}
    assert ends == [
        InstanceEnd(partition, {f"standalone-p{partition}-t{thread}": "stopped" for thread in range(2)})
        for partition in range(2)
    ]
    assert overlaps(ownership_intervals(read_ownership(tmp_path / "log"))) == []


@pytest.mark.spark
def test_should_wait_for_nobody_when_there_are_fewer_slots_than_instances(
    coordinator: CoordinatorProcess, client: CoordinatorClient, tmp_path: Path
) -> None:
    command = ["workers", "run", "tests.spark_jobs.user_app:definition", "--master", "local[2]", "--instances", "3"]
    command += ["--coordinator", coordinator.url, "--state-dir", str(tmp_path / "state"), "--format", "json"]
    command += ["--log-dir", str(tmp_path / "log"), "--session-timeout-ms", "5000"]
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        two = {f"{GROUP_ID}-p0-t0", f"{GROUP_ID}-p1-t0"}
        client.declare(GROUP_ID, small_definition(GROUP_ID).body())
        wait_until_held(client, GROUP_ID, tmp_path / "log", owned_once_by(two), "the two that have slots", TIMEOUT_S)
        assert {line.executor for line in read_ownership(tmp_path / "log")} == {"driver"}
        client.drain(GROUP_ID)
        stdout, stderr = running.communicate(timeout=TIMEOUT_S)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0, stderr
    # the third got its slot when the others had ended, and was told the same
    assert [json.loads(line) for line in stdout.splitlines()] == [
        {"partition": partition, "members": {f"{GROUP_ID}-p{partition}-t0": "stopped"}} for partition in range(3)
    ]


@pytest.mark.spark
def test_should_tell_what_refused_the_members_when_the_group_cannot_run(
    spark: SparkSession, coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    definition = small_definition("refused")
    settings = replace(
        instance_settings(definition, coordinator.url, str(tmp_path / "state"), str(tmp_path / "log")),
        session_timeout_ms=1,
    )
    (end,) = run_members(spark, definition, settings, 1).wait(TIMEOUT_S) or []
    assert "INVALID_SESSION_TIMEOUT" in end.members["refused-p0-t0"]


@pytest.mark.spark
def test_should_fail_when_the_job_is_cancelled(
    spark: SparkSession, coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    definition = small_definition("cancelled")
    settings = instance_settings(definition, coordinator.url, str(tmp_path / "state"), str(tmp_path / "log"))
    workers = run_members(spark, definition, settings, 1)
    workers.cancel()
    with pytest.raises(WorkersFailed, match="cancelled"):
        workers.wait(0.0)


@pytest.mark.spark
def test_should_allow_one_session_at_a_time(spark: SparkSession) -> None:
    with pytest.raises(SparkNotStarted, match="already has a Spark session"), spark_session("local[1]", "another"):
        pass
    assert spark.sparkContext.parallelize([1, 2], 2).sum() == 3


def test_should_belong_to_no_executor_outside_of_spark() -> None:
    assert executor_identity() == ExecutorIdentity("driver", None)


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["nowhere_to_be_found:app"], "cannot be imported"),
        (["tests.spark_jobs.user_app"], "is not module:name"),
        (["tests.spark_jobs.user_app:definition", "--token-file", "/dev/null/token"], "cannot be read"),
    ],
)
def test_should_exit_with_two_when_the_command_line_cannot_be_used(arguments: list[str], message: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "workers", "run", *arguments], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
