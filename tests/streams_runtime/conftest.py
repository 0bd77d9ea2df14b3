"""One real coordinator process for the tests of a module; every test has a group of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.warm_coordinator import WarmCoordinator


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorProcess]:
    directory: Path = tmp_path_factory.mktemp("coordinator")
    with WarmCoordinator(directory, {"group.initial.rebalance.delay.ms": 100}) as process:
        yield process


@pytest.fixture
def client(coordinator: CoordinatorProcess) -> Iterator[CoordinatorClient]:
    with CoordinatorClient(coordinator.url) as connected:
        yield connected
