"""One service for all tests that do not need one of their own; groups keep them apart."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.coordinator_api.service_process import ServiceProcess

INITIAL_DELAY_MS = 100


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    flags = ("--group-initial-rebalance-delay-ms", str(INITIAL_DELAY_MS), "--log-format", "json")
    with ServiceProcess(tmp_path_factory.mktemp("service"), *flags) as process:
        yield process


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.client() as http:
        yield http
