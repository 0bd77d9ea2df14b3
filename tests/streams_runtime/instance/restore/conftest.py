"""Readers that are closed after a test, with their stores."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.streams_runtime.instance.restore.failing_log import FailingLog
from tests.streams_runtime.instance.restore.restoring import Restoring

StartReader = Callable[..., Restoring]


@pytest.fixture
def log() -> FailingLog:
    return FailingLog()


@pytest.fixture
def start(tmp_path: Path, log: FailingLog) -> Iterator[StartReader]:
    """`start(**configs)`: a reader on `log`, with a state directory of its own."""
    started: list[Restoring] = []

    def start_one(**configs: object) -> Restoring:
        started.append(Restoring(tmp_path / f"state-{len(started)}", log, **configs))
        return started[-1]

    yield start_one
    for each in started:
        each.listener.fail_at.clear()
        each.close()


@pytest.fixture
def restoring(start: StartReader) -> Restoring:
    return start()
