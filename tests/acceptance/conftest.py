"""A real coordinator process on a real SQLite file, and logs that it may open."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from tests.spark_jobs.conftest import client as client
from tests.spark_jobs.conftest import log_directories as log_directories
from tests.spark_jobs.log_directories import LogDirectories
from tests.warm_coordinator import WarmCoordinator


@pytest.fixture(scope="module")
def coordinator(
    tmp_path_factory: pytest.TempPathFactory, log_directories: LogDirectories
) -> Iterator[CoordinatorProcess]:
    directory: Path = tmp_path_factory.mktemp("coordinator")
    settings = {"group.initial.rebalance.delay.ms": 1_000, **log_directories.setting}
    with WarmCoordinator(directory, settings) as process:
        yield process
