"""One of three nodes dies, stays away, or is missing from the start: work continues, and nothing is lost or doubled."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from assignor.names.internal_names import claims_topic
from assignor.recording import rebalance_input
from assignor.topology.internal_topics import CreatedTopic
from assignor.types import TopicPartition
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.cluster_provider import kafka_cluster_provider
from streams_runtime.logs.base import NewTopic, OffsetAndMetadata
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.kafka.leadership import CoordinatorOf, Leadership
from streams_runtime.logs.log_errors import LogTimeout
from tests.kafka_client.definitions import definition_of
from tests.oracle.brokers import NODES, Brokers
from tests.streams_runtime.logs.kafka.steady_work import SteadyWork, until_answered
from tests.streams_runtime.logs.reading_and_writing import read_from
from tests.told import Tell
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

LONGEST_AWAY_S = 30
VICTIM = 2


@pytest.fixture
def log(brokers: Brokers) -> Iterator[KafkaLog]:
    opened = KafkaLog(brokers.bootstrap_servers, {"transaction.timeout.ms": "60000"})
    yield opened
    opened.close()


def test_should_lose_and_double_nothing_when_the_leader_is_killed(brokers: Brokers, log: KafkaLog, tell: Tell) -> None:
    """The node leads records and claims, and coordinates group and transactions. Then it comes back."""
    work = _led_by(VICTIM, log)
    claims = TopicPartition(claims_topic(work.group), 0)
    with work.going_on():
        assert _leader(log, claims) == VICTIM
        brokers.kill_node(VICTIM)
        without_s = work.wait_for_a_step()
        assert VICTIM not in {_leader(log, each) for each in (claims, work.plain, *work.atomic)}
        brokers.start_node(VICTIM)
        wait_until(lambda: {_leader(log, each) for each in (claims, work.plain)} == {VICTIM}, "it leads again")
        with_it_s = work.wait_for_a_step()
    tell(f"went on {without_s:.1f} s after SIGKILL of the leader, {with_it_s:.1f} s after it led again")


def test_should_do_everything_while_the_first_of_the_nodes_is_away(brokers: Brokers, tell: Tell) -> None:
    """Once with a client that knew the node, once with a client that only has it in `bootstrap.servers`."""
    away = NODES[0]
    before = KafkaLog(brokers.bootstrap_servers)
    begun = time.monotonic()
    try:
        brokers.kill_node(away)
        _use(before)
        known_s = time.monotonic() - begun
        begun = time.monotonic()
        after = KafkaLog(brokers.bootstrap_servers)
        _use(after)
        new_s = time.monotonic() - begun
        after.close()
    finally:
        brokers.start_node(away)
    before.close()
    tell(f"node {away} away: {known_s:.1f} s after SIGKILL, {new_s:.1f} s in a new client")


def test_should_tell_the_leader_of_a_round_racks_and_replicas_also_while_a_node_is_away(brokers: Brokers) -> None:
    name = f"racks-{uuid.uuid4().hex[:8]}"
    definition = definition_of(name)
    provider = kafka_cluster_provider(brokers.bootstrap_servers)
    provider.create_topics({topic: CreatedTopic(3, -1, {}) for topic in definition.topology.source_topics})
    racks = [{"id": number, "rack": f"r{number}"} for number in NODES]

    def recorded() -> Any:
        return rebalance_input(replace(definition, cluster=provider.view(name, definition).cluster))["cluster"]

    whole = recorded()
    assert whole["brokers"] == racks
    for topic in whole["topics"].values():
        assert [sorted(replicas) for replicas in topic["replicas"]] == [[*NODES]] * 3
        assert topic["leaders"] == [replicas[0] for replicas in topic["replicas"]]
    brokers.kill_node(VICTIM)
    try:
        wait_until(lambda: VICTIM not in {each["id"] for each in recorded()["brokers"]}, "the node is missed")
        without = recorded()
    finally:
        brokers.start_node(VICTIM)
    provider.close()
    assert without["brokers"] == [each for each in racks if each["id"] != VICTIM]
    for topic, metadata in without["topics"].items():
        assert metadata["replicas"] == whole["topics"][topic]["replicas"]
        assert VICTIM not in metadata["leaders"]


def test_should_write_once_what_too_few_replicas_have_until_one_returns(brokers: Brokers, log: KafkaLog) -> None:
    """The leader has appended the record, and must not acknowledge it before the other replicas have it."""
    name = f"every-{uuid.uuid4().hex[:8]}"
    every = TopicPartition(name, 0)
    log.create_topics([NewTopic(name, 1, {"min.insync.replicas": "3"})])
    producer = log.producer()
    producer.send(every, b"k", b"1", 0)
    producer.flush()
    follower = min({*NODES} - {_leader(log, every)})
    brokers.kill_node(follower)
    producer.send(every, b"k", b"2", 0)
    with ThreadPoolExecutor(1) as threads:
        flushing = threads.submit(producer.flush)
        try:
            wait_until(lambda: follower not in _brokers(log), "the node is missed")
        finally:
            brokers.start_node(follower)
        flushing.result(LONGEST_AWAY_S)
    assert [record.value for record in read_from(log, every)] == [b"1", b"2"]


def test_should_time_out_and_name_a_partition_without_leader_and_go_on_with_one(brokers: Brokers) -> None:
    impatient = KafkaLog(brokers.bootstrap_servers, {"default.api.timeout.ms": "2000", "metadata.max.age.ms": "100"})
    name = f"alone-{uuid.uuid4().hex[:8]}"
    impatient.create_topics([NewTopic(name, 1, {"min.insync.replicas": "1"}, replication_factor=1)])
    alone = TopicPartition(name, 0)
    node = _leader(impatient, alone)
    producer, consumer = impatient.producer(), impatient.consumer()
    consumer.assign([alone])
    consumer.seek(alone, 0)
    producer.send(alone, b"k", b"1", 0)
    producer.flush()
    assert [list(batch.values) for batch in consumer.poll(10_000, 10)] == [[b"1"]]
    brokers.kill_node(node)
    try:
        wait_until(lambda: _leader(impatient, alone) == -1, "it has no leader")
        producer.send(alone, b"k", b"2", 0)
        for call in (producer.flush, lambda: impatient.end_offsets([alone]), lambda: impatient.begin_offsets([alone])):
            with pytest.raises(LogTimeout, match=f"{alone} has no leader"):
                call()
        with pytest.raises(LogTimeout, match=f"{alone} has no leader"):
            consumer.poll(10_000, 10)
    finally:
        brokers.start_node(node)
    until_answered(producer.flush)
    given: list[bytes | None] = []
    until_answered(lambda: given.extend(value for batch in consumer.poll(10_000, 1) for value in batch.values))
    assert given == [b"2"]
    assert [record.value for record in read_from(impatient, alone)] == [b"1", b"2"]
    impatient.close()


def _use(log: KafkaLog) -> None:
    """Every kind of call once."""
    name = f"used-{uuid.uuid4().hex[:8]}"
    log.create_topics([NewTopic(name, 3)])
    first = TopicPartition(name, 0)
    assert log.topics()[name].partitions == 3
    producer, transactional = log.producer(), log.producer(name)
    claim = log.claim(name, [first], name)
    producer.send(first, b"k", b"plain", 0)
    producer.flush()
    transactional.begin_transaction()
    for number in range(3):
        transactional.send(TopicPartition(name, number), b"k", b"atomic", 0)
    transactional.commit_transaction([(claim, {first: OffsetAndMetadata(1)})])
    log.release(claim)
    log.claim(name, [first], f"{name}-heir")
    assert log.committed_offsets(name, [first]) == {first: OffsetAndMetadata(1)}
    assert [record.value for record in read_from(log, first)] == [b"plain", b"atomic"]
    log.delete_records({first: 1})
    assert log.begin_offsets([first]) == {first: 1}


def _led_by(node: int, log: KafkaLog) -> SteadyWork:
    """Work of which that node leads everything that only one node can lead. Leaders are drawn, so names are tried."""
    group = _name(lambda name: _coordinator(log, CoordinatorOf.GROUP, name) == node and _leads(log, node, name))
    plain = _name(lambda name: _new_leader(log, name) == node)
    atomic = _name(lambda name: _new_leader(log, name, 3) in NODES)
    transactional_id = _name(lambda name: _coordinator(log, CoordinatorOf.TRANSACTION, name) == node)
    partitions = [TopicPartition(atomic, number) for number in range(3)]
    return SteadyWork(log, group, transactional_id, TopicPartition(plain, 0), partitions)


def _name(is_good: Callable[[str], bool]) -> str:
    while not is_good(name := f"led-{uuid.uuid4().hex[:8]}"):
        pass
    return name


def _leads(log: KafkaLog, node: int, group: str) -> bool:
    log._loop.run(log.make_claims_topic(claims_topic(group)))
    return _leader(log, TopicPartition(claims_topic(group), 0)) == node


def _new_leader(log: KafkaLog, topic: str, partitions: int = 1) -> int:
    log.create_topics([NewTopic(topic, partitions)])
    return _leader(log, TopicPartition(topic, 0))


def _leader(log: KafkaLog, partition: TopicPartition) -> int:
    """-1 when there is none."""

    async def ask() -> int:
        async with ClusterAdmin(log.settings.client) as admin:
            leaders = (await admin.topics([partition.topic]))[partition.topic].leaders
        assert leaders is not None, "a cluster tells leaders"
        return leaders[partition.partition]

    return asyncio.run(ask())


def _brokers(log: KafkaLog) -> set[int]:
    """The nodes that run, as the cluster reports them."""

    async def ask() -> set[int]:
        async with ClusterAdmin(log.settings.client) as admin:
            return {broker.id for broker in await admin.brokers()}

    return asyncio.run(ask())


def _coordinator(log: KafkaLog, kind: CoordinatorOf, key: str) -> int:
    async def ask() -> int:
        leadership = Leadership(log.settings.client)
        found = await leadership.call(key, lambda: leadership.coordinator(kind, key))
        await leadership.close()
        return found

    return asyncio.run(ask())
