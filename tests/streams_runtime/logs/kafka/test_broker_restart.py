"""The broker is killed and started again during steady work: nothing is lost, and nothing is written twice."""

import time
from collections.abc import Iterator

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import NewTopic, OffsetAndMetadata
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.log_errors import LogTimeout
from tests.oracle.broker import Broker
from tests.streams_runtime.logs.kafka.steady_work import until_answered
from tests.streams_runtime.logs.reading_and_writing import read_from

pytestmark = pytest.mark.kafka

PATIENT = {"transaction.timeout.ms": "60000"}
"""A broker may take its time to start, and its transactions are to go on then."""


@pytest.fixture(scope="module")
def mortal(oracle_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("mortal") / "broker", controller_apart=True)
    broker.start()
    yield broker
    broker.stop()


def test_should_time_out_while_the_broker_is_away_and_go_on_where_it_was(mortal: Broker) -> None:
    log = KafkaLog(mortal.bootstrap_servers, {**PATIENT, "default.api.timeout.ms": "1000"})
    plain, atomic = TopicPartition("plain", 0), TopicPartition("atomic", 0)
    until_answered(lambda: log.create_topics([NewTopic("plain", 1), NewTopic("atomic", 1)]))
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
    until_answered(producer.flush)
    until_answered(lambda: transactional.commit_transaction([(claim, {plain: OffsetAndMetadata(1)})]))
    assert [record.value for record in read_from(log, plain)] == [b"1", b"2"]
    assert [record.value for record in read_from(log, atomic)] == [b"1"]
    assert log.committed_offsets("away", [plain]) == {plain: OffsetAndMetadata(1)}
    log.close()
