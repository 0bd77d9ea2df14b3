"""A broker that wants TLS and a login: who may come in, who may do what, and one clear line for everyone else."""

import asyncio
import time
from pathlib import Path

import pytest

from assignor.topology.cluster import Broker as Node
from assignor.topology.cluster import TopicMetadata
from assignor.topology.internal_topics import CreatedTopic
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.cluster_provider import CLIENT_CONFIG, kafka_cluster_provider
from kafka_client.errors import KafkaRefused, KafkaUnavailable
from kafka_client.settings.client_settings import ClientSettings, client_settings
from tests.kafka_client.certificates import Certificates
from tests.kafka_client.definitions import definition_of
from tests.oracle.broker import Broker

pytestmark = pytest.mark.kafka

_SECURITY = "org.apache.kafka.common.security"
_LONGEST_REFUSAL_S = 10


def login(module: str, user: str, password: str) -> str:
    return f'{_SECURITY}.{module}LoginModule required username="{user}" password="{password}";'


def properties(certificates: Certificates, user: str = "alice", password: str = "alice-secret") -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login("plain.Plain", user, password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
    }


def refusal(settings: ClientSettings) -> str:
    """The error appears at once, not after the time-out."""

    async def ask() -> None:
        async with ClusterAdmin(settings) as admin:
            await admin.topics()

    began = time.monotonic()
    with pytest.raises(KafkaRefused) as refused:
        asyncio.run(ask())
    assert time.monotonic() - began < _LONGEST_REFUSAL_S
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_should_serve_a_coordinator_whose_client_config_has_the_right_credentials(
    secured: Broker, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in properties(certificates).items()))
    monkeypatch.setenv(CLIENT_CONFIG, str(config))
    provider = kafka_cluster_provider(secured.secured_servers)

    provider.create_topics({"secured-orders": CreatedTopic(2, -1, {})})
    view = provider.view("group", definition_of("secured"))
    provider.close()

    assert view.cluster.topics == {"secured-orders": TopicMetadata(2, ((1,), (1,)), (1, 1))}
    assert view.failures == frozenset()


async def test_should_log_in_by_scram(secured: Broker, certificates: Certificates) -> None:
    scram = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": login("scram.Scram", "alice", "scram-secret")}

    async with ClusterAdmin(client_settings(secured.secured_servers, {**properties(certificates), **scram})) as admin:
        assert await admin.brokers() == (Node(1, "eu-1a"),)


@pytest.mark.parametrize(
    "wrong, what_to_check",
    [
        (
            {"sasl.jaas.config": login("plain.Plain", "alice", "guessed")},
            "does not accept these credentials (Authentication failed: Invalid username or password): "
            "check security.protocol, sasl.mechanism and sasl.jaas.config",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login("scram.Scram", "alice", "guessed")},
            "does not support this SASL mechanism: check sasl.mechanism",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": login("scram.Scram", "alice", "guessed")},
            "does not accept these credentials (Authentication failed during authentication due to invalid credentials "
            "with SASL mechanism SCRAM-SHA-512): check security.protocol, sasl.mechanism and sasl.jaas.config",
        ),
        (
            {"ssl.truststore.location": ""},
            "has a certificate that is not trusted (unable to get local issuer certificate): "
            "check ssl.truststore.location, and for its name ssl.endpoint.identification.algorithm",
        ),
    ],
)
def test_should_refuse_in_one_line_that_names_what_to_check(
    secured: Broker, certificates: Certificates, wrong: dict[str, str], what_to_check: str
) -> None:
    said = refusal(client_settings(secured.secured_servers, {**properties(certificates), **wrong}))

    assert said.startswith(f"Kafka at {secured.secured_servers}: topics: {secured.secured_servers} ")
    assert what_to_check in said
    assert "guessed" not in said


def test_should_name_the_protocol_when_a_login_meets_a_port_without(
    secured: Broker, certificates: Certificates
) -> None:
    plain = {**properties(certificates), "security.protocol": "SASL_PLAINTEXT"}

    said = refusal(client_settings(secured.bootstrap_servers, plain))

    assert said.endswith(f"{secured.bootstrap_servers} does not expect a SASL login: check security.protocol")


@pytest.mark.parametrize("speaks_tls", [True, False])
async def test_should_name_the_security_protocol_when_one_side_speaks_tls_and_the_other_hangs_up(
    secured: Broker, certificates: Certificates, speaks_tls: bool
) -> None:
    address = secured.bootstrap_servers if speaks_tls else secured.secured_servers
    spoken = properties(certificates) if speaks_tls else {}
    settings = client_settings(address, {**spoken, "default.api.timeout.ms": "2000"})

    async with ClusterAdmin(settings) as admin:
        with pytest.raises(KafkaUnavailable) as unavailable:
            await admin.topics()
    assert str(unavailable.value) == (
        f"Kafka at {address}: topics: no answer within 2 s (default.api.timeout.ms); last error: {address} closed the "
        "connection; check the address, security.protocol, and that the brokers run"
    )


async def test_should_name_the_right_that_a_user_lacks(secured: Broker, certificates: Certificates) -> None:
    settings = client_settings(secured.secured_servers, properties(certificates, "bob", "bob-secret"))

    address = f"Kafka at {secured.secured_servers}:"
    async with ClusterAdmin(settings) as admin:
        for question, what in (
            (admin.topics(["secret-orders"]), "topics secret-orders: topic secret-orders: no right to use this topic"),
            (admin.describe_group("secret-group"), "group secret-group: its coordinator: no right to use this group"),
            (
                admin.create_topics({"secret-orders": CreatedTopic(1, -1, {})}),
                "creating topics secret-orders: topic secret-orders: no right to use this topic",
            ),
        ):
            with pytest.raises(KafkaRefused) as refused:
                await question
            assert str(refused.value) == f"{address} {what}; give the user of these credentials an ACL for it"
