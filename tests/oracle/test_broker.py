"""The broker that the other tests stand on: it survives SIGKILL on the same address with what it had acknowledged."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.oracle.broker import Broker

pytestmark = pytest.mark.kafka


def test_should_have_its_topics_again_when_it_was_killed_and_started(own_broker: Broker) -> None:
    address = own_broker.bootstrap_servers
    asyncio.run(_create_topic(address))
    own_broker.kill()
    own_broker.start()
    assert own_broker.bootstrap_servers == address
    assert asyncio.run(_topics(address)) == ["kept"]


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
