"""Kafka's client properties: what becomes of them, and one clear line for what cannot be used."""

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import InputError
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.errors import KafkaRefused
from kafka_client.settings.client_settings import client_settings, read_properties_file
from tests.kafka_client.refusing_broker import RefusingBroker

SERVERS = "127.0.0.1:9092"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_should_have_kafkas_defaults_when_only_the_address_is_given() -> None:
    settings = client_settings("one:9092, [::1]:9093")

    assert settings.addresses == (("one", 9092), ("::1", 9093))
    assert (settings.request_timeout_s, settings.api_timeout_s) == (30, 60)
    assert settings.client_arguments() == {
        "bootstrap_servers": ["one:9092", "[::1]:9093"],
        "client_id": "assignor",
        "metadata_max_age_ms": 300_000,
        "request_timeout_ms": 30_000,
        "retry_backoff_ms": 100,
        "connections_max_idle_ms": 300_000,
        "security_protocol": "PLAINTEXT",
        "ssl_context": None,
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": None,
        "sasl_plain_password": None,
    }


def test_should_log_in_with_what_the_jaas_config_says() -> None:
    settings = client_settings(
        SERVERS,
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} required\n  username=\'alice\'\n  password="a \\"b\\" ;c" ;',
        },
    )

    arguments = settings.client_arguments()
    assert {key: value for key, value in arguments.items() if key.startswith("sa") or key == "security_protocol"} == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'a "b" ;c',
    }
    assert "alice" not in repr(settings)


def test_should_wait_for_one_request_no_longer_than_for_the_whole_call() -> None:
    settings = client_settings(SERVERS).with_properties({"default.api.timeout.ms": "1500"})

    assert (settings.request_timeout_s, settings.api_timeout_s) == (1.5, 1.5)


@pytest.mark.parametrize("servers", ["", "one", "one:", ":9092", "one:0", "one:65536", "one:9092,,two:9092", "a b:1"])
def test_should_refuse_an_address_that_is_not_host_and_port(servers: str) -> None:
    with pytest.raises(InputError, match=r"^bootstrap\.servers: must be host:port"):
        client_settings(servers)


@pytest.mark.parametrize("user", ["ann:hidden", "hidden", "ann:hid,den"])
def test_should_not_show_a_password_that_stands_in_an_address(user: str) -> None:
    with pytest.raises(InputError, match=r"sasl\.jaas\.config takes, not '\.\.\.@h:9092'") as refused:
        client_settings(f"{user}@h:9092")
    assert "hid" not in str(refused.value)
    with pytest.raises(InputError, match=r"the properties say \.\.\.@h:9092, but") as refused:
        client_settings(SERVERS, {"bootstrap.servers": f"{user}@h:9092"})
    assert "hid" not in str(refused.value)


@pytest.mark.parametrize(
    "properties, message",
    [
        ({"sasl.mechanisms": "PLAIN"}, "unknown property 'sasl.mechanisms'; did you mean 'sasl.mechanism'?"),
        ({"ssl.cipher.suites": "x"}, "'ssl.cipher.suites' is a setting of the Java client"),
        ({"bootstrap.servers": "two:9092"}, f"the properties say two:9092, but the caller says {SERVERS}"),
        ({"security.protocol": "TLS"}, "security.protocol: must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"request.timeout.ms": "1s"}, "request.timeout.ms: must be a whole number of milliseconds"),
        (
            {"request.timeout.ms": "2000", "default.api.timeout.ms": "1000"},
            "default.api.timeout.ms: must be at least request.timeout.ms (2000), not 1000",
        ),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "SCRAM-SHA-512; it is 'GSSAPI'"),
        ({"security.protocol": "SASL_SSL", "ssl.truststore.type": "JKS"}, "sasl.mechanism: must be one of PLAIN"),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "JKS"},
            "ssl.truststore.type: 'JKS' cannot be read here, only PEM; convert the store: keytool -exportcert",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere/ca.pem"},
            "ssl.truststore.location: cannot read /nowhere/ca.pem: No such file or directory",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/dev/null"},
            "ssl.truststore.location: has no line '-----BEGIN CERTIFICATE-----'",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.key": "x"}, "ssl.keystore.certificate.chain: is missing"),
        (
            {"security.protocol": "SSL", "ssl.keystore.password": "hidden"},
            "ssl.keystore.password: a PEM store has no password",
        ),
        (
            {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"},
            "must be one or more of TLSv1.2, TLSv1.3, not 'TLSv1.1'",
        ),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "LDAPS"}, "must be https, or empty"),
    ],
)
def test_should_say_in_one_line_what_is_wrong_with_a_property(properties: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        client_settings(SERVERS, properties)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    "config, message",
    [
        ("", f'must be: {PLAIN} required username="..." password="...";'),
        (f'{PLAIN} required username="alice" password="hidden"', "must be: "),
        (f'{SCRAM} required username="alice" password="hidden";', f"names {SCRAM}, but sasl.mechanism=PLAIN needs: "),
        (f'{PLAIN} required username="alice";', "option 'password' is missing"),
        (f'{PLAIN} required username="a" password="hidden" tokenauth="true";', "option 'tokenauth' is not supported"),
    ],
)
def test_should_never_show_the_jaas_config_when_it_cannot_be_used(config: str, message: str) -> None:
    with pytest.raises(InputError, match=r"^sasl\.jaas\.config: ") as refused:
        client_settings(
            SERVERS, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": config}
        )

    assert message in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_should_read_a_properties_file_as_java_does(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# a comment\n! another\n\n  security.protocol = SASL_SSL\nsasl.mechanism:PLAIN\r\n"
        "sasl.jaas.config=a \\\n   b;\nempty\n"
        "with\\ blank\\=key value with = and \\u00e4 \\t\\q\nback\\\\\nclient.id=x\n"
    )

    assert read_properties_file(file) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "a b;",
        "empty": "",
        "with blank=key": "value with = and ä \tq",
        "back\\": "",
        "client.id": "x",
    }


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_should_read_escaped_characters(tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        raw = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{raw[at]:02x}{raw[at + 1]:02x}" for at in range(0, len(raw), 2))

    file = tmp_path_factory.mktemp("properties") / "client.properties"
    file.write_text("".join(f"{escaped(key)}={escaped(value)}\n" for key, value in properties.items()))

    assert read_properties_file(file) == properties


def test_should_name_file_and_line_when_a_properties_file_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("a=b\n\nc=\\u00g0\n")

    with pytest.raises(InputError, match=rf"^{file}, line 3: \\u must be followed by four hexadecimal digits$"):
        read_properties_file(file)
    with pytest.raises(InputError, match=r"cannot be read: No such file or directory$"):
        read_properties_file(tmp_path / "none")


def test_should_not_show_the_line_of_a_key_that_was_not_continued(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n")

    with pytest.raises(InputError, match="a line has no name of a property: end each line of a longer value"):
        client_settings(SERVERS, read_properties_file(file))


async def test_should_not_log_the_password_of_a_login(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with RefusingBroker() as broker:
        settings = client_settings(
            broker.bootstrap_servers,
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN} required username="alice" password="alice-secret";',
            },
        )
        admin = ClusterAdmin(settings)
        with pytest.raises(KafkaRefused, match="does not accept these credentials"):
            await admin.topics(["orders"])
        await admin.close()

    assert b"alice-secret" in broker.logins[0]
    assert "ApiVersion" in caplog.text, "requests are logged"
    assert "alice-secret" not in caplog.text
