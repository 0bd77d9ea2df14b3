"""Requests to brokers: topics with their configs, offsets with and without open transactions, groups."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AiokafkaPartition

from assignor.topology.cluster import Broker as Node
from assignor.topology.cluster import TopicMetadata
from assignor.topology.internal_topics import CreatedTopic
from assignor.types import TopicPartition
from kafka_client.admin.cluster_admin import ClusterAdmin, CommittedOffset, ConsumerGroupDescription
from kafka_client.errors import KafkaRefused, KafkaUnavailable, TopicHasOtherPartitions, UnknownTopic
from kafka_client.settings.client_settings import ClientSettings, client_settings
from tests.oracle.broker import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(kafka_broker: Broker) -> ClientSettings:
    return client_settings(kafka_broker.bootstrap_servers, {"default.api.timeout.ms": "30000"})


@pytest.fixture
async def admin(settings: ClientSettings) -> AsyncIterator[ClusterAdmin]:
    async with ClusterAdmin(settings) as admin:
        yield admin


def a_name() -> str:
    return f"admin-{uuid.uuid4().hex[:8]}"


def created(partitions: int, configs: Mapping[str, str] | None = None, replication: int = -1) -> CreatedTopic:
    return CreatedTopic(partitions, replication, configs or {})


async def test_should_have_a_topic_with_its_configs_and_leaders_when_it_was_created(admin: ClusterAdmin) -> None:
    name = a_name()
    configs = {"cleanup.policy": "compact,delete", "retention.ms": "86400000", "segment.bytes": "1048576"}
    await admin.create_topics({name: created(3, configs), f"{name}-2": created(1, replication=1)})
    await admin.create_topics({name: created(3)})

    assert await admin.brokers() == (Node(1, None),)
    assert await admin.topics([name, f"{name}-2", "none"]) == {
        name: TopicMetadata(3, ((1,),) * 3, (1,) * 3),
        f"{name}-2": TopicMetadata(1, ((1,),), (1,)),
    }
    assert await admin.topic_configs([name, f"{name}-2", "none"], only_own=True) == {name: configs, f"{name}-2": {}}
    in_force = (await admin.topic_configs([name, "none"]))[name]
    assert (in_force["cleanup.policy"], in_force["min.cleanable.dirty.ratio"]) == ("compact,delete", "0.5")
    assert name in await admin.topics()


async def test_should_create_nothing_when_a_topic_has_another_number_of_partitions(admin: ClusterAdmin) -> None:
    name = a_name()
    await admin.create_topics({name: created(3)})
    with pytest.raises(TopicHasOtherPartitions, match=rf"topic {name} has 3 partitions, not 4$"):
        await admin.create_topics({f"{name}-2": created(1), name: created(4)})
    assert await admin.topics([f"{name}-2"]) == {}


@pytest.mark.parametrize(
    "topic, reason",
    [
        (created(1, replication=3), "Unable to replicate the partition 3 time"),
        (created(1, {"cleanup.policy": "sometimes"}), "Invalid value sometimes for configuration cleanup.policy"),
        (created(0), "Number of partitions"),
    ],
)
async def test_should_pass_on_why_the_brokers_will_not_create_a_topic(
    settings: ClientSettings, admin: ClusterAdmin, topic: CreatedTopic, reason: str
) -> None:
    name = a_name()

    with pytest.raises(KafkaRefused) as refused:
        await admin.create_topics({name: topic})

    assert str(refused.value).startswith(
        f"Kafka at {settings.bootstrap_servers}: creating topics {name}: topic {name}: {reason}"
    )


async def test_should_tell_what_an_open_transaction_holds_back(settings: ClientSettings, admin: ClusterAdmin) -> None:
    name, group = a_name(), a_name()
    partition, other = TopicPartition(name, 0), TopicPartition(name, 1)
    await admin.create_topics({name: created(2)})
    producer = AIOKafkaProducer(**settings.client_arguments(), transactional_id=name)
    await producer.start()
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"value", partition=0)
        moved = {AiokafkaPartition(*partition): (7, "text")}
        await producer.send_offsets_to_transaction(moved, group)

        assert await admin.end_offsets([partition, other]) == {partition: 1, other: 0}
        assert await admin.end_offsets([partition], read_committed=True) == {partition: 0}
        assert await admin.committed_offsets(group, [partition]) == {}
        stable = asyncio.create_task(admin.committed_offsets(group, [partition, other], stable=True))
        assert await asyncio.wait([stable], timeout=0.3) == (set(), {stable})

        await producer.commit_transaction()
        assert await stable == {partition: CommittedOffset(7, "text")}
        assert await admin.committed_offsets(group) == {partition: CommittedOffset(7, "text")}
        # the record, and the marker that ends the transaction
        assert await admin.end_offsets([partition], read_committed=True) == {partition: 2}
    finally:
        await producer.stop()


async def test_should_begin_later_when_records_were_deleted(settings: ClientSettings, admin: ClusterAdmin) -> None:
    name = a_name()
    partition, compacted = TopicPartition(name, 0), TopicPartition(f"{name}-compacted", 0)
    await admin.create_topics({name: created(1), compacted.topic: created(1, {"cleanup.policy": "compact"})})
    async with AIOKafkaProducer(**settings.client_arguments()) as producer:
        for _ in range(3):
            await producer.send_and_wait(name, b"value", partition=0)

    assert await admin.delete_records({partition: 2}) == {partition: 2}
    assert await admin.begin_offsets([partition]) == {partition: 2}
    with pytest.raises(KafkaRefused, match=r"the offset is out of range$"):
        await admin.delete_records({partition: 4})
    with pytest.raises(KafkaRefused, match=r"the topic's cleanup\.policy forbids it$"):
        await admin.delete_records({compacted: 0})


async def test_should_describe_the_members_of_a_group(settings: ClientSettings, admin: ClusterAdmin) -> None:
    name = a_name()
    await admin.create_topics({name: created(1)})
    arguments = {**settings.client_arguments(), "client_id": "one", "group_id": name, "group_instance_id": "one-1"}
    async with AIOKafkaConsumer(name, **arguments):
        group, none = await admin.describe_group(name), await admin.describe_group(f"{name}-2")

    (member,) = group.members
    assert (group.group_id, group.state, group.protocol_type, group.protocol) == (
        name,
        "Stable",
        "consumer",
        "roundrobin",
    )
    assert (member.group_instance_id, member.client_id, member.client_host) == ("one-1", "one", "/127.0.0.1")
    assert name.encode() in member.subscription
    assert name.encode() in member.assignment
    assert none == ConsumerGroupDescription(f"{name}-2", "Dead", "", "")


async def test_should_say_which_partition_is_unknown(admin: ClusterAdmin) -> None:
    name = a_name()
    await admin.create_topics({name: created(2)})
    with pytest.raises(UnknownTopic, match=f"^topic {name} has 2 partitions, so there is no {name}-2$"):
        await admin.end_offsets([TopicPartition(name, 0), TopicPartition(name, 2)])
    with pytest.raises(UnknownTopic, match=f"^there is no topic {name}-none$"):
        await admin.begin_offsets([TopicPartition(f"{name}-none", 0)])


async def test_should_ask_nobody_when_nothing_is_asked() -> None:
    async with ClusterAdmin(client_settings("127.0.0.1:1")) as admin:
        await admin.create_topics({})
        assert await admin.end_offsets([]) == {}
        assert await admin.committed_offsets("group", []) == {}
        assert await admin.topic_configs([]) == {}
        assert await admin.delete_records({}) == {}


async def test_should_say_who_was_asked_for_what_when_nobody_answers() -> None:
    settings = client_settings("127.0.0.1:1,127.0.0.1:2", {"default.api.timeout.ms": "1000"})

    async with ClusterAdmin(settings) as admin:
        with pytest.raises(KafkaUnavailable) as unavailable:
            await admin.end_offsets([TopicPartition("orders", 0)])

    assert str(unavailable.value) == (
        "Kafka at 127.0.0.1:1,127.0.0.1:2: end offsets of orders-0: no answer within 1 s (default.api.timeout.ms); "
        "last error: nothing listens on 127.0.0.1:2; check the address, security.protocol, and that the brokers run"
    )
    assert unavailable.value.retriable


async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def test_should_end_a_call_in_time_when_a_broker_listens_and_never_answers() -> None:
    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        times = {"default.api.timeout.ms": "1500", "socket.connection.setup.timeout.ms": "200"}
        async with asyncio.timeout(5), ClusterAdmin(client_settings(address, times)) as admin:
            with pytest.raises(KafkaUnavailable, match=rf"{address} did not accept a connection within 0\.2 s"):
                await admin.brokers()
