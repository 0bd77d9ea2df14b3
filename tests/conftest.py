"""What tests of every folder may ask for: a real broker, started when the first test needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.oracle import jars
from tests.oracle.broker import Broker, require_jars
from tests.told import PROPERTY, Tell, told


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


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """For what a reader of the run should see, also when it passed."""
    return lambda text: record_property(PROPERTY, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    texts = told([report for reports in terminalreporter.stats.values() for report in reports])
    if texts:
        terminalreporter.section("what the tests say")
    for test, of_test in groupby(texts, key=lambda each: each[0]):
        terminalreporter.write_line(f"-- {test}")
        for _, text in of_test:
            terminalreporter.write_line(text)
