"""A log on the broker that all tests share, a topic of one partition for each test, and a cluster of three nodes."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from assignor.types import TopicPartition
from kafka_client.connections import Connections
from kafka_client.requests import VersionedRequest
from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from tests.oracle.broker import Broker
from tests.oracle.brokers import Brokers


@pytest.fixture
def log(kafka_broker: Broker) -> Iterator[KafkaLog]:
    opened = KafkaLog(kafka_broker.bootstrap_servers)
    yield opened
    opened.close()


@pytest.fixture
def partition(log: KafkaLog) -> TopicPartition:
    """The topic and the group have the same name."""
    name = f"log-{uuid.uuid4().hex[:12]}"
    log.create_topics([NewTopic(name, 1)])
    return TopicPartition(name, 0)


EVERY_VERSION = dict.fromkeys(range(100), (0, 99))
"""API keys of Kafka to the versions of a broker that knows all."""


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all requests of this process, in their order."""
    sent: list[str] = []
    send = Connections.send

    async def noted(self: Connections, request: Any, node_id: int | None = None) -> Any:
        struct = request.prepare(EVERY_VERSION) if isinstance(request, VersionedRequest) else request
        sent.append(type(struct).__name__.partition("Request")[0])
        return await send(self, request, node_id)

    monkeypatch.setattr(Connections, "send", noted)
    return sent


@pytest.fixture(scope="package")
def brokers(oracle_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """A test that kills a node starts it again. Compaction runs five times a second."""
    three = Brokers(tmp_path_factory.mktemp("three") / "brokers", {"log.cleaner.backoff.ms": "200"})
    three.start()
    yield three
    three.kill()
