"""A coordinator that speaks TLS itself: whom it lets in, and how it takes new files."""

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from streams_runtime.membership.calls import CoordinatorUnavailable
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests import warm_program
from tests.coordinator_api.group_members import HttpMember, new_group, settle, settled_member
from tests.coordinator_api.http.hostile_callers import wait_for
from tests.coordinator_api.service_process import ServiceProcess, clean_environment
from tests.tls_certificates import Authority, put, serial_in, serial_number

SHORTLY = timedelta(seconds=8)


class Site:
    """A coordinator that requires certificates, its authorities, and a client of it."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory, "authority")
        self.second = Authority(directory, "second")
        self.foreign = Authority(directory, "foreign")
        self.certfile = self.authority.issue("server", for_servers=True)
        self.callers = directory / "callers.pem"
        self.trust_both()
        self.client = self.authority.issue("client")
        flags = (
            *("--ssl-certfile", str(self.certfile)),
            *("--ssl-ca-certs", str(self.callers)),
            *("--ssl-cert-reqs", "required"),
            *("--group-initial-rebalance-delay-ms", "0"),
        )
        self.service = ServiceProcess(directory, *flags)

    def trust_both(self) -> None:
        put(self.callers, self.authority.file.read_bytes() + self.second.file.read_bytes())

    def context(self, client: Path | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.file)
        if client is not None:
            context.load_cert_chain(client)
        return context

    def http(self, client: Path | None) -> httpx.Client:
        return httpx.Client(base_url=self.service.url, timeout=60, trust_env=False, verify=self.context(client))

    def answers(self, client: Path | None) -> str:
        """`ok`, or why the handshake failed."""
        try:
            with self.http(client) as http:
                return str(http.get("/livez").json()["status"])
        except httpx.TransportError as error:
            return str(error)

    def connect(self, client: Path | None = None) -> ssl.SSLSocket:
        address = httpx.URL(self.service.url)
        plain = socket.create_connection((address.host, address.port or 0), timeout=60)
        return self.context(client or self.client).wrap_socket(plain, server_hostname=address.host)

    def serial(self) -> int:
        """Of the certificate that a new connection sees."""
        with self.connect() as connection:
            return serial_number(connection.getpeercert(binary_form=True))

    def has_logged(self, text: str) -> bool:
        return any(text in line for line in self.service.log)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("tls"))
    with made.service:
        yield made


@pytest.fixture
def client_variables(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(site.authority.file))
    monkeypatch.setenv("ASSIGNOR_CLIENT_CERTFILE", str(site.client))


def test_should_answer_only_callers_with_a_valid_certificate_of_its_authority(site: Site) -> None:
    expired = site.authority.issue("expired", ends=timedelta(hours=-1))
    server_only = site.authority.issue("server-only", for_servers=True)

    assert site.service.url.startswith("https://")
    assert site.answers(site.client) == "ok"
    assert site.answers(site.second.issue("second-client")) == "ok"
    assert "ALERT_CERTIFICATE_REQUIRED" in site.answers(None)
    assert "ALERT_UNKNOWN_CA" in site.answers(site.foreign.issue("stranger"))
    assert "ALERT_CERTIFICATE_EXPIRED" in site.answers(expired)
    assert "ALERT_UNSUPPORTED_CERTIFICATE" in site.answers(server_only)


@pytest.mark.usefixtures("client_variables")
def test_should_be_found_healthy_by_the_check_of_its_image(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    containerfile = (Path(__file__).parents[2] / "deploy" / "Containerfile").read_text(encoding="utf-8")
    _, _, check = next(line for line in containerfile.splitlines() if line.startswith("HEALTHCHECK")).partition("CMD ")
    _, *arguments = [word.replace("8080", str(httpx.URL(site.service.url).port)) for word in json.loads(check)]
    monkeypatch.setenv("ASSIGNOR_SSL_CERTFILE", str(site.certfile))

    over_tls = subprocess.run([sys.executable, *arguments], timeout=60)
    monkeypatch.delenv("ASSIGNOR_CLIENT_CERTFILE")
    without_certificate = subprocess.run([sys.executable, *arguments], capture_output=True, timeout=60)

    assert over_tls.returncode == 0
    assert without_certificate.returncode != 0


def test_should_show_a_new_certificate_to_new_connections_and_keep_the_old_ones(site: Site) -> None:
    before = site.serial()
    with site.http(site.client) as http:
        assert http.get("/livez").status_code == 200
        (connection,) = http._transport._pool.connections  # type: ignore[attr-defined]
        site.authority.issue("server", for_servers=True, to=site.certfile)
        wait_for(lambda: site.serial() == serial_in(site.certfile))
        assert http.get("/livez").status_code == 200
        assert http._transport._pool.connections == [connection]  # type: ignore[attr-defined]
    assert site.serial() != before


def test_should_keep_the_old_certificate_while_the_new_file_is_broken_and_say_so_once(site: Site) -> None:
    good, before = site.certfile.read_bytes(), site.serial()
    warning = f"{site.certfile} is no PEM file with a certificate; the files before stay in force"

    put(site.certfile, b"half of a fi")
    wait_for(lambda: site.has_logged(warning))
    assert site.serial() == before

    put(site.certfile, good)
    site.authority.issue("server", for_servers=True, to=site.certfile)
    wait_for(lambda: site.serial() == serial_in(site.certfile))
    assert sum(warning in line for line in site.service.log) == 1


def test_should_refuse_the_clients_of_an_authority_that_was_taken_out(site: Site) -> None:
    second = site.second.issue("second-client")
    with site.http(second) as open_before:
        assert open_before.get("/livez").status_code == 200

        put(site.callers, site.authority.file.read_bytes())
        wait_for(lambda: "ALERT_UNKNOWN_CA" in site.answers(second))

        assert site.answers(site.client) == "ok"
        assert open_before.get("/livez").status_code == 200
    site.trust_both()
    wait_for(lambda: site.answers(second) == "ok")


@pytest.mark.long
@pytest.mark.usefixtures("client_variables")
def test_should_be_refused_by_clients_when_its_certificate_ran_out_until_it_gets_another(site: Site) -> None:
    site.authority.issue("server", for_servers=True, to=site.certfile, ends=SHORTLY)
    wait_for(lambda: site.serial() == serial_in(site.certfile))
    said: list[str] = []

    def is_refused() -> bool:
        try:
            with CoordinatorClient(site.service.url) as member:
                member.group_ids()
        except CoordinatorUnavailable as error:
            said.append(str(error))
        return bool(said)

    wait_for(is_refused)
    assert "its certificate has run out (" in said[0]
    wait_for(lambda: site.has_logged("the certificate has run out, and callers refuse it"))

    site.authority.issue("server", for_servers=True, to=site.certfile)
    wait_for(lambda: site.answers(site.client) == "ok")
    with CoordinatorClient(site.service.url) as member:
        assert isinstance(member.group_ids(), list)


def test_should_lose_no_heartbeat_while_files_are_replaced(site: Site) -> None:
    """Half of them over connections that stay, and half over new ones."""
    stop = threading.Event()
    with site.http(site.client) as http:
        member = settled_member(http, session_timeout_ms=600_000)
        statuses: list[int] = []
        errors: list[Exception] = []

        def beat() -> None:
            try:
                while not stop.is_set():
                    statuses.append(member.heartbeat().status_code)
                    if len(statuses) % 20 == 0:
                        statuses.append(200 if site.answers(site.client) == "ok" else 0)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=beat) for _ in range(4)]
        for each in threads:
            each.start()
        for _ in range(3):
            site.authority.issue("server", for_servers=True, to=site.certfile)
            wait_for(lambda: site.serial() == serial_in(site.certfile))
        wait_for(lambda: len(statuses) >= 200 or bool(errors))
        stop.set()
        for each in threads:
            each.join(60)
    assert not errors
    assert set(statuses) == {200}


@pytest.mark.long
@pytest.mark.usefixtures("client_variables")
def test_should_take_a_new_client_certificate(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = site.authority.issue("member", to=tmp_path / "member.pem", ends=SHORTLY)
    monkeypatch.setenv("ASSIGNOR_CLIENT_CERTFILE", str(own))
    with CoordinatorClient(site.service.url) as member:
        assert isinstance(member.group_ids(), list)
        pool = member._http._shared._transport._pool  # type: ignore[union-attr]
        wait_for(lambda: "EXPIRED" in site.answers(own))
        pool.close()
        with pytest.raises(CoordinatorUnavailable, match="it says that the client certificate has run out"):
            member.group_ids()

        site.authority.issue("member", to=own)
        wait_for(lambda: _is_answered(member))


def _is_answered(member: CoordinatorClient) -> bool:
    try:
        return isinstance(member.group_ids(), list)
    except CoordinatorUnavailable:
        return False


@pytest.mark.long
@pytest.mark.usefixtures("client_variables")
def test_should_say_what_is_wrong_with_tls(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(*, url: str = site.service.url, **variables: str) -> tuple[int, str]:
        command = ("groups", "list", "--coordinator", url)
        ended = warm_program.run(command, cwd=tmp_path, environment=clean_environment(variables))
        assert ended.stderr.count("\n") <= 1
        return ended.returncode, ended.stderr

    own = str(site.client)
    stranger = str(site.foreign.issue("stranger"))
    code, said = listed()
    assert (code, said.startswith(f"error: {site.service.url}: it asks for a client certificate (")) == (2, True)
    assert "ASSIGNOR_CLIENT_CERTFILE" in said
    code, said = listed(ASSIGNOR_CLIENT_CERTFILE=stranger)
    assert (code, "it does not trust the client certificate" in said) == (2, True)
    code, said = listed(ASSIGNOR_CLIENT_CERTFILE=own, SSL_CERT_FILE=str(site.foreign.file))
    assert (code, "its certificate is not trusted" in said, "SSL_CERT_FILE" in said) == (2, True, True)
    code, said = listed(ASSIGNOR_CLIENT_CERTFILE="nowhere.pem")
    assert (code, said) == (
        2,
        "error: ASSIGNOR_CLIENT_CERTFILE: nowhere.pem cannot be read: No such file or directory\n",
    )
    assert listed(ASSIGNOR_CLIENT_CERTFILE=own) == (0, "")
    monkeypatch.delenv("SSL_CERT_FILE")
    code, said = listed(ASSIGNOR_CLIENT_CERTFILE=own)
    assert (code, said.endswith("): have SSL_CERT_FILE name its authority\n")) == (2, True)
    with CoordinatorClient(site.service.url) as member, pytest.raises(CoordinatorUnavailable, match="VERIFY_FAILED"):
        member.group_ids()


def test_should_notice_over_tls_that_a_process_has_died(site: Site) -> None:
    """One of three connections: of more than half the service would think that it is the network."""
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(site.http(site.client)) for _ in range(3)]
        group_id = new_group(clients[0])
        survivor, other, dying = members = [
            HttpMember(each, group_id, leave_on_disconnect=True, session_timeout_ms=600_000) for each in clients
        ]
        for each in members:
            each.subscribe()
        settle(*members)
        for each in members:
            assert each.process_heartbeat().status_code == 200

        dying.client.close()

        wait_for(lambda: len(survivor.client.get(survivor.path).json()["members"]) == 2)
        assert other.client.get("/livez").status_code == 200


def test_should_refuse_to_start_with_a_certificate_that_ran_out(tmp_path: Path) -> None:
    late = Authority(tmp_path, "authority").issue("late", for_servers=True, ends=timedelta(hours=-1))

    command = ("serve", "--port", "0", "--ssl-certfile", str(late))
    ended = warm_program.run(command, cwd=tmp_path, environment=clean_environment())

    assert ended.returncode == 2
    assert f"error: ssl.certfile: {late}: the certificate ran out" in ended.stderr
