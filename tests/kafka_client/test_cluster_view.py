"""A cluster as the leader of a rebalance sees it, asked from the coordinator's threads, also while its broker dies."""

import asyncio
import os
import signal
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AiokafkaPartition

from assignor.pipeline.snapshot import ClusterView
from assignor.topology.cluster import Broker as Node
from assignor.topology.cluster import Cluster, TopicMetadata
from assignor.topology.internal_topics import CreatedTopic
from assignor.types import TopicPartition
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.cluster_provider import KafkaClusterProvider, cluster_view, kafka_cluster_provider
from kafka_client.errors import KafkaUnavailable
from kafka_client.settings.client_settings import ClientSettings, client_settings
from tests.kafka_client.definitions import definition_of
from tests.oracle.broker import Broker

pytestmark = pytest.mark.kafka


def metadata(partitions: int) -> TopicMetadata:
    return TopicMetadata(partitions, replicas=((1,),) * partitions, leaders=(1,) * partitions)


async def write(settings: ClientSettings, topic: str, partition: int, records: int) -> None:
    producer = AIOKafkaProducer(**settings.client_arguments())
    await producer.start()
    for _ in range(records):
        await producer.send_and_wait(topic, b"value", b"key", partition=partition)
    await producer.stop()


async def commit(settings: ClientSettings, group: str, topic: str, partition: int, offset: int) -> None:
    consumer = AIOKafkaConsumer(**settings.client_arguments(), group_id=group, enable_auto_commit=False)
    await consumer.start()
    consumer.assign([AiokafkaPartition(topic, partition)])
    await consumer.commit({AiokafkaPartition(topic, partition): offset})
    await consumer.stop()


def test_should_see_topics_racks_changelog_ends_and_committed_offsets(secured: Broker) -> None:
    name = f"view-{uuid.uuid4().hex[:8]}"
    settings = client_settings(secured.bootstrap_servers)
    provider = kafka_cluster_provider(f"kafka:127.0.0.1:1;{secured.bootstrap_servers}")
    definition = definition_of(name)
    empty = provider.view("group", definition)
    provider.create_topics(
        {
            f"{name}-orders": CreatedTopic(2, -1, {}),
            f"{name}-prices": CreatedTopic(2, -1, {}),
            f"{name}-totals-repartition": CreatedTopic(2, -1, {}),
            f"{name}-counts-changelog": CreatedTopic(2, -1, {"cleanup.policy": "compact"}),
        }
    )
    asyncio.run(write(settings, f"{name}-counts-changelog", 1, 3))
    asyncio.run(commit(settings, name, f"{name}-prices", 0, 5))

    view = provider.view("group", definition)
    counts = provider.topics(definition)
    provider.close()
    provider.close()

    racks = (Node(1, "eu-1a"),)
    assert empty == ClusterView(Cluster(racks, {}), {}, {}, {})
    assert view == ClusterView(
        Cluster(racks, {f"{name}-orders": metadata(2), f"{name}-prices": metadata(2)}),
        {f"{name}-counts-changelog": metadata(2), f"{name}-totals-repartition": metadata(2)},
        {f"{name}-counts-changelog": (0, 3)},
        {f"{name}-prices": (5, None)},
    )
    assert counts == {f"{name}-{topic}": 2 for topic in ("counts-changelog", "orders", "prices", "totals-repartition")}


async def test_should_do_without_lags_when_offsets_take_too_long(
    secured: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"view-{uuid.uuid4().hex[:8]}"

    async with ClusterAdmin(client_settings(secured.bootstrap_servers)) as admin:
        await admin.create_topics(
            {f"{name}-{topic}": CreatedTopic(1, -1, {}) for topic in ("prices", "counts-changelog")}
        )
        view = await cluster_view(admin, definition_of(name), offsets_timeout_s=0)

    assert view == ClusterView(
        Cluster((Node(1, "eu-1a"),), {f"{name}-prices": metadata(1)}),
        {f"{name}-counts-changelog": metadata(1)},
        None,
        {},
        frozenset({"changelog_end_offsets", "committed_offsets"}),
    )
    assert "a rebalance is placed without lags: no answer within 0 s" in caplog.text


def test_should_answer_every_question_that_was_asked_while_its_broker_was_killed_and_started(secured: Broker) -> None:
    name = f"view-{uuid.uuid4().hex[:8]}"
    partition = TopicPartition(f"{name}-prices", 0)
    settings = client_settings(secured.bootstrap_servers)
    provider = KafkaClusterProvider(settings)
    provider.create_topics({f"{name}-prices": CreatedTopic(1, -1, {})})
    asyncio.run(commit(settings, name, f"{name}-prices", 0, 5))
    before = provider.view("group", definition_of(name))
    down = threading.Event()

    async def everything() -> tuple[object, ...]:
        async with ClusterAdmin(settings) as admin:
            await admin.brokers()  # with a connection that the broker's death will break
            await asyncio.to_thread(secured.kill)
            down.set()
            return tuple(
                await asyncio.gather(
                    admin.topics([partition.topic]),
                    admin.end_offsets([partition]),
                    admin.committed_offsets(name, [partition], stable=True),
                    admin.create_topics({f"{name}-late": CreatedTopic(1, -1, {})}),
                    admin.topic_configs([partition.topic], only_own=True),
                    admin.describe_group(name),
                )
            )

    with ThreadPoolExecutor(2) as callers:
        asked = callers.submit(asyncio.run, everything())
        assert down.wait(30)
        viewed = callers.submit(provider.view, "group", definition_of(name))
        quickly = KafkaClusterProvider(settings.with_properties({"default.api.timeout.ms": "500"}))
        with pytest.raises(KafkaUnavailable, match=f"nothing listens on {secured.bootstrap_servers}"):
            quickly.topics(definition_of(name))
        secured.start()
        answers = asked.result(60)
        after = viewed.result(60)

    assert after == before
    topics, ends, committed, created, configs, group = answers
    assert topics == {partition.topic: metadata(1)}
    assert ends == {partition: 0}
    assert committed == {partition: (5, "")}
    assert (created, configs) == (None, {partition.topic: {}})
    assert getattr(group, "state", None) == "Empty"
    assert set(provider.topics(definition_of(name))) == {partition.topic}
    provider.close()
    quickly.close()


def test_should_serve_parent_and_child_when_it_was_in_use_before_a_fork(secured: Broker) -> None:
    provider = kafka_cluster_provider(secured.bootstrap_servers)
    definition = definition_of(f"view-{uuid.uuid4().hex[:8]}")
    assert provider.topics(definition) == {}

    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)  # a child that hangs must not hang the test
            assert provider.topics(definition) == {}
            provider.close()
            code = 0
        finally:
            os._exit(code)

    assert os.waitpid(child, 0)[1] == 0
    assert provider.topics(definition) == {}
    provider.close()
