"""The page behind a proxy: below a path, by another host, over TLS that the proxy ends."""

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from coordinator_api.http.call_rights import SESSION_COOKIE
from coordinator_client.access.principals import Right
from tests.coordinator_api.group_members import definition
from tests.coordinator_api.http.tenants import Tenants, tenants
from tests.coordinator_api.web.visitors import HTML, form_token, soup

PUBLIC = "http://console.example:8081/tools/assignor"
PROXY = "127.0.0.1"
TOLD = {"X-Forwarded-Prefix": "/tools/assignor", "X-Forwarded-Host": "console.example:8081"}
VIEWS = ("", "/time", "/what-if", "/topology", "/stores", "/levers", "/tasks/0_0")


class BehindProxy:
    """A browser that sees the service at `PUBLIC`. The proxy cuts the prefix, tells `told`, and names its own Host."""

    def __init__(self, client: httpx.AsyncClient, told: Mapping[str, str]) -> None:
        self._client = client
        self._told = told
        self.cookies = httpx.Cookies()

    async def ask(self, method: str, address: str, **more: object) -> tuple[str, httpx.Response]:
        """Where the browser is then, and what it sees there."""
        while True:
            assert address.startswith(f"{PUBLIC}/"), f"{address} is not below the prefix"
            request = httpx.Request(method, address, headers=HTML, cookies=self.cookies, **more)  # type: ignore[arg-type]
            headers = {name: value for name, value in request.headers.items() if name != "host"}
            answer = await self._client.request(
                method,
                address.removeprefix(PUBLIC),
                content=request.content,
                headers={**headers, "Origin": "http://console.example:8081", **self._told},
            )
            answer.request = request
            self.cookies.extract_cookies(answer)
            if answer.status_code != 303:
                return address, answer
            method, address, more = "GET", str(httpx.URL(address).join(answer.headers["location"])), {}


@pytest.mark.parametrize("told", [TOLD, {"X-Forwarded-Host": TOLD["X-Forwarded-Host"]}])
async def test_should_stay_below_the_prefix_on_every_page(service: Tenants, told: dict[str, str]) -> None:
    """Also where no proxy tells the prefix: no address of a page begins at the root."""
    await (await service.client("olga")).put("/v1/groups/a-1", json=definition())
    proxied = await service.client(None, PROXY)
    browser = BehindProxy(proxied, told)

    place, login = await browser.ask("GET", f"{PUBLIC}/")
    assert place == f"{PUBLIC}/ui/login?next=%2Fui%2Fgroups"
    fields = {"token": "olga", "next": "/ui/groups/a-1", "form_token": form_token(login)}
    place, entered = await browser.ask("POST", f"{PUBLIC}/ui/login", data=fields)
    assert (place, entered.status_code) == (f"{PUBLIC}/ui/groups/a-1", 200)
    assert [cookie.path for cookie in browser.cookies.jar] == ["/tools/assignor/ui"]

    for path in ("/ui/groups", *(f"/ui/groups/a-1{view}" for view in VIEWS), "/ui/groups/none"):
        place, page = await browser.ask("GET", f"{PUBLIC}{path}")
        named = [
            str(each[name])
            for each in soup(page).select("*")
            for name in ("href", "src", "action", "hx-get", "data-live", "data-grid", "data-home")
            if each.has_attr(name)
        ]
        assert len(named) > 8
        for address in named:
            seen = httpx.URL(place).join(address)
            assert str(seen).startswith(f"{PUBLIC}/"), f"{address} of {path}"
            if "/static/" in address:
                assert (await browser.ask("GET", str(seen)))[1].status_code == 200

    place, _ = await browser.ask("POST", f"{PUBLIC}/ui/logout", data={"form_token": form_token(entered)})
    assert (place, len(browser.cookies.jar)) == (f"{PUBLIC}/ui/login?next=%2Fui%2Fgroups", 0)


async def test_should_come_back_below_the_prefix_after_a_lever_and_after_a_new_login(service: Tenants) -> None:
    await (await service.client("olga")).put("/v1/groups/a-1", json=definition())
    browser = BehindProxy(await service.client(None, PROXY), TOLD)
    _, login = await browser.ask("GET", f"{PUBLIC}/ui/login")
    await browser.ask("POST", f"{PUBLIC}/ui/login", data={"token": "olga", "form_token": form_token(login)})

    levers = f"{PUBLIC}/ui/groups/a-1/levers"
    _, page = await browser.ask("GET", levers)
    fields = {"lever": "promote", "form_token": form_token(page)}
    assert (await browser.ask("POST", levers, data=fields))[0] == f"{levers}?done=promote"
    # a page that is open when its session ends
    stranger = await service.client(None, PROXY)
    refused = await stranger.get(
        "/ui/groups/a-1", headers={**TOLD, "HX-Request": "true", "HX-Current-URL": f"{PUBLIC}/ui/groups/a-1?q=x"}
    )
    assert refused.headers["hx-redirect"] == "../../ui/login?next=%2Fui%2Fgroups%2Fa-1%3Fq%3Dx"


