"""The log of an application over TLS with a login, as the application's configs say it."""

from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import NewTopic, OffsetAndMetadata
from streams_runtime.logs.log_errors import LogError
from streams_runtime.logs.opening import open_log
from tests.kafka_client.certificates import Certificates
from tests.kafka_client.test_secured_cluster import properties
from tests.oracle.broker import Broker
from tests.streams_runtime.logs.reading_and_writing import values_of

pytestmark = pytest.mark.kafka

ORDERS = TopicPartition("secured-log-orders", 0)


def configs(secured: Broker, directory: Path, properties: dict[str, str]) -> StreamsConfig:
    return StreamsConfig.from_dotted(
        {
            "application.id": "secured-log",
            "bootstrap.servers": secured.secured_servers,
            "state.dir": directory,
            "replication.factor": 1,
            **properties,
        }
    )


def test_should_read_write_claim_and_commit_over_tls_with_the_login_of_the_application(
    secured: Broker, certificates: Certificates, tmp_path: Path
) -> None:
    given = configs(secured, tmp_path, properties(certificates))
    assert "alice-secret" not in repr(given)
    log = open_log(given.bootstrap_servers, given.log_properties)
    log.create_topics([NewTopic(ORDERS.topic, 1)])
    producer = log.producer("secured-log-0")
    claim = log.claim("secured-log", [ORDERS], "secured-log-0")
    producer.begin_transaction()
    producer.send(ORDERS, b"k", b"1", 0)
    producer.commit_transaction([(claim, {ORDERS: OffsetAndMetadata(1)})])
    assert values_of(log, ORDERS) == [(0, b"1")]
    assert log.committed_offsets("secured-log", [ORDERS]) == {ORDERS: OffsetAndMetadata(1)}
    log.close()


def test_should_name_in_one_line_the_right_that_is_missing(
    secured: Broker, certificates: Certificates, tmp_path: Path
) -> None:
    with_rights = open_log(secured.bootstrap_servers)
    with_rights.create_topics([NewTopic(ORDERS.topic, 1)])
    with_rights.close()
    given = configs(secured, tmp_path, properties(certificates, "bob", "bob-secret"))
    log = open_log(given.bootstrap_servers, given.log_properties)
    for refused in (
        lambda: log.producer("secured-log-0"),
        lambda: log.claim("secured-log", [ORDERS]),
        lambda: log.end_offsets([ORDERS]),
        lambda: log.producer().send(ORDERS, b"k", b"1", 0),
    ):
        with pytest.raises(LogError, match=rf"Kafka at {secured.secured_servers}: .*give the user .* an ACL") as raised:
            refused()
        assert "\n" not in str(raised.value)
    log.close()
