"""A coordinator behind a proxy that ends TLS: commands and members trust the authority that SSL_CERT_FILE names."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_runtime.membership.calls import CoordinatorUnavailable
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests import warm_program
from tests.coordinator_api.service_process import ServiceProcess, clean_environment
from tests.kafka_client.certificates import Certificates, make_certificates

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on this machine"),
]


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "certificates")


@pytest.fixture
def url(service: ServiceProcess, certificates: Certificates) -> Iterator[str]:
    """Of a proxy in front of the service, with one connection behind it for each before it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker)
    behind = int(service.url.rpartition(":")[2])
    with context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True) as listening:
        threading.Thread(target=relay_all, args=(listening, behind), daemon=True).start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)  # which ends its thread


def relay_all(listening: ssl.SSLSocket, behind: int) -> None:
    while True:
        try:
            before, _ = listening.accept()
        except ssl.SSLError:  # a caller that does not trust us
            continue
        except OSError:
            return
        after = socket.create_connection(("127.0.0.1", behind))
        for source, target in ((before, after), (after, before)):
            threading.Thread(target=relay, args=(source, target), daemon=True).start()


def relay(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def test_should_let_commands_trust_the_authority_that_the_environment_names(
    url: str, certificates: Certificates, tmp_path: Path
) -> None:
    def listed(**variables: str) -> tuple[int, str]:
        command = ("groups", "list", "--coordinator", url)
        ended = warm_program.run(command, cwd=tmp_path, environment=clean_environment(variables))
        return ended.returncode, ended.stderr

    code, said = listed()
    assert code == 2
    assert said.startswith(f"error: {url}: its certificate is not trusted (")
    assert said.endswith("): have SSL_CERT_FILE name its authority\n")
    assert listed(SSL_CERT_FILE=str(certificates.authority)) == (0, "")


def test_should_let_members_trust_it(url: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    with CoordinatorClient(url) as stranger, pytest.raises(CoordinatorUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        stranger.group_ids()

    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    with CoordinatorClient(url) as member:
        assert isinstance(member.group_ids(), list)