async def test_should_tell_programs_the_prefix(service: Tenants) -> None:
    client = await service.client("olga", PROXY)
    links = (await client.get("/", headers=TOLD)).json()["links"]
    openapi = (await client.get("/openapi.json", headers=TOLD)).json()
    docs = await client.get("/docs", headers=TOLD)

    assert links["groups"] == "/tools/assignor/v1/groups"
    assert openapi["servers"] == [{"url": "/tools/assignor"}]
    assert "servers" not in (await client.get("/openapi.json")).json()
    (place,) = soup(docs).select("[data-openapi]")
    assert place["data-openapi"] == "./openapi.json"


async def test_should_serve_below_the_root_path_of_the_settings(tmp_path: Path) -> None:
    async with tenants(tmp_path, {"olga": (Right.OPERATOR, "")}, root_path="/tools") as service:
        client = await service.client("olga")
        for path in ("/v1/groups", "/tools/v1/groups", "/tools/ui/groups"):
            assert (await client.get(path)).status_code == 200
        form = await client.get("/tools/ui/login", headers={"Authorization": ""})
        sent = {"token": "olga", "form_token": form_token(form)}
        headers = {"Authorization": "", "Sec-Fetch-Site": "same-origin"}
        entered = await client.post("/tools/ui/login", data=sent, headers=headers)
        assert f"{SESSION_COOKIE}=" in entered.headers["set-cookie"]
        assert "; Path=/tools/ui;" in entered.headers["set-cookie"]
        assert (await client.get("/")).json()["links"]["groups"] == "/tools/v1/groups"


async def test_should_mark_the_cookie_secure_where_a_browser_speaks_tls(service: Tenants) -> None:
    client = await service.client(None, PROXY)
    sent = {"token": "olga", "form_token": form_token(await client.get("/ui/login", headers=HTML))}
    for told in ({"X-Forwarded-Proto": "https"}, {"Origin": "https://groups.example"}):
        entered = await client.post("/ui/login", data=sent, headers={"Sec-Fetch-Site": "same-origin", **told})
        assert "; Secure" in entered.headers["set-cookie"]


BEHIND_HTTP = {"Origin": "http://console.example:8081", "Host": "127.0.0.1:8080"}


async def test_should_say_what_to_change_at_a_proxy_that_hides_the_browsers_host(service: Tenants) -> None:
    """nginx without `proxy_set_header Host`, and a browser that says no Sec-Fetch-Site over http."""
    client = await service.client(None, PROXY)
    form = form_token(await client.get("/ui/login", headers=HTML))

    refused = await client.post(
        "/ui/login", data={"token": "olga", "form_token": form}, headers={**HTML, **BEHIND_HTTP}
    )

    assert refused.status_code == 403
    shown = " ".join(soup(refused).select_one("main").get_text(" ").split())  # type: ignore[union-attr]
    for part in ("a page of console.example:8081", "the Host 127.0.0.1:8080", "proxy_set_header Host $http_host"):
        assert part in shown


FORMS: tuple[tuple[str, dict[str, str], bool], ...] = (
    (PROXY, {"X-Forwarded-Host": "console.example:8081"}, True),
    (PROXY, {"X-Forwarded-Host": "console.example:8081, inner:80"}, True),
    (PROXY, {"Host": "console.example:8081"}, True),
    (PROXY, {"X-Forwarded-Host": "other.example"}, False),
    (PROXY, {"X-Forwarded-Host": "console.example"}, False),
    ("192.0.2.1", {"X-Forwarded-Host": "console.example:8081"}, False),
    (PROXY, {"X-Forwarded-Host": "console.example:8081", "Sec-Fetch-Site": "cross-site"}, False),
    (PROXY, {"X-Forwarded-Host": "", "Origin": "null"}, False),
)
"""The address of the proxy, the headers of the form, and whether the form is accepted."""


async def test_should_take_a_form_of_the_host_that_a_believed_proxy_tells(service: Tenants) -> None:
    for address, headers, enters in FORMS:
        client = await service.client(None, address)
        sent = {"token": "olga", "form_token": form_token(await client.get("/ui/login", headers=HTML))}
        answer = await client.post("/ui/login", data=sent, headers={**BEHIND_HTTP, **headers})
        assert (answer.status_code == 303) == enters, headers
