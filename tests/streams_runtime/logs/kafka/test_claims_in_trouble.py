"""Claims while processes are stopped at any point, and while their topic is compacted, deleted or very full."""

import asyncio
import random
import signal
import time
import uuid
from collections.abc import Iterable
from contextlib import ExitStack

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from assignor.names.internal_names import claims_topic
from assignor.types import TopicPartition
from streams_runtime.logs.base import NewTopic, OffsetAndMetadata
from streams_runtime.logs.kafka.claims_topic import ClaimsWriter
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.log_errors import CommitFenced
from tests.oracle.brokers import Brokers
from tests.streams_runtime.logs.kafka.programs import running
from tests.streams_runtime.logs.reading_and_writing import read_from
from tests.told import Tell

pytestmark = pytest.mark.kafka

PROCESSES, EACH = 3, 4
LONGEST_STOP_S = 0.3
COMPACTS_AT_ONCE = {"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.0"}
LONGEST_S = 120


def test_should_count_every_number_once_when_processes_are_stopped_anywhere(brokers: Brokers, tell: Tell) -> None:
    """The processes take the partition from each other all the time, while the claims are compacted."""
    seed = time.time_ns() % 1_000_000
    chance = random.Random(seed)
    name = f"stopped-{uuid.uuid4().hex[:8]}"
    log, partition = KafkaLog(brokers.bootstrap_servers), TopicPartition(name, 0)
    log.create_topics([NewTopic(name, 1, {"retention.ms": "-1"}), NewTopic(claims_topic(name), 1, COMPACTS_AT_ONCE)])
    stops = 0
    with ExitStack() as stack:
        counting = [
            stack.enter_context(running("count_up", brokers.bootstrap_servers, name, EACH)) for _ in range(PROCESSES)
        ]
        for process in counting:
            assert process.line() == "ready"
        for process in counting:
            process.go_on()
        give_up_at = time.monotonic() + LONGEST_S
        while alive := [process for process in counting if process.process.poll() is None]:
            assert time.monotonic() < give_up_at, f"seed {seed}: stuck after {stops} stops"
            victim = chance.choice(alive)
            victim.signal(signal.SIGSTOP)
            time.sleep(chance.random() * LONGEST_STOP_S)  # a schedule is made of time
            victim.signal(signal.SIGCONT)
            time.sleep(chance.random() * LONGEST_STOP_S)
            stops += 1
        counted = [int(line) for process in counting for line in process.rest()]
    claims = TopicPartition(claims_topic(name), 0)
    kept, written = len(read_from(log, claims)), log.end_offsets([claims])[claims]
    tell(f"seed {seed}: {stops} stops; {kept} of {written} records of claims were left by compaction")
    assert sorted(counted) == list(range(PROCESSES * EACH)), f"seed {seed}"
    assert [record.value for record in read_from(log, partition)] == [b"%d" % n for n in range(PROCESSES * EACH)]
    assert log.committed_offsets(name, [partition]) == {partition: OffsetAndMetadata(PROCESSES * EACH)}
    log.close()


def test_should_know_that_it_is_fenced_when_its_claim_was_compacted_away_unread(brokers: Brokers) -> None:
    name = f"compacted-{uuid.uuid4().hex[:8]}"
    claims = TopicPartition(claims_topic(name), 0)
    partition = TopicPartition(name, 0)
    other = KafkaLog(brokers.bootstrap_servers)
    other.create_topics([NewTopic(name, 1), NewTopic(claims.topic, 1, COMPACTS_AT_ONCE)])

    class SlowWriter(ClaimsWriter):
        async def write(self, partition: TopicPartition, records: Iterable[tuple[bytes, bytes]]) -> None:
            await super().write(partition, records)
            await asyncio.to_thread(claim_until_compacted)

    def claim_until_compacted() -> None:
        give_up_at = time.monotonic() + LONGEST_S
        while (first := read_from(other, claims)[0]).offset == 0:
            assert time.monotonic() < give_up_at, f"never compacted: {first}"
            other.claim(name, [partition])
            time.sleep(0.1)  # compaction tells nobody

    slow = KafkaLog(brokers.bootstrap_servers)
    slow._claims_writer = SlowWriter(slow._leadership, slow.settings)
    producer, claim = slow.producer(name), slow.claim(name, [partition])  # without a name nobody fences the producer
    assert claim.epochs.keys() == {partition}
    producer.begin_transaction()
    producer.send(partition, b"k", b"late", 0)
    with pytest.raises(CommitFenced):
        producer.commit_transaction([(claim, {partition: OffsetAndMetadata(1)})])
    assert read_from(other, partition) == []
    slow.close()
    other.close()


def test_should_fence_whoever_holds_a_claim_when_the_topic_is_deleted_and_make_it_anew(brokers: Brokers) -> None:
    name = f"deleted-{uuid.uuid4().hex[:8]}"
    log, partition = KafkaLog(brokers.bootstrap_servers), TopicPartition(name, 0)
    log.create_topics([NewTopic(name, 1)])
    producer, claim = log.producer(name), log.claim(name, [partition])
    asyncio.run(_delete(brokers, claims_topic(name)))
    producer.begin_transaction()
    producer.send(partition, b"k", b"lost", 0)
    with pytest.raises(CommitFenced, match=f"no partition {name}-claims-0, so nobody holds a claim any more"):
        producer.commit_transaction([(claim, {partition: OffsetAndMetadata(1)})])
    log.release(claim)
    producer.close()
    producer, claim = log.producer(name), log.claim(name, [partition])
    producer.begin_transaction()
    producer.send(partition, b"k", b"kept", 0)
    producer.commit_transaction([(claim, {partition: OffsetAndMetadata(1)})])
    assert [record.value for record in read_from(log, partition)] == [b"kept"]
    log.close()


def test_should_claim_a_thousand_partitions_of_many_owners_at_once(brokers: Brokers, tell: Tell) -> None:
    log, group = KafkaLog(brokers.bootstrap_servers), f"many-{uuid.uuid4().hex[:8]}"
    everything = [TopicPartition(f"{group}-a-store-with-a-long-name-changelog", number) for number in range(1_000)]
    for owner in range(20):
        log.producer(f"{group}-{owner}")
        log.claim(group, everything[owner * 50 : owner * 50 + 50], f"{group}-{owner}")
    log.producer(group)
    begun = time.monotonic()
    claim = log.claim(group, everything, group)
    took_s = time.monotonic() - begun
    assert claim.epochs == dict.fromkeys(everything, 2)
    tell(f"1,000 partitions of 20 owners claimed, and these fenced, in {took_s:.2f} s")
    log.close()


async def _delete(brokers: Brokers, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers)
    await admin.start()
    await admin.delete_topics([topic])
    await admin.close()
