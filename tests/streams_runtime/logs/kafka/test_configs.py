"""What an application's configs may say to Kafka's clients, and what they must not."""

import pytest

from assignor.errors import InputError
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.kafka.log_settings import log_settings

KAFKA = {"application.id": "app", "bootstrap.servers": "127.0.0.1:9092"}


def test_should_hand_client_properties_and_the_replication_of_topics_to_the_log() -> None:
    given = {"security.protocol": "PLAINTEXT", "request.timeout.ms": 5_000, "linger.ms": 3, "replication.factor": 3}
    configs = StreamsConfig.from_dotted({**KAFKA, **given})
    assert configs.log_properties == {key: str(value) for key, value in given.items()}
    assert configs.assignment == {"replication.factor": 3}


def test_should_refuse_client_properties_for_a_log_that_has_no_clients() -> None:
    with pytest.raises(
        InputError,
        match=r"'buffer\.memory' is a property of Kafka's clients, "
        r"but bootstrap\.servers 'embedded:/a/log' is not a Kafka cluster",
    ):
        StreamsConfig.from_dotted({**KAFKA, "bootstrap.servers": "embedded:/a/log", "buffer.memory": 2_000_000})
    embedded = StreamsConfig.from_dotted({**KAFKA, "bootstrap.servers": "embedded:/a/log", "replication.factor": 3})
    assert embedded.log_properties == {}


def test_should_let_records_wait_for_linger_ms_on_every_log() -> None:
    for servers in ("127.0.0.1:9092", "embedded:/a/log"):
        given = {**KAFKA, "bootstrap.servers": servers}
        assert StreamsConfig.from_dotted(given).linger_ms == log_settings("127.0.0.1:9092").linger_ms == 100
        assert StreamsConfig.from_dotted({**given, "linger.ms": 3}).linger_ms == 3
        with pytest.raises(InputError, match=r"linger\.ms"):
            StreamsConfig.from_dotted({**given, "linger.ms": -1})


def test_should_refuse_transactions_that_the_brokers_would_abort_before_they_are_committed() -> None:
    exactly_once = {**KAFKA, "processing.guarantee": "exactly_once_v2", "commit.interval.ms": 20_000}
    with pytest.raises(InputError, match=r"transaction\.timeout\.ms \(10000\) must not be lower than commit\.interval"):
        StreamsConfig.from_dotted(exactly_once)
    longer = StreamsConfig.from_dotted({**exactly_once, "transaction.timeout.ms": 30_000})
    assert longer.effective_commit_interval_ms == 20_000


def test_should_name_a_property_that_cannot_be_used_before_anything_starts() -> None:
    with pytest.raises(InputError, match=r"security\.protocol: must be one of PLAINTEXT"):
        StreamsConfig.from_dotted({**KAFKA, "security.protocol": "TLS"})


def test_should_have_each_setting_of_the_log_under_its_own_name() -> None:
    properties = {
        "compression.type": "zstd",
        "replication.factor": "3",
        "transaction.timeout.ms": "5",
        "linger.ms": "6",
        "buffer.memory": "2000000",
        "max.partition.fetch.bytes": "8",
        "fetch.max.bytes": "9",
    }
    found = log_settings("127.0.0.1:9092", properties)
    assert (found.codec, found.replication_factor, found.transaction_timeout_ms, found.linger_ms) == (4, 3, 5, 6)
    assert (found.buffer_memory, found.max_partition_fetch_bytes, found.fetch_max_bytes) == (2_000_000, 8, 9)
