"""The service behind a real nginx: below a path, and with the Host that nginx sends when nobody tells it another."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.coordinator_api.group_members import definition
from tests.coordinator_api.nginx import running_nginx
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.web.visitors import HTML, form_token, soup
from tests.no_tls import NO_TLS

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("nginx")
    flags = ("--group-initial-rebalance-delay-ms", "0")
    with ServiceProcess(directory, *flags, environment={"ASSIGNOR_AUTH_TOKEN": TOKEN}) as service:
        host = "proxy_set_header X-Forwarded-Host $http_host;"
        locations = (
            f"location /told/ {{ proxy_pass {service.url}/; proxy_set_header X-Forwarded-Prefix /told; {host} }}"
            f"location /untold/ {{ proxy_pass {service.url}/; proxy_set_header Host $http_host; }}"
            f"location /whole/ {{ proxy_pass {service.url}; proxy_set_header X-Forwarded-Prefix /whole; {host} }}"
            f"location / {{ proxy_pass {service.url}; }}"
        )
        with service.client(TOKEN) as client:
            assert client.put("/v1/groups/a-1", json=definition()).is_success
        with running_nginx(directory, locations) as listening:
            yield listening


@pytest.fixture
def browser(port: int) -> Iterator[httpx.Client]:
    """Over http, from another name than localhost, a browser says no Sec-Fetch-Site."""
    headers = {**HTML, "Host": f"console.example:{port}", "Origin": f"http://console.example:{port}"}
    with httpx.Client(trust_env=False, verify=NO_TLS, headers=headers, follow_redirects=True) as client:
        yield client


@pytest.mark.parametrize("prefix", ["/told", "/untold", "/whole"])
def test_should_log_in_and_show_pages_below_the_prefix(browser: httpx.Client, port: int, prefix: str) -> None:
    begin = f"http://127.0.0.1:{port}{prefix}"
    login = browser.get(f"{begin}/")
    assert str(login.url) == f"{begin}/ui/login?next=%2Fui%2Fgroups"
    entered = browser.post(
        login.url.join(str(soup(login).select_one("main form")["action"])),  # type: ignore[index]
        data={"token": TOKEN, "next": "/ui/groups/a-1", "form_token": form_token(login)},
    )
    assert (entered.status_code, str(entered.url)) == (200, f"{begin}/ui/groups/a-1")
    files = re.findall(r'(?:href|src)="([^"]+/static/[^"]+)"', entered.text)
    assert len(files) >= 5
    for address in files:
        assert browser.get(entered.url.join(address)).status_code == 200
    stream = entered.url.join(str(soup(entered).select_one("#live")["data-live"]))  # type: ignore[index]
    with browser.stream("GET", stream) as events:
        assert next(events.iter_lines()) != ""


def test_should_name_the_host_that_nginx_sends_by_default(browser: httpx.Client, port: int) -> None:
    login = browser.get(f"http://127.0.0.1:{port}/ui/login")
    refused = browser.post(login.url, data={"token": TOKEN, "form_token": form_token(login)})
    assert refused.status_code == 403
    assert f"a page of console.example:{port}" in refused.text
    assert "proxy_set_header Host $http_host" in refused.text
