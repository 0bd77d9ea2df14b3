"""One service for all tests that do not need one of their own; groups keep them apart."""

from collections.abc import Iterator

import httpx
import pytest

from coordinator_api.settings import Settings
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.store.postgresql import Postgresql, programs

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


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    """One server for all tests that do not stop it; each has a database of its own."""
    bin = programs()
    if bin is None:
        pytest.skip("no PostgreSQL on this machine")
    with Postgresql(bin) as running:
        yield running


@pytest.fixture
def on_postgresql(postgresql: Postgresql) -> Settings:
    """Of a coordinator on an empty database of its own."""
    return Settings(database_url=postgresql.new_database())
