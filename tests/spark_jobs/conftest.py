"""A real coordinator process for the tests of a module, logs that it may open, and one Spark session for all tests."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_engine.batch import running, spark_engine
from spark_engine.session.spark_session import spark_session
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.spark_jobs.in_this_process import InThisProcess
from tests.spark_jobs.log_directories import LogDirectories
from tests.spark_jobs.quick_java import quick_java
from tests.spark_jobs.small_application import write_records
from tests.spark_jobs.standalone_cluster import standalone_cluster
from tests.warm_coordinator import WarmCoordinator


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """On a standalone master of two cores. A process has one session at most: `tests/run_order.py` keeps tests that
    start another one out of its way.
    """
    before = _spark_environment()
    with quick_java(), standalone_cluster(cores=2) as master, spark_session(master, "tests") as session:
        yield session
    assert _spark_environment() == before


def _spark_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "SPARK" in name or name == "JAVA_HOME"}


@pytest.fixture
def chunks_on_this_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks for a session of its own gets the common one."""
    monkeypatch.setattr(spark_engine, "spark_session", lambda *_, **__: contextlib.nullcontext(spark))


@pytest.fixture
def chunks_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LocalProcesses", InThisProcess)


@pytest.fixture(scope="module")
def log_directories(tmp_path_factory: pytest.TempPathFactory) -> LogDirectories:
    return LogDirectories(tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def coordinator(
    tmp_path_factory: pytest.TempPathFactory, log_directories: LogDirectories
) -> Iterator[CoordinatorProcess]:
    settings = {"group.initial.rebalance.delay.ms": 300, **log_directories.setting}
    with WarmCoordinator(tmp_path_factory.mktemp("coordinator"), settings) as process:
        yield process


@pytest.fixture
def log_directory(log_directories: LogDirectories) -> Path:
    """With the topics of `small_application` and no records."""
    directory = log_directories.take()
    write_records(directory, 0)
    return directory


@pytest.fixture
def client(coordinator: CoordinatorProcess) -> Iterator[CoordinatorClient]:
    with CoordinatorClient(coordinator.url) as connected:
        yield connected
