"""Instances as Spark tasks on local[*] and on a standalone master; local-cluster is in tests/acceptance."""

import json
import os
import re
import signal
import sys
import threading
import types
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from assignor.errors import InputError
from spark_engine.session.spark_faults import SparkNotStarted
from spark_engine.session.spark_session import spark_session
from spark_jobs.ownership.group_view import group_view, wait_until_held
from spark_jobs.ownership.ownership_log import OwnershipEvent, read_ownership
from spark_jobs.workers.instance_starts import WorkersFailed
from spark_jobs.workers.running import run
from streams_runtime import STRING, StreamsBuilder
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.calls import CoordinatorError
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.processors.api import HandlerResponse
from streams_runtime.tasks.exception_handling import fail
from tests import warm_program
from tests.checkout import ROOT
from tests.processes import processes_with
from tests.program import PROGRAM
from tests.running_program import WITHIN_S, RunningProgram
from tests.spark_jobs.owners import are_owned_once
from tests.spark_jobs.quick_java import OPTIONS
from tests.spark_jobs.small_application import STORES, counted, small_application, write_records
from tests.spark_jobs.user_app import GROUP_ID, LOG_VARIABLE
from tests.waiting import wait_until

APPLICATION = "tests.spark_jobs.user_app:application"


def workers_run(directory: Path, log_directory: Path, *options: str) -> RunningProgram:
    return RunningProgram(
        [*PROGRAM, "workers", "run", APPLICATION, *options],
        directory / "stderr",
        stdout=directory / "stdout",
        environment=os.environ | OPTIONS | {LOG_VARIABLE: str(log_directory)},
    )


@pytest.mark.long
@pytest.mark.spark
def test_should_wait_for_nobody_show_the_group_and_drain_it_when_it_is_told_to_end(
    coordinator: CoordinatorProcess, client: CoordinatorClient, log_directory: Path, tmp_path: Path
) -> None:
    def all_is_counted() -> bool:
        return counted(log_directory, GROUP_ID) == dict.fromkeys(STORES, 5 * 8)

    write_records(log_directory, 5)
    options = ["--master", "local[2]", "--instances", "3", "--coordinator", coordinator.url, "--format", "json"]
    options += ["--state-dir", str(tmp_path / "state"), "--log-dir", str(tmp_path / "log")]
    with workers_run(tmp_path, log_directory, *options) as running:
        running.wait_for(rf"^{GROUP_ID}: Stable, generation \d+, 2 threads, 24 of 24 tasks running$")
        line = running.wait_for(rf"^{GROUP_ID}-p1-t0 on 127\.0\.0\.1:\d+: running; active \d_\d.*; standby \d_\d.*$")
        assert "left" not in line, "everything runs"
        view = wait_until_held(client, GROUP_ID, tmp_path / "log", are_owned_once, "the two that have slots", WITHIN_S)
        assert {member.client_id for member in view.members} == {f"{GROUP_ID}-p0-t0", f"{GROUP_ID}-p1-t0"}
        # a stop is quick, and commits what was processed by then
        wait_until_held(client, GROUP_ID, tmp_path / "log", lambda _: all_is_counted(), "every count", WITHIN_S)
        assert {line.executor for line in read_ownership(tmp_path / "log")} == {"driver"}
        # SIGTERM has the same handler; on this one PySpark has ideas of its own
        assert running.interrupt() == 0, running.log
    assert "stopping: instances commit, checkpoint and leave" in running.log
    # the third got its slot when the others had ended, and was told the same
    assert [json.loads(line) for line in running.printed.splitlines()] == [
        {"partition": partition, "state": "not-running", "errors": [], "notices": []} for partition in range(3)
    ]
    last = {line.thread: line.event for line in read_ownership(tmp_path / "log")}
    assert last == {f"{GROUP_ID}-p{partition}-t0": OwnershipEvent.CLOSED for partition in range(3)}
    assert all_is_counted()
    assert group_view(client, GROUP_ID).members == ()


@pytest.mark.spark
def test_should_fail_when_the_job_is_cancelled(
    spark: SparkSession, coordinator: CoordinatorProcess, log_directory: Path, tmp_path: Path
) -> None:
    application = small_application("cancelled", log_directory)
    workers = run(spark, application, instances=1, coordinator_url=coordinator.url, state_dir=str(tmp_path))
    workers.cancel()
    with pytest.raises(WorkersFailed, match="cancelled"):
        workers.wait(0.0)


