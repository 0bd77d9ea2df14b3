"""What a consumer knows of the ends of partitions without asking for them, on a real broker."""

import time
import uuid
from collections.abc import Callable

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import Consumer, IsolationLevel, NewTopic
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from tests.streams_runtime.logs.reading_and_writing import reading

pytestmark = pytest.mark.kafka

RECORDS = 20_000
LONGEST_S = 30.0


@pytest.fixture
def flowing(log: KafkaLog) -> TopicPartition:
    """A partition with so many records that a reader who takes one at a time does not come to its end."""
    name = f"flowing-{uuid.uuid4().hex[:12]}"
    log.create_topics([NewTopic(name, 1)])
    producer = log.producer()
    for _ in range(RECORDS):
        producer.send(TopicPartition(name, 0), b"k", b"v", 0)
    producer.close()
    return TopicPartition(name, 0)


def poll_until(consumer: Consumer, is_enough: Callable[[set[TopicPartition]], bool]) -> float:
    """One record after the other; the seconds it took. `is_enough` gets the partitions of each poll."""
    begun = time.monotonic()
    while not is_enough({batch.partition for batch in consumer.poll(0, 1)}):
        assert time.monotonic() - begun < LONGEST_S
        time.sleep(0.001)  # who reads so slowly asks for records much more often than there are any
    return time.monotonic() - begun


@pytest.mark.parametrize("isolation", IsolationLevel)
def test_should_know_the_end_of_a_partition_that_has_nothing_while_another_one_has(
    log: KafkaLog, partition: TopicPartition, flowing: TopicPartition, requests: list[str], isolation: IsolationLevel
) -> None:
    producer = log.producer(partition.topic)
    for _ in range(2):
        producer.begin_transaction()
        producer.send(partition, b"k", b"v", 0)
        producer.flush()
        if log.end_offsets([partition])[partition] == 0:
            producer.commit_transaction()
    ends = {each: log.end_offsets([partition], each)[partition] for each in IsolationLevel}
    assert ends[IsolationLevel.READ_COMMITTED] < ends[IsolationLevel.READ_UNCOMMITTED]
    end = ends[isolation]
    consumer = reading(log, flowing, partition, isolation=isolation)
    poll_until(consumer, lambda _: consumer.position(partition) == end)
    settled_at = time.monotonic() + 0.3
    poll_until(consumer, lambda _: time.monotonic() > settled_at)

    requests.clear()
    begun, unknown, polls = time.monotonic(), 0, 0
    while time.monotonic() - begun < 1:
        consumer.poll(0, 1)
        known = consumer.known_end(partition)
        assert known in (end, None)
        unknown += known is None
        polls += 1
        time.sleep(0.001)
    assert unknown < polls / 4  # none, as long as this machine has time for it
    assert set(requests) == {"Fetch"}
    assert len(requests) < 30  # of which each waits for a tenth of a second

    producer.commit_transaction()
    if isolation is IsolationLevel.READ_COMMITTED:  # the broker sends it although others have records
        poll_until(consumer, lambda given: partition in given)
    poll_until(consumer, lambda _: consumer.position(partition) == log.end_offsets([partition])[partition])
    poll_until(consumer, lambda _: consumer.known_end(partition) == consumer.position(partition))
    producer.close()
    consumer.close()
