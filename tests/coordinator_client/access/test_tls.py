"""Which files of certificates are refused and in which words, and what is warned of."""

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from assignor.errors import InputError
from coordinator_client.access.tls import client_context, server_context, server_tls
from tests.known import known
from tests.tls_certificates import Authority


def refusal(certfile: Path | None, keyfile: Path | None = None, password: str | None = None, **more: object) -> str:
    """The error."""
    settings = {"ca_certs": None, "cert_reqs": "none", **more}

    with pytest.raises(InputError) as refused:
        server_context(known(server_tls(certfile, keyfile, password, **settings)))  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)
    return str(refused.value)


def never() -> None:
    raise AssertionError("no context is needed")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def test_should_name_the_file_that_cannot_be_used(authority: Authority, tmp_path: Path) -> None:
    good = authority.issue("server", for_servers=True)
    other = authority.issue("other", for_servers=True)
    text = tmp_path / "text.pem"
    text.write_text("no certificate")

    assert refusal(Path("nowhere.pem")) == "ssl.certfile: nowhere.pem cannot be read: No such file or directory"
    assert refusal(text) == f"ssl.certfile: {text} is no PEM file with a certificate"
    assert refusal(good, text) == f"ssl.keyfile: {text} is no PEM file with a private key"
    assert refusal(good, other) == f"ssl.keyfile: the key of {other} does not belong to {good}"
    assert refusal(good, ca_certs=text).startswith(f"ssl.ca.certs: {text} is no PEM file of certificates (")


def test_should_ask_for_the_password_of_an_encrypted_key_and_not_show_a_wrong_one(authority: Authority) -> None:
    locked = authority.issue("locked", for_servers=True, password="key-secret")

    assert refusal(locked) == f"ssl.certfile: {locked} is encrypted: set ssl.keyfile.password"
    assert refusal(locked, password="wrong-secret") == f"ssl.keyfile.password: is not the password of {locked}"
    tls = known(server_tls(locked, None, "key-secret", None, "none"))
    server_context(tls)
    assert "key-secret" not in repr(tls)


def test_should_refuse_a_certificate_that_is_not_valid_now_or_not_made_for_a_service(authority: Authority) -> None:
    late = authority.issue("late", for_servers=True, ends=timedelta(hours=-1))
    early = authority.issue("early", for_servers=True, begins=timedelta(hours=1))
    of_client = authority.issue("of-client")

    assert refusal(late).startswith(f"ssl.certfile: {late}: the certificate ran out (")
    assert refusal(early).startswith(f"ssl.certfile: {early}: the certificate is not valid before ")
    assert refusal(of_client).startswith(f"ssl.certfile: {of_client} cannot be the certificate of a service (")


def test_should_say_which_settings_do_not_go_together(authority: Authority) -> None:
    assert "ssl.cert.reqs: required needs ssl.ca.certs" in refusal(authority.file, cert_reqs="required")
    assert refusal(None, authority.file).startswith("ssl.keyfile: needs ssl.certfile")
    assert refusal(None, cert_reqs="optional").startswith("ssl.cert.reqs: needs ssl.certfile")


def test_should_warn_of_an_end_and_of_a_key_that_all_can_read(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    soon = authority.issue("soon", for_servers=True, begins=timedelta(days=-90), ends=timedelta(days=10))
    of_a_day = authority.issue("of-a-day", for_servers=True, begins=timedelta(), ends=timedelta(days=1))
    soon.chmod(0o644)

    for each in (soon, of_a_day):
        server_context(known(server_tls(each, None, None, None, "none")))

    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warned) == 2
    assert f"{soon}: every user of this machine can read the private key" in warned[0]
    assert f"{soon}: the certificate runs out (" in warned[1]


def test_should_read_a_clients_files_at_once_for_https_only(tmp_path: Path) -> None:
    variables = {"ASSIGNOR_CLIENT_CERTFILE": str(tmp_path / "nowhere.pem")}

    client_context("http://127.0.0.1", never, variables)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"SSL_CERT_FILE: .*nowhere.pem cannot be read"):
        client_context("https://127.0.0.1", never, {"SSL_CERT_FILE": str(tmp_path / "nowhere.pem")})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ASSIGNOR_CLIENT_KEYFILE: needs ASSIGNOR_CLIENT_CERTFILE"):
        client_context("https://127.0.0.1", never, {"ASSIGNOR_CLIENT_KEYFILE": "a.key"})  # type: ignore[arg-type]
