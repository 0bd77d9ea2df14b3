"""A real coordinator process for the tests of a module, and logs that it may open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.workers.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.spark_jobs.log_directories import LogDirectories
from tests.spark_jobs.small_application import write_records


@pytest.fixture(scope="module")
def log_directories(tmp_path_factory: pytest.TempPathFactory) -> LogDirectories:
    return LogDirectories(tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def coordinator(
    tmp_path_factory: pytest.TempPathFactory, log_directories: LogDirectories
) -> Iterator[CoordinatorProcess]:
    settings = {"group.initial.rebalance.delay.ms": 300, **log_directories.setting}
    with CoordinatorProcess(tmp_path_factory.mktemp("coordinator"), settings) as process:
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
