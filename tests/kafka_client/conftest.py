"""A second broker, for what the common one cannot show: a rack, TLS, logins, rights, and dying in the middle."""

from collections.abc import Iterator

import pytest

from tests.kafka_client.certificates import Certificates, make_certificates
from tests.oracle.broker import Broker

_SECURITY = "org.apache.kafka.common.security"
_LISTENER = "listener.name.secured"


@pytest.fixture(scope="package")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="package")
def secured(oracle_jars: str, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """alice may do everything, bob nothing; both log in by PLAIN, alice by SCRAM, too. Who comes by the port
    without TLS may do everything.
    """
    users = 'username="broker" password="broker-secret" user_alice="alice-secret" user_bob="bob-secret"'
    broker = Broker(
        tmp_path_factory.mktemp("secured") / "broker",
        {
            "broker.rack": "eu-1a",
            f"{_LISTENER}.ssl.keystore.type": "PEM",
            f"{_LISTENER}.ssl.keystore.location": str(certificates.broker),
            f"{_LISTENER}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{_LISTENER}.scram-sha-512.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
            f"{_LISTENER}.plain.sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:alice;User:ANONYMOUS",
        },
        secured="SASL_SSL",
        scram=["SCRAM-SHA-512=[name=alice,password=scram-secret]"],
    )
    broker.start()
    yield broker
    broker.stop()
