"""The broker is killed and started again in the middle of everything: nothing is lost, nothing is there twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import NewTopic, OffsetAndMetadata
from streams_runtime.logs.errors import LogTimeout
from streams_runtime.logs.kafka.log import KafkaLog
from tests.oracle.broker import Broker
from tests.streams_runtime.logs.reading_and_writing import read_from, records_of

pytestmark = pytest.mark.kafka

PLAIN, ATOMIC = TopicPartition("plain", 0), TopicPartition("atomic", 0)


@pytest.fixture
def mortal(oracle_jars: str, tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path / "broker")
    broker.start()
    yield broker
    broker.stop()


def test_should_lose_and_double_nothing_when_the_broker_is_killed_again_and_again(mortal: Broker) -> None:
    log = KafkaLog(mortal.bootstrap_servers, {"transaction.timeout.ms": "60000"})  # a start may take its time here
    log.create_topics([NewTopic("plain", 1), NewTopic("atomic", 1)])
    is_over = threading.Event()

    def produce() -> int:
        producer, number = log.producer(), 0
        while not is_over.is_set():
            for _ in range(20):
                producer.send(PLAIN, b"k", b"%d" % number, 0)
                number += 1
            producer.flush()
        producer.close()
        return number

    def commit() -> int:
        producer, number = log.producer("id"), 0
        claim = log.claim("group", [PLAIN], "id")
        while not is_over.is_set():
            producer.begin_transaction()
            for _ in range(3):
                producer.send(ATOMIC, b"k", b"%d" % number, 0)
            number += 1
            producer.commit_transaction([(claim, {PLAIN: OffsetAndMetadata(number)})])
        return number

    def follow() -> list[bytes | None]:
        consumer = log.consumer()
        consumer.assign([ATOMIC])
        consumer.seek(ATOMIC, 0)
        values: list[bytes | None] = []
        while not is_over.is_set() or (records := records_of(consumer.poll(1_000, 100))):
            records = records_of(consumer.poll(100, 100)) if not is_over.is_set() else records
            values += [record.value for record in records]
        return values

    with ThreadPoolExecutor(3) as threads:
        produced, committed, followed = (threads.submit(each) for each in (produce, commit, follow))
        for _ in range(2):
            before = log.end_offsets([PLAIN, ATOMIC])
            _wait_until_both_grow(log, before)
            mortal.kill()
            mortal.start()
        _wait_until_both_grow(log, log.end_offsets([PLAIN, ATOMIC]))
        is_over.set()
        plain, atomic = produced.result(), committed.result()
        values = followed.result()
    assert [record.value for record in read_from(log, PLAIN)] == [b"%d" % number for number in range(plain)]
    expected = [b"%d" % number for number in range(atomic) for _ in range(3)]
    assert [record.value for record in read_from(log, ATOMIC)] == expected
    assert values == expected
    assert log.committed_offsets("group", [PLAIN]) == {PLAIN: OffsetAndMetadata(atomic)}
    log.close()


def test_should_time_out_while_the_broker_is_away_and_go_on_where_it_was(mortal: Broker) -> None:
    log = KafkaLog(mortal.bootstrap_servers, {"default.api.timeout.ms": "1000", "transaction.timeout.ms": "60000"})
    log.create_topics([NewTopic("plain", 1), NewTopic("atomic", 1)])
    producer, atomic = log.producer(), log.producer("id")
    claim = log.claim("group", [PLAIN], "id")
    producer.send(PLAIN, b"k", b"1", 0)
    producer.flush()
    atomic.begin_transaction()
    atomic.send(ATOMIC, b"k", b"1", 0)
    mortal.kill()
    producer.send(PLAIN, b"k", b"2", 0)
    begun = time.monotonic()
    with pytest.raises(LogTimeout, match=r"within 1 s \(default.api.timeout.ms\)"):
        producer.flush()
    with pytest.raises(LogTimeout):
        atomic.commit_transaction([(claim, {PLAIN: OffsetAndMetadata(1)})])
    with pytest.raises(LogTimeout, match=f"Kafka at {mortal.bootstrap_servers}"):
        log.end_offsets([PLAIN])
    assert time.monotonic() - begun < 10
    mortal.start()
    _until_answered(lambda: producer.flush())
    _until_answered(lambda: atomic.commit_transaction([(claim, {PLAIN: OffsetAndMetadata(1)})]))
    assert [record.value for record in read_from(log, PLAIN)] == [b"1", b"2"]
    assert [record.value for record in read_from(log, ATOMIC)] == [b"1"]
    assert log.committed_offsets("group", [PLAIN]) == {PLAIN: OffsetAndMetadata(1)}
    log.close()


def _until_answered(call: object) -> None:
    give_up_at = time.monotonic() + 30
    while True:
        try:
            return call()  # type: ignore[operator,no-any-return]
        except LogTimeout:
            if time.monotonic() > give_up_at:
                raise


def _wait_until_both_grow(log: KafkaLog, before: dict[TopicPartition, int]) -> None:
    give_up_at = time.monotonic() + 30
    while any(end <= before[partition] + 20 for partition, end in log.end_offsets(before).items()):
        assert time.monotonic() < give_up_at, "nothing is written any more"
        time.sleep(0.05)  # nothing tells when others have written
