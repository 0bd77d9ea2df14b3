"""One real coordinator process for the tests of a module; every test has a group, or a stream thread, of its own."""

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.oracle.broker import Broker
from tests.streams_runtime.running_group import EXACTLY_ONCE, GUARANTEES, Group, running_group
from tests.streams_runtime.tasks.thread_rig import MakeRig, Rig, rig
from tests.warm_coordinator import WarmCoordinator


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorProcess]:
    directory: Path = tmp_path_factory.mktemp("coordinator")
    with WarmCoordinator(directory, {"group.initial.rebalance.delay.ms": 100}) as process:
        yield process


@pytest.fixture(scope="module")
def coordinator_url(kafka_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a coordinator of applications on the broker."""
    settings = {"group.initial.rebalance.delay.ms": 0, "cluster.bootstrap.servers": kafka_broker.bootstrap_servers}
    with WarmCoordinator(tmp_path_factory.mktemp("coordinator"), settings) as process:
        yield process.url


@pytest.fixture
def client(coordinator: CoordinatorProcess) -> Iterator[CoordinatorClient]:
    with CoordinatorClient(coordinator.url) as connected:
        yield connected


@pytest.fixture
def group(request: pytest.FixtureRequest, client: CoordinatorClient, tmp_path: Path) -> Iterator[Group]:
    """Its parameter: the processing guarantee."""
    with running_group(request.node.name, getattr(request, "param", EXACTLY_ONCE), client, tmp_path) as made:
        yield made


@pytest.fixture(params=GUARANTEES)
def guarantee(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeRig]:
    """Makes a stream thread, which is closed in the end."""
    with ExitStack() as closing:
        yield lambda guarantee, **more: closing.enter_context(contextlib.closing(rig(tmp_path, guarantee, **more)))


@pytest.fixture
def thread(make: MakeRig, guarantee: str) -> Rig:
    return make(guarantee)
