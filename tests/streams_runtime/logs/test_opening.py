"""`bootstrap.servers` decides which log is opened."""

import uuid
from pathlib import Path

import pytest

from assignor.errors import InputError
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.opening import cluster_address, cluster_provider_name, open_log


def test_should_open_a_directory(tmp_path: Path) -> None:
    log = open_log(f"embedded:{tmp_path}/new:dir/log")
    assert isinstance(log, EmbeddedLog)
    assert (tmp_path / "new:dir" / "log" / "log.sqlite").is_file()
    log.close()


def test_should_share_a_log_in_memory_by_its_name() -> None:
    name = uuid.uuid4().hex
    log = open_log(f"memory:{name}")
    assert isinstance(log, InMemoryLog)
    log.close()
    assert open_log(f"memory:{name}") is log
    assert open_log(f"memory:{name}2") is not log


@pytest.mark.parametrize("address", ["embedded:", "memory:", "embedded", "", "kafka:x", "localhost", "host:port"])
def test_should_say_what_is_allowed_when_it_is_anything_else(address: str) -> None:
    with pytest.raises(
        InputError, match=r"bootstrap\.servers: must be 'host:port,...' of Kafka, or 'embedded:<direc"
    ) as raised:
        open_log(address)
    assert f"not {address!r}" in str(raised.value)


@pytest.mark.parametrize("properties", [None, {"client.id": "a"}])
@pytest.mark.parametrize("user", ["ann:hidden", "hidden", "ann:hidden,hidden", "kafka:hidden"])
def test_should_not_show_a_password_that_stands_in_an_address(user: str, properties: dict[str, str] | None) -> None:
    with pytest.raises(InputError, match=r"'\.\.\.@h:9092,i:9092'") as refused:
        open_log(f"{user}@h:9092,i:9092", properties)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "servers"),
    [
        ("localhost:9092", "localhost:9092"),
        ("kafka:one:1,two:2", "one:1,two:2"),
        ("kafka:9092,broker:9092", "kafka:9092,broker:9092"),
        ("kafka:kafka:9092", "kafka:9092"),
        ("[::1]:9092", "[::1]:9092"),
    ],
)
def test_should_connect_to_kafka_only_when_it_is_asked_for_something(address: str, servers: str) -> None:
    log = open_log(address, {"security.protocol": "PLAINTEXT", "replication.factor": "3"})
    assert isinstance(log, KafkaLog)
    assert log.settings.client.bootstrap_servers == servers
    assert log.settings.replication_factor == 3
    assert cluster_provider_name(address) == "kafka"


def test_should_refuse_properties_that_no_client_of_kafka_has_or_that_the_log_cannot_use(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"linger\.ms: must be a whole number, not 'soon'"):
        open_log("localhost:9092", {"linger.ms": "soon"})
    with pytest.raises(InputError, match=r"'security\.protokol'; did you mean 'security\.protocol'"):
        open_log("localhost:9092", {"security.protokol": "SSL"})
    with pytest.raises(InputError, match=r"'buffer\.memory' is a property of Kafka's clients"):
        open_log(f"embedded:{tmp_path}", {"buffer.memory": "2000000", "linger.ms": "5"})
    with pytest.raises(InputError, match=r"linger\.ms: must be from 0 to 2147483647, not -1"):
        open_log(f"embedded:{tmp_path}", {"linger.ms": "-1"})


@pytest.mark.parametrize("address", ["embedded:log", "embedded:./log", "memory:log", "localhost", "embedded:"])
def test_should_refuse_a_log_that_other_processes_cannot_find(address: str) -> None:
    with pytest.raises(InputError, match=r"bootstrap\.servers: "):
        cluster_provider_name(address)


def test_should_say_that_no_other_process_sees_a_log_in_memory() -> None:
    with pytest.raises(InputError, match="'memory:log' is in the memory of one process, so no other process sees it"):
        cluster_provider_name("memory:log")


def test_should_say_what_a_relative_directory_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cluster_provider_name(f"embedded:{tmp_path}") == "embedded"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"is relative.*'embedded:{tmp_path}/my/log'"):
        cluster_provider_name("embedded:my/log")


def test_should_refuse_an_option_of_an_embedded_log_that_it_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"synchronous='OFF': must be one of NORMAL, FULL"):
        open_log(f"embedded:{tmp_path}/log?synchronous=OFF")
    with pytest.raises(InputError, match="'synchronus' is no option of an embedded log: it has 'synchronous' only"):
        open_log(f"embedded:{tmp_path}/log?synchronus=FULL")
    assert list(tmp_path.iterdir()) == [], "no directory of that name is made"


@pytest.mark.parametrize(
    ("address", "found_by"),
    [
        ("embedded:/log?synchronous=FULL", "embedded:/log"),
        ("embedded:/log/", "embedded:/log/"),
        ("kafka:one:1,two:2", "one:1,two:2"),
        ("memory:a?synchronous=FULL", "memory:a?synchronous=FULL"),
    ],
)
def test_should_tell_others_where_the_log_is_and_not_how_this_process_writes_it(address: str, found_by: str) -> None:
    assert cluster_address(address) == found_by
