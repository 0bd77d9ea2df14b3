"""deploy/nginx.conf on a real nginx: members over shared connections, held heartbeats, TLS, the page, and floods."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.checkout import ROOT
from tests.coordinator_api.group_members import HttpMember, new_group, settle
from tests.coordinator_api.http.hostile_callers import metric, wait_for
from tests.coordinator_api.nginx import configured_nginx
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.web.visitors import HTML, form_token, soup
from tests.known import known
from tests.package.test_deployment import free_port
from tests.tls_certificates import Authority

TOKEN = "0123456789abcdef0123456789abcdef"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
SESSION_MS = 600_000
"""So long that no session ends within a test."""


class Site:
    """A service on loopback, and nginx in front of it, configured as deploy/nginx.conf has it."""

    def __init__(self, directory: Path, service: ServiceProcess, opened: ExitStack) -> None:
        self.service = service
        self.port = free_port()
        authority = Authority(directory, "authority")
        certificate = authority.issue("server", for_servers=True)
        self.context = ssl.create_default_context(cafile=authority.file)
        config = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
        for deployed, tested in (
            ("127.0.0.1:8080", service.url.removeprefix("http://")),
            ("listen 8443 ssl", f"listen 127.0.0.1:{self.port} ssl"),
            ("/etc/nginx/coordinator.pem", str(certificate)),
            ("/etc/nginx/coordinator.key", str(certificate)),
            ("client_header_timeout       10s", "client_header_timeout 1s"),
        ):
            assert deployed in config
            config = config.replace(deployed, tested)
        opened.enter_context(configured_nginx(directory, config, self.port))
        self.direct = opened.enter_context(service.client(TOKEN))

    def client(self) -> httpx.Client:
        url = f"https://127.0.0.1:{self.port}"
        return httpx.Client(base_url=url, timeout=60, headers=AUTHORIZED, trust_env=False, verify=self.context)

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        return self.context.wrap_socket(plain, server_hostname="127.0.0.1")

    def metric(self, name: str) -> float:
        return metric(self.direct, name)


@contextmanager
def opened_site(directory: Path) -> Iterator[Site]:
    flags = ("--group-initial-rebalance-delay-ms", "0")
    environment = {"ASSIGNOR_AUTH_TOKEN": TOKEN}
    with ServiceProcess(directory, *flags, environment=environment) as service, ExitStack() as opened:
        yield Site(directory, service, opened)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with opened_site(tmp_path_factory.mktemp("nginx")) as site:
        yield site


def held_heartbeat(site: Site, member: HttpMember) -> ssl.SSLSocket:
    """The connection to nginx on which the heartbeat is held."""
    news = member.process_heartbeat().json()["news"]
    body = json.dumps({"members": {member.member_id: {"generation_id": member.generation_id}}, "known": news}).encode()
    head = f"POST {member.path}/heartbeat?wait_ms=60000 HTTP/1.1\r\nHost: coordinator\r\nAuthorization: Bearer {TOKEN}"
    connection = site.connect()
    connection.sendall(
        f"{head}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )
    wait_for(lambda: site.metric("assignor_long_polls") == 1)
    return connection


def test_should_remove_only_the_process_that_dies_although_all_share_the_connections_of_nginx(site: Site) -> None:
    with ExitStack() as opened:
        clients = [opened.enter_context(site.client()) for _ in range(3)]
        group_id = new_group(site.direct)
        living, silent, dying = members = [
            HttpMember(each, group_id, leave_on_disconnect=True, session_timeout_ms=SESSION_MS) for each in clients
        ]
        for each in members:
            assert each.subscribe().status_code == 201
        settle(*members)
        for each in members:
            assert each.process_heartbeat().status_code == 200
        assert site.metric("assignor_connections") == 2, "one of nginx, and one of who asks for this"

        # between two heartbeats nobody notices behind a proxy: its session counts
        silent.client.close()
        held_heartbeat(site, dying).close()

        def member_ids() -> set[str]:
            document = site.direct.get(f"/v1/groups/{group_id}").json()
            return {each["member_id"] for each in document["members"]}

        wait_for(lambda: member_ids() == {living.member_id, silent.member_id})
        assert living.process_heartbeat().json()["members"][living.member_id]["rejoin"]


def test_should_show_the_page_and_its_events_below_the_path(site: Site) -> None:
    group_id = new_group(site.direct)
    with site.client() as browser:
        browser.headers = httpx.Headers({**HTML, "Origin": f"https://127.0.0.1:{site.port}"})
        login = browser.get("/assignor/", follow_redirects=True)
        assert login.url.path == "/assignor/ui/login"
        form = known(soup(login).select_one("main form"))
        fields = {"token": TOKEN, "next": f"/ui/groups/{group_id}", "form_token": form_token(login)}
        entered = browser.post(login.url.join(str(form["action"])), data=fields, follow_redirects=True)
        assert (entered.status_code, entered.url.path) == (200, f"/assignor/ui/groups/{group_id}")
        live = known(soup(entered).select_one("#live"))
        with browser.stream("GET", entered.url.join(str(live["data-live"]))) as events:
            assert next(events.iter_lines()) != ""


def test_should_end_floods_of_headers_at_nginx(tmp_path: Path) -> None:
    begin = b"GET /livez HTTP/1.1\r\nHost: coordinator\r\n"
    floods = {
        "long": (begin + b"X: " + b"y" * 100_000 + b"\r\n\r\n", b" 400 "),
        "many": (begin + b"X: y\r\n" * 20_000 + b"\r\n", b" 400 "),
        "without end": (begin + b"X: ", b""),
    }
    # a site of its own: nginx keeps the connections that served other tests
    with opened_site(tmp_path) as site:
        for name, (head, status) in floods.items():
            with site.connect() as connection:
                connection.sendall(head)
                answer = connection.recv(65_536)
            assert status in answer.partition(b"\r\n")[0], name
        assert site.metric("assignor_connections") == 1, "the connection that asks for this"
