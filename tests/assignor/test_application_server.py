"""Endpoints, as `HostInfo` and `application.server` of each Kafka version take them. All messages are Kafka's."""

import pytest

from assignor.configs import AssignmentConfigs
from assignor.configs.application_server import host_of
from assignor.configs.kafka_versions import KafkaVersion
from assignor.errors import ConfigError, KafkaError, NumberFormatError
from assignor.types import HostInfo

V4_3, V4_4 = KafkaVersion.V4_3, KafkaVersion.V4_4
FORMAT_4_3 = (
    "stream-thread []  Config application.server isn't in the correct format. Expected a host:port pair but received"
)
FORMAT = "Error parsing host address {0}. Expected format host:port."
INVALID_4_4 = "Invalid value {0} for configuration application.server: " + FORMAT
PORT_4_3 = (
    "stream-thread []  Invalid port supplied in h:99999999999 for config application.server: "
    'java.lang.NumberFormatException: For input string: "99999999999"'
)


@pytest.mark.parametrize("version", KafkaVersion)
@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("", None),
        (" \t", None),
        ("host:80", HostInfo("host", 80)),
        ("http://host.example:8080", HostInfo("host.example", 8080)),
        ("[::1]:9092", HostInfo("::1", 9092)),
        ("PLAINTEXT://[2001:db8::1]:007", HostInfo("2001:db8::1", 7)),
    ],
)
def test_should_read_an_endpoint_as_kafka_does(endpoint: str, expected: HostInfo | None, version: KafkaVersion) -> None:
    assert host_of(endpoint, version) == expected


def test_should_take_an_endpoint_without_a_host_in_4_3_only() -> None:
    assert host_of(":1", V4_3) == HostInfo("", 1)
    with pytest.raises(ConfigError, match=r"Error parsing host address :1\. Expected format host:port\."):
        host_of(":1", V4_4)


@pytest.mark.parametrize(
    ("endpoint", "version", "error", "message"),
    [
        ("host", V4_3, ConfigError, FORMAT),
        ("host:", V4_4, ConfigError, FORMAT),
        ("ho st:1", V4_3, ConfigError, FORMAT),
        ("h:9999999999", V4_3, NumberFormatError, 'For input string: "9999999999"'),
        ("h:9999999999", V4_4, ConfigError, FORMAT),
    ],
)
def test_should_refuse_an_endpoint_that_is_not_host_and_port(
    endpoint: str, version: KafkaVersion, error: type[KafkaError], message: str
) -> None:
    with pytest.raises(error) as caught:
        host_of(endpoint, version)
    assert str(caught.value) == message.format(endpoint)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"application.server": "host"}, f"{FORMAT_4_3} host"),
        ({"application.server": "h:99999999999"}, PORT_4_3),
        ({"application.server": "host", "kafka.version": "4.4"}, INVALID_4_4.format("host")),
        ({"application.server": ":1", "kafka.version": "4.4"}, INVALID_4_4.format(":1")),
        ({"application.server": "h:99999999999", "kafka.version": "4.4"}, INVALID_4_4.format("h:99999999999")),
    ],
)
def test_should_refuse_the_config_with_the_message_of_its_version(configs: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AssignmentConfigs.from_dotted(configs).check()
    assert str(caught.value) == message


@pytest.mark.parametrize(("version", "first"), [("4.3", "upgrade.from"), ("4.4", "application.server")])
def test_should_check_the_configs_in_the_order_of_the_version(version: str, first: str) -> None:
    configs = {"application.server": "host", "upgrade.from": "0.9", "kafka.version": version}
    with pytest.raises(ConfigError, match=f"for configuration {first}:"):
        AssignmentConfigs.from_dotted(configs).check()


@pytest.mark.parametrize("endpoint", [" h:1 ", ":8080", "   ", ""])
def test_should_take_these_in_4_3(endpoint: str) -> None:
    AssignmentConfigs.from_dotted({"application.server": endpoint}).check()
