"""What tests of every folder may ask for: a real broker, started when the first test needs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle import jars
from tests.oracle.broker import Broker, require_jars


@pytest.fixture(scope="session")
def oracle_jars() -> str:
    """The class path of Kafka 4.3.1; a test that asks for it is skipped, with the reason, where it cannot be had."""
    try:
        return jars.class_path()
    except jars.JarsUnavailable as reason:
        if require_jars():
            raise
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def kafka_broker(oracle_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests; a test that kills or configures one starts its own."""
    broker = Broker(tmp_path_factory.mktemp("kafka") / "broker")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def own_broker(oracle_jars: str, tmp_path: Path) -> Iterator[Broker]:
    """One for this test, which may kill it, and start it again."""
    broker = Broker(tmp_path / "broker")
    broker.start()
    yield broker
    broker.stop()
