"""One suite for every implementation of a log. A test that uses `log` runs over all of them, a real broker included.

A test that uses `own_log` runs only over this project's own logs, because it moves the clock, or decides when
compaction and retention happen. A broker decides that itself.
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.embedded import EmbeddedLog, maintenance
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from tests.oracle.broker import Broker
from tests.streams_runtime.logs.kafka.namespaced_log import NamespacedLog
from tests.streams_runtime.logs.reading_and_writing import OwnLog
from tests.streams_runtime.manual_clock import ManualClock

CHANGELOG_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "1", "delete.retention.ms": "1000"}
"""With a segment of one byte, the last batch alone is the head that compaction leaves alone."""
KAFKA_CHANGELOG_CONFIGS = {**CHANGELOG_CONFIGS, "segment.bytes": "1048576"}
"""Brokers take no segment that is smaller."""
OWN_LOGS = ["embedded", "memory"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def changelog_configs(log: Log) -> dict[str, str]:
    """What the topic `changelog` was created with."""
    return KAFKA_CHANGELOG_CONFIGS if isinstance(log, NamespacedLog) else CHANGELOG_CONFIGS


@pytest.fixture(params=[*OWN_LOGS, pytest.param("kafka", marks=pytest.mark.kafka)])
def log(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Log]:
    yield from _opened(request, tmp_path, clock, monkeypatch)


@pytest.fixture(params=OWN_LOGS)
def own_log(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OwnLog]:
    for opened in _opened(request, tmp_path, clock, monkeypatch):
        assert isinstance(opened, OwnLog)
        yield opened


def _opened(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Log]:
    monkeypatch.setattr(maintenance, "MINIMUM_DIRTY_BYTES", 0)
    monkeypatch.setattr(maintenance, "MAINTENANCE_S", 60.0)
    openers: dict[str, Callable[[], Log]] = {
        "embedded": lambda: EmbeddedLog(tmp_path / "log", clock=clock),
        "memory": lambda: InMemoryLog(clock),
        "kafka": lambda: _kafka_log(request.getfixturevalue("kafka_broker")),
    }
    opened = openers[request.param]()
    is_own = request.param in OWN_LOGS
    changelog = NewTopic("changelog", 1, CHANGELOG_CONFIGS if is_own else KAFKA_CHANGELOG_CONFIGS)
    opened.create_topics([NewTopic("topic", 2), changelog])
    yield opened
    opened.close()


def _kafka_log(broker: Broker) -> Log:
    # nothing is sent before it has to be: some tests look at what is not written yet
    inside = KafkaLog(broker.bootstrap_servers, {"linger.ms": "60000"})
    return cast(Log, NamespacedLog(inside, f"conformance-{uuid.uuid4().hex[:12]}-"))
