"""A handshake in memory between a client with Kafka's `ssl.*` properties and a server that wants a certificate."""

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from assignor.errors import InputError
from kafka_client.settings.client_settings import client_settings
from tests.kafka_client.certificates import Certificates, make_certificates

PASSWORD = "key-secret"
Given = Callable[[Certificates], dict[str, str]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"), PASSWORD)


def client_name(certificates: Certificates, properties: Mapping[str, str], server_name: str = "127.0.0.1") -> str:
    """Return the server's view of the client after a complete handshake. Raises ssl.SSLError of either side."""
    client_context = client_settings("127.0.0.1:1", {"security.protocol": "SSL", **properties}).client_arguments()[
        "ssl_context"
    ]
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(certificates.broker)
    server_context.load_verify_locations(certificates.authority)
    server_context.verify_mode = ssl.CERT_REQUIRED
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=server_name)
    for _ in range(5):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    subject = dict(pair for group in (server.getpeercert() or {})["subject"] for pair in group)  # type: ignore[misc]
    return str(subject["commonName"])


def in_one_line(pem: str) -> str:
    """As a properties file with continued lines gives it."""
    return " ".join(pem.split("\n"))


def in_files(certificates: Certificates) -> dict[str, str]:
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.client),
        "ssl.key.password": PASSWORD,
    }


def in_properties(certificates: Certificates) -> dict[str, str]:
    key, _, chain = certificates.client.read_text().partition("-----BEGIN CERTIFICATE")
    return {
        "ssl.truststore.certificates": in_one_line(certificates.authority.read_text()),
        "ssl.keystore.key": in_one_line(key),
        "ssl.keystore.certificate.chain": in_one_line("-----BEGIN CERTIFICATE" + chain),
        "ssl.key.password": PASSWORD,
        "ssl.enabled.protocols": "TLSv1.2",
    }


@pytest.mark.parametrize("given", [in_files, in_properties])
def test_should_show_its_certificate(
    certificates: Certificates, given: Callable[[Certificates], dict[str, str]]
) -> None:
    assert client_name(certificates, given(certificates)) == "client"


def test_should_refuse_a_key_whose_password_is_wrong_without_showing_it(certificates: Certificates) -> None:
    properties = {"ssl.keystore.location": str(certificates.client)}

    for more in ({"ssl.key.password": "wrong-secret"}, {}):
        with pytest.raises(
            InputError, match=r"^ssl\.keystore\.location: cannot be used: .*ssl\.key\.password"
        ) as refused:
            client_name(certificates, {**properties, **more})
        assert "wrong-secret" not in str(refused.value)


def test_should_not_trust_another_authority(certificates: Certificates, tmp_path: Path) -> None:
    other = make_certificates(tmp_path)

    with pytest.raises(
        ssl.SSLCertVerificationError, match=r"self-signed certificate in certificate chain|unable to get"
    ):
        client_name(certificates, {"ssl.truststore.location": str(other.authority)})


def test_should_check_the_name_of_the_broker_unless_it_is_switched_off(certificates: Certificates) -> None:
    properties = in_files(certificates)

    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
        client_name(certificates, properties, "elsewhere.example")
    unchecked = {**properties, "ssl.endpoint.identification.algorithm": ""}
    assert client_name(certificates, unchecked, "elsewhere.example") == "client"
