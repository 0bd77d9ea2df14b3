"""The broker is killed and started again in the middle of everything: nothing is lost, nothing is there twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import NewTopic, OffsetAndMetadata
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.logs.kafka.log import KafkaLog
from tests.oracle.broker import Broker
from tests.streams_runtime.logs.reading_and_writing import read_from, records_of

pytestmark = pytest.mark.kafka

PATIENT = {"transaction.timeout.ms": "60000"}
"""A broker may take its time to start, and its transactions are to go on then."""


@pytest.fixture(scope="module")
def mortal(oracle_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("mortal") / "broker")
    broker.start()
    yield broker
    broker.stop()


def test_should_lose_and_double_nothing_when_the_broker_is_killed(mortal: Broker) -> None:
    log = KafkaLog(mortal.bootstrap_servers, PATIENT)
    plain, atomic = _new_partitions(log, "killed")
    is_over = threading.Event()

    def produce() -> int:
        producer, number = log.producer(), 0
        while not is_over.is_set():
            for _ in range(20):
                producer.send(plain, b"k", b"%d" % number, 0)
                number += 1
            producer.flush()
        producer.close()
        return number

    def commit() -> int:
        producer, number = log.producer("id"), 0
        claim = log.claim("group", [plain], "id")
        while not is_over.is_set():
            producer.begin_transaction()
            for _ in range(3):
                producer.send(atomic, b"k", b"%d" % number, 0)
            number += 1
            producer.commit_transaction([(claim, {plain: OffsetAndMetadata(number)})])
        return number

    def follow() -> list[bytes | None]:
        consumer = log.consumer()
        consumer.assign([atomic])
        consumer.seek(atomic, 0)
        values: list[bytes | None] = []
        while not is_over.is_set() or (records := records_of(consumer.poll(1_000, 100))):
            records = records_of(consumer.poll(100, 100)) if not is_over.is_set() else records
            values += [record.value for record in records]
        return values

    with ThreadPoolExecutor(3) as threads:
        produced, committed, followed = threads.submit(produce), threads.submit(commit), threads.submit(follow)
        _wait_until_both_grow(log, log.end_offsets([plain, atomic]))
        mortal.kill()
        mortal.start()
        _wait_until_both_grow(log, log.end_offsets([plain, atomic]))
        is_over.set()
        records, transactions, values = produced.result(), committed.result(), followed.result()
    assert [record.value for record in read_from(log, plain)] == [b"%d" % number for number in range(records)]
    expected = [b"%d" % number for number in range(transactions) for _ in range(3)]
    assert [record.value for record in read_from(log, atomic)] == expected
    assert values == expected
    assert log.committed_offsets("group", [plain]) == {plain: OffsetAndMetadata(transactions)}
    log.close()


def test_should_time_out_while_the_broker_is_away_and_go_on_where_it_was(mortal: Broker) -> None:
    log = KafkaLog(mortal.bootstrap_servers, {**PATIENT, "default.api.timeout.ms": "1000"})
    plain, atomic = _new_partitions(log, "away")
    producer, transactional = log.producer(), log.producer("away")
    claim = log.claim("away", [plain], "away")
    producer.send(plain, b"k", b"1", 0)
    producer.flush()
    transactional.begin_transaction()
    transactional.send(atomic, b"k", b"1", 0)
    mortal.kill()
    producer.send(plain, b"k", b"2", 0)
    begun = time.monotonic()
    with pytest.raises(LogTimeout, match=r"within 1 s \(default.api.timeout.ms\)"):
        producer.flush()
    with pytest.raises(LogTimeout):
        transactional.commit_transaction([(claim, {plain: OffsetAndMetadata(1)})])
    with pytest.raises(LogTimeout, match=f"Kafka at {mortal.bootstrap_servers}"):
        log.end_offsets([plain])
    assert time.monotonic() - begun < 10
    mortal.start()
    _until_answered(lambda: producer.flush())
    _until_answered(lambda: transactional.commit_transaction([(claim, {plain: OffsetAndMetadata(1)})]))
    assert [record.value for record in read_from(log, plain)] == [b"1", b"2"]
    assert [record.value for record in read_from(log, atomic)] == [b"1"]
    assert log.committed_offsets("away", [plain]) == {plain: OffsetAndMetadata(1)}
    log.close()


def _new_partitions(log: KafkaLog, test: str) -> tuple[TopicPartition, TopicPartition]:
    """Where records go without a transaction, and within."""
    names = f"{test}-plain", f"{test}-atomic"
    _until_answered(lambda: log.create_topics([NewTopic(name, 1) for name in names]))
    return TopicPartition(names[0], 0), TopicPartition(names[1], 0)


def _until_answered(call: Callable[[], None]) -> None:
    give_up_at = time.monotonic() + 30
    while True:
        try:
            return call()
        except LogTimeout:
            if time.monotonic() > give_up_at:
                raise


def _wait_until_both_grow(log: KafkaLog, before: dict[TopicPartition, int]) -> None:
    give_up_at = time.monotonic() + 30
    while any(end <= before[partition] + 20 for partition, end in log.end_offsets(before).items()):
        assert time.monotonic() < give_up_at, "nothing is written any more"
        time.sleep(0.05)  # nothing tells when others have written
