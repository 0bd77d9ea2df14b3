"""A real coordinator process for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_jobs.coordinator_process import CoordinatorProcess
from streams_runtime.coordinator_client import CoordinatorClient


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorProcess]:
    settings = {"group.initial.rebalance.delay.ms": 300}
    with CoordinatorProcess(tmp_path_factory.mktemp("coordinator"), settings) as process:
        yield process


@pytest.fixture
def client(coordinator: CoordinatorProcess) -> Iterator[CoordinatorClient]:
    with CoordinatorClient(coordinator.url) as connected:
        yield connected
