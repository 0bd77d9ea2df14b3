"""The broker that the other tests stand on: it survives SIGKILL on the same address with what it had acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.oracle.broker import Broker

pytestmark = pytest.mark.kafka


def test_should_have_its_topics_again_when_it_was_killed_and_started(oracle_jars: str, tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker")
    address = broker.bootstrap_servers
    try:
        broker.start()
        asyncio.run(_create_topic(address))
        broker.kill()
        broker.start()
        assert broker.bootstrap_servers == address
        assert asyncio.run(_topics(address)) == ["kept"]
    finally:
        broker.stop()


async def _create_topic(bootstrap_servers: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic("kept", 3, 1)])
    finally:
        await admin.close()


async def _topics(bootstrap_servers: str) -> list[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        names: list[str] = await admin.list_topics()
        return names
    finally:
        await admin.close()
