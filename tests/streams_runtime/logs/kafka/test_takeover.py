"""A new owner takes a partition over from one that is dead, stopped, or just as fast: nothing is lost or doubled."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import IsolationLevel, OffsetAndMetadata
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.log_errors import ProducerFenced
from tests.oracle.broker import Broker
from tests.streams_runtime.logs.kafka.programs import running
from tests.streams_runtime.logs.reading_and_writing import read_from, reading

pytestmark = pytest.mark.kafka

LONGEST_TAKEOVER_S = 3
"""The transaction of a dead owner would hold others up for transaction.timeout.ms, 10 s."""


def values(log: KafkaLog, partition: TopicPartition) -> list[bytes | None]:
    return [record.value for record in read_from(log, partition)]


def test_should_take_over_at_once_from_an_owner_that_was_killed_in_a_transaction(
    log: KafkaLog, partition: TopicPartition, kafka_broker: Broker
) -> None:
    name = partition.topic
    with running("hold_a_transaction_open", kafka_broker.bootstrap_servers, name) as owner:
        assert owner.line() == "open"
        owner.kill()
    heir = log.producer(f"{name}-heir")
    begun = time.monotonic()
    claim = log.claim(name, [partition], f"{name}-heir")
    assert log.committed_offsets(name, [partition]) == {partition: OffsetAndMetadata(1)}
    end = log.end_offsets([partition], IsolationLevel.READ_UNCOMMITTED)[partition]
    consumer = reading(log, partition)
    restored: list[bytes | None] = []
    while (position := consumer.position(partition)) is not None and position < end:
        restored += [value for batch in consumer.poll(100, 10) for value in batch.values]
    took_s = time.monotonic() - begun
    print(f"taken over {took_s * 1000:.0f} ms after SIGKILL was noticed")
    assert restored == [b"0"]
    assert took_s < LONGEST_TAKEOVER_S
    heir.begin_transaction()
    heir.send(partition, b"k", b"1", 0)
    heir.commit_transaction([(claim, {partition: OffsetAndMetadata(2)})])
    assert values(log, partition) == [b"0", b"1"]


def test_should_abort_what_an_owner_wrote_that_stopped_before_the_end_of_its_transaction(
    log: KafkaLog, partition: TopicPartition, kafka_broker: Broker
) -> None:
    name = partition.topic
    with running("stop_before_the_end", kafka_broker.bootstrap_servers, name) as zombie:
        assert zombie.line() == "checked"
        log.producer(f"{name}-heir")
        log.claim(name, [partition], f"{name}-heir")
        assert log.committed_offsets(name, [partition]) == {}
        zombie.signal(signal.SIGCONT)
        assert zombie.line() == "ProducerFenced"
    assert values(log, partition) == []


def test_should_wait_for_an_owner_that_cannot_be_fenced_and_has_looked_at_the_claims_before(
    log: KafkaLog, partition: TopicPartition, kafka_broker: Broker
) -> None:
    """The order of the steps makes it exactly-once, not the fencing."""
    name = partition.topic
    with (
        running("stop_before_the_end", kafka_broker.bootstrap_servers, name, number=1) as stopped,
        ThreadPoolExecutor(1) as threads,
    ):
        assert stopped.line() == "checked"
        log.claim(name, [partition], f"{name}-heir")
        reading = threads.submit(log.committed_offsets, name, [partition])
        time.sleep(0.3)  # what must not happen in the meantime has no event
        assert not reading.done()
        stopped.signal(signal.SIGCONT)
        assert stopped.line() == "committed"
        assert reading.result() == {partition: OffsetAndMetadata(7)}
    assert values(log, partition) == [b"zombie"]


def test_should_count_every_number_once_when_processes_take_the_partition_from_each_other(
    log: KafkaLog, partition: TopicPartition, kafka_broker: Broker
) -> None:
    with ExitStack() as stack:
        counting = [
            stack.enter_context(running("count_up", kafka_broker.bootstrap_servers, partition.topic, number=5))
            for _ in range(3)
        ]
        for process in counting:
            assert process.line() == "ready"
        for process in counting:
            process.go_on()
        counted = [int(line) for process in counting for line in process.rest()]
    assert sorted(counted) == list(range(15))
    assert values(log, partition) == [b"%d" % number for number in range(15)]
    assert log.committed_offsets(partition.topic, [partition]) == {partition: OffsetAndMetadata(15)}


def test_should_not_fence_an_owner_that_has_opened_its_id_anew_since(log: KafkaLog, partition: TopicPartition) -> None:
    """A process that came back quickly keeps working on other tasks when another process claims one of its former
    tasks."""
    name = partition.topic
    other = TopicPartition(f"{name}-other", 0)
    log.producer("a")
    log.claim(name, [partition], "a")
    again = log.producer("a")
    log.claim(name, [other], "a")
    log.producer("b")
    log.claim(name, [partition], "b")
    again.begin_transaction()
    again.send(partition, b"k", b"alive", 0)
    again.commit_transaction()
    assert values(log, partition) == [b"alive"]


def test_should_fence_an_owner_that_lives_and_has_not_released(log: KafkaLog, partition: TopicPartition) -> None:
    owner = log.producer("owner")
    log.claim(partition.topic, [partition], "owner")
    log.claim(partition.topic, [partition], "heir")
    owner.begin_transaction()
    owner.send(partition, b"k", b"fenced", 0)
    with pytest.raises(ProducerFenced, match="producer owner of epoch 0 was replaced by a newer one"):
        owner.commit_transaction()


def test_should_know_all_claims_again_when_the_topic_is_read_anew(log: KafkaLog, partition: TopicPartition) -> None:
    owner = log.producer("first")
    released = log.claim(partition.topic, [partition], "first")
    log.release(released)
    another = KafkaLog(log.settings.client.bootstrap_servers)
    claim = another.claim(partition.topic, [partition], "second")
    assert claim.epochs == {partition: 2}
    owner.begin_transaction()
    owner.send(partition, b"k", b"not fenced", 0)
    owner.commit_transaction()
    another.close()
    assert values(log, partition) == [b"not fenced"]
