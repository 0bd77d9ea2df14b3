"""How many requests the calls cost that stand between an assignment and the first record of its tasks."""

import uuid

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import IsolationLevel, NewTopic, OffsetAndMetadata
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.log_errors import CommitFenced, ProducerFenced
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

PARTITIONS = 20


@pytest.fixture
def partitions(log: KafkaLog) -> list[TopicPartition]:
    name = f"trips-{uuid.uuid4().hex[:12]}"
    log.create_topics([NewTopic(name, PARTITIONS)])
    return [TopicPartition(name, number) for number in range(PARTITIONS)]


def test_should_claim_many_as_fast_as_one(log: KafkaLog, partitions: list[TopicPartition], requests: list[str]) -> None:
    group = partitions[0].topic
    producer = log.producer(group)
    log.claim(group, partitions[:1], group)  # makes the topic, and connects
    requests.clear()

    claim = log.claim(group, partitions, group)
    assert requests == ["Fetch", "Produce", "Fetch"]
    requests.clear()

    log.release(*(claim.part([partition]) for partition in partitions))
    assert requests == ["Produce"]

    producer.begin_transaction()
    producer.send(partitions[0], b"k", b"v", 0)
    producer.commit_transaction([(claim.part([p]), {p: OffsetAndMetadata(1)}) for p in partitions])
    assert log.committed_offsets(group, partitions) == dict.fromkeys(partitions, OffsetAndMetadata(1))


def test_should_fence_a_dead_owner_once(log: KafkaLog, partitions: list[TopicPartition], requests: list[str]) -> None:
    group = partitions[0].topic
    dead = [log.producer(f"{group}-{number}") for number in range(2)]
    theirs = [partitions[:10], partitions[10:]]
    claims = [log.claim(group, theirs[number], f"{group}-{number}") for number in range(2)]
    for number, producer in enumerate(dead):
        producer.begin_transaction()
        producer.send(theirs[number][0], b"k", b"v", 0)
        producer.flush()  # else it sends its record while the heir claims
    heir = log.producer(f"{group}-heir")
    requests.clear()

    claim = log.claim(group, partitions, f"{group}-heir")
    # opening an id is asked for again while the markers of its transaction are written
    assert list(dict.fromkeys(requests)) == ["Fetch", "Produce", "FindCoordinator", "InitProducerId"]
    assert [requests.count(name) for name in ("Fetch", "Produce", "FindCoordinator")] == [2, 2, 2]
    for producer, of_it in zip(dead, claims, strict=True):
        with pytest.raises((ProducerFenced, CommitFenced)):
            producer.commit_transaction([(of_it, {next(iter(of_it.epochs)): OffsetAndMetadata(1)})])
    heir.begin_transaction()
    heir.commit_transaction([(claim, dict.fromkeys(partitions, OffsetAndMetadata(2)))])
    assert log.committed_offsets(group, partitions) == dict.fromkeys(partitions, OffsetAndMetadata(2))


def test_should_look_up_nothing_known(log: KafkaLog, partitions: list[TopicPartition], requests: list[str]) -> None:
    group = partitions[0].topic

    def ask() -> list[str]:
        requests.clear()
        log.committed_offsets(group, partitions)
        log.end_offsets(partitions, IsolationLevel.READ_UNCOMMITTED)
        log.begin_offsets(partitions)
        return list(requests)

    ask()
    assert ask() == ["OffsetFetch", "Offset", "Offset"]


def test_should_connect_before_any_poll(log: KafkaLog, partitions: list[TopicPartition], requests: list[str]) -> None:
    producer = log.producer()
    producer.send(partitions[0], b"k", b"v", 0)
    producer.close()
    requests.clear()

    consumer = log.consumer()
    wait_until(lambda: requests.count("Metadata") == 2, "one for each kind of request")
    requests.clear()
    consumer.assign(partitions[:1])
    consumer.seek(partitions[0], 0)
    (batch,) = consumer.poll(10_000, 10)
    assert list(batch.values) == [b"v"]
    assert requests[:2] == ["Metadata", "Fetch"]
    consumer.close()