@pytest.mark.long
@pytest.mark.spark
def test_should_give_an_instance_up_that_fails_at_each_start(
    spark: SparkSession,
    coordinator: CoordinatorProcess,
    log_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its module is in no file, so executors have not got it."""
    module = types.ModuleType("only_on_the_driver")
    exec("def handle(error): raise error", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    application = replace(small_application("hopeless", log_directory), processing_exception_handler=module.handle)
    said: list[str] = []
    workers = run(
        spark, application, instances=1, coordinator_url=coordinator.url, state_dir=str(tmp_path), report=said.append
    )
    reason = (
        r"instance 0 failed in executor \d+ on 127\.0\.0\.1: ModuleNotFoundError: No module named 'only_on_the_driver'"
    )
    with pytest.raises(WorkersFailed, match=f"^{reason}; it failed at each of the last starts and is given up$"):
        workers.wait(WITHIN_S)
    assert [re.fullmatch(f"{reason}; Spark starts it again", line) is not None for line in said] == [True] * 3


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_should_leave_nothing_behind_when_it_is_interrupted_while_spark_starts(
    number: signal.Signals, coordinator: CoordinatorProcess, log_directory: Path, tmp_path: Path
) -> None:
    mark = f"spark.test.mark={tmp_path}"
    options = ["--master", "local[1]", "--conf", mark, "--coordinator", coordinator.url]
    with workers_run(tmp_path, log_directory, *options) as running:
        running.wait_for(r"^starting Spark on local\[1\]$")
        wait_until(lambda: processes_with(mark) - {running.pid}, "a JVM", alive=lambda: running.is_running)
        running.signal(number)
        assert (running.wait(), running.printed) == (128 + number, "")
    assert running.log.splitlines() == ["starting Spark on local[1]", "interrupted; Spark is stopped"]
    # a process that was killed exists for another moment
    wait_until(lambda: processes_with(mark) == set(), "the end of Spark's processes")


@pytest.mark.spark
def test_should_refuse_an_application_that_cannot_run_elsewhere(
    spark: SparkSession, coordinator: CoordinatorProcess, log_directory: Path, tmp_path: Path
) -> None:
    with pytest.raises(CoordinatorError, match=r"cluster\.bootstrap\.servers"):
        run(spark, small_application("not-listed", tmp_path), coordinator_url=coordinator.url)
    held = threading.Lock()
    stuck = replace(
        small_application("stuck", log_directory),
        processing_exception_handler=lambda _record: HandlerResponse(str(held)),
    )
    with pytest.raises(InputError, match=r"stuck: the application cannot be pickled for executors: TypeError: .*lock"):
        run(spark, stuck, coordinator_url=coordinator.url)
    builder = StreamsBuilder()
    builder.stream("lines", STRING, STRING).filter(lambda _key, _value: held.locked()).to("lines-2")
    with pytest.raises(InputError, match=r"for executors: KSTREAM-FILTER-\d+: TypeError: .*lock' object\. Make "):
        run(spark, replace(stuck, topology=builder.build(), processing_exception_handler=fail))


@pytest.mark.spark
def test_should_allow_one_session_at_a_time(spark: SparkSession) -> None:
    with pytest.raises(SparkNotStarted, match="already has a Spark session"), spark_session("local[1]", "another"):
        pass
    assert spark.sparkContext.parallelize([1, 2], 2).sum() == 3


ANSWERED_BY_NOBODY = "--coordinator http://127.0.0.1:1 --wait-for-coordinator 0"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("nowhere_to_be_found:app", "there is no module 'nowhere_to_be_found'"),
        ("tests.spark_jobs.user_app", "must be module:name"),
        ("tests.spark_jobs.user_app:GROUP_ID", "GROUP_ID is a str; it must be an Application"),
        ("tests.spark_jobs.user_app:with_relative_log", "'embedded:records' is relative"),
        (f"{APPLICATION} --token-file /dev/null/token", "cannot be read"),
        (f"{APPLICATION} --conf spark.ui.enabled", "--conf: must be key=value"),
        (f"{APPLICATION} --properties-file /nowhere", "there is no file /nowhere"),
        (f"{APPLICATION} {ANSWERED_BY_NOBODY}", "no coordinator answers at http://127."),
        (
            f"{APPLICATION} --master spark://127.0.0.1:1",
            r"no Spark master answers at 127.0.0.1:1 \(Connection refused\): is --master",
        ),
    ],
)
def test_should_exit_with_two_when_the_command_line_cannot_be_used(
    arguments: str, message: str, coordinator: CoordinatorProcess, log_directory: Path
) -> None:
    environment = os.environ | {LOG_VARIABLE: str(log_directory)}
    command = ["workers", "run", "--coordinator", coordinator.url, *arguments.split()]
    ran = warm_program.run(command, cwd=ROOT, environment=environment)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert re.match(f"error: .*{message}", ran.stderr.splitlines()[-1]), ran.stderr
    assert "Traceback" not in ran.stderr
