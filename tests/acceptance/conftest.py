"""A real coordinator process on a real SQLite file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.coordinator_process import CoordinatorProcess
from streams_runtime.coordinator_client import CoordinatorClient


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorProcess]:
    directory: Path = tmp_path_factory.mktemp("coordinator")
    with CoordinatorProcess(directory, {"group.initial.rebalance.delay.ms": 1_000}) as process:
        yield process


@pytest.fixture
def client(coordinator: CoordinatorProcess) -> Iterator[CoordinatorClient]:
    with CoordinatorClient(coordinator.url) as connected:
        yield connected
