"""The login, its cookie, and forms that no other site can send."""

import asyncio
import itertools
import json
from pathlib import Path

import httpx
import pytest

from coordinator_api.http.call_rights import SESSION_COOKIE, cookie_value
from coordinator_api.web import login_page
from coordinator_api.web.sessions import HOME, safe_next
from tests.coordinator_api.group_members import definition, problem
from tests.coordinator_api.http.endpoints import PAGE_RIGHTS
from tests.coordinator_api.http.tenants import Tenants, tenants
from tests.coordinator_api.web.visitors import FROM_HERE, HTML, form_token, goes_to, log_in, send_form, soup


@pytest.fixture
async def browser(service: Tenants) -> httpx.AsyncClient:
    return await service.client(None)


def audit_lines(directory: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (directory / "audit.log").read_text(encoding="ascii").splitlines()]


async def test_should_ask_for_a_token_and_then_show_what_was_asked_for(browser: httpx.AsyncClient) -> None:
    asked = await browser.get("/ui/groups?q=a&sort=lag", headers=HTML)
    assert (asked.status_code, goes_to(asked)) == (303, "/ui/login?next=%2Fui%2Fgroups%3Fq%3Da%26sort%3Dlag")
    form = await browser.get(goes_to(asked), headers=HTML)
    fields = {str(each["name"]): str(each.get("value", "")) for each in soup(form).select("form input")}

    entered = await send_form(browser, "/ui/login", {**fields, "token": "rita"})

    assert (entered.status_code, goes_to(entered)) == (303, "/ui/groups?q=a&sort=lag")
    assert entered.headers["set-cookie"] == (f"{SESSION_COOKIE}={cookie_value(b'rita')}; HttpOnly; SameSite=strict")
    shown = await browser.get("/ui/groups?q=a&sort=lag", headers=HTML)
    assert (shown.status_code, soup(shown).select_one(".caller").text) == (200, "rita")  # type: ignore[union-attr]


async def test_should_send_a_browser_from_the_root_to_the_page(browser: httpx.AsyncClient) -> None:
    for_people = await browser.get("/", headers=HTML)
    for_programs = await browser.get("/")

    assert (for_people.status_code, goes_to(for_people)) == (303, "/ui/groups")
    assert problem(for_programs) == (401, "SASL_AUTHENTICATION_FAILED")


async def test_should_refuse_a_wrong_token_and_audit_it_without_the_token(
    browser: httpx.AsyncClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, token in enumerate(("nobody", "", "rit", "rita2", "ä€", "x" * 5_000, "rita\x00")):
        started_s = asyncio.get_running_loop().time()
        refused = await log_in(browser, token)
        assert asyncio.get_running_loop().time() - started_s >= login_page.TRY_S
        assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
        assert soup(refused).select_one("[role=alert]") is not None
        line = audit_lines(tmp_path)[number]
        assert [line[name] for name in ("principal", "right", "client", "call", "status")] == [
            *("unknown token", None, "198.51.100.7", "POST /ui/login", 401)
        ]
        logged = "".join(capsys.readouterr()) + (tmp_path / "audit.log").read_text(encoding="ascii")
        assert not token or token not in refused.text
        assert len(token) < 4 or token not in logged


async def test_should_audit_a_login_and_take_as_long_as_to_refuse(browser: httpx.AsyncClient, tmp_path: Path) -> None:
    loop, took_s = asyncio.get_running_loop(), []
    form = form_token(await browser.get("/ui/login", headers=HTML))
    for token in ("nobody", "olga"):
        started_s = loop.time()
        await send_form(browser, "/ui/login", {"token": token, "form_token": form})
        took_s.append(loop.time() - started_s)

    assert min(took_s) >= login_page.TRY_S
    _, line = audit_lines(tmp_path)
    assert (line["principal"], line["right"], line["status"], line["code"]) == ("olga", "operator", 303, "NONE")


async def test_should_forget_the_token_at_logout(browser: httpx.AsyncClient) -> None:
    await log_in(browser, "rita")
    shown = await browser.get("/ui/groups", headers=HTML)

    left = await send_form(browser, "/ui/logout", {"form_token": form_token(shown)})

    assert (left.status_code, goes_to(left)) == (303, "/ui/groups")
    assert goes_to(await browser.get("/ui/groups", headers=HTML)).startswith("/ui/login")


async def test_should_never_open_a_call_with_the_cookie(service: Tenants, browser: httpx.AsyncClient) -> None:
    operator = await service.client("olga")
    await operator.put("/v1/groups/a-1", json=definition())
    cookie = {"Cookie": f"{SESSION_COOKIE}={cookie_value(b'olga')}"}
    assert (await browser.get("/ui/groups", headers={**HTML, **cookie})).status_code == 200

    for call in ("GET /v1/groups", "POST /v1/groups/a-1/drain", "GET /metrics", "GET /docs"):
        assert problem(await browser.request(*call.split(), headers=cookie)) == (401, "SASL_AUTHENTICATION_FAILED")


ELSEWHERE: tuple[dict[str, str], ...] = (
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "http://attacker.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1.attacker.example"},
    {"Origin": "http://[::1"},
    {},
)


async def test_should_refuse_a_form_from_elsewhere(browser: httpx.AsyncClient) -> None:
    await log_in(browser, "rita")
    fields = {"token": "rita", "form_token": form_token(await browser.get("/ui/groups", headers=HTML))}

    for path, headers in itertools.product(("/ui/login", "/ui/logout"), ELSEWHERE):
        refused = await send_form(browser, path, fields, headers)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False), f"{path} {headers}"


async def test_should_refuse_a_wrong_form_token(service: Tenants, browser: httpx.AsyncClient) -> None:
    await log_in(browser, "rita")
    own = form_token(await browser.get("/ui/groups", headers=HTML))
    somebody_else = await service.client(None)
    await log_in(somebody_else, "olga")
    others = form_token(await somebody_else.get("/ui/groups", headers=HTML))
    changed = own[:-1] + ("0" if own[-1] != "0" else "1")

    for given in ({}, {"form_token": changed}, {"form_token": others}, {"form_token": ""}):
        refused = await send_form(browser, "/ui/logout", {"next": "/ui", **given})
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
        assert "out of date" in refused.text
    assert (await send_form(browser, "/ui/logout", {"form_token": own})).status_code == 303


async def test_should_refuse_a_body_that_is_no_form(browser: httpx.AsyncClient) -> None:
    refused = await browser.post("/ui/login", json={"token": "rita"}, headers={**HTML, **FROM_HERE})
    too_long = await browser.post("/ui/login", data={"token": "x" * 70_000}, headers={**HTML, **FROM_HERE})

    assert (refused.status_code, too_long.status_code) == (415, 413)


@pytest.mark.parametrize(
    "address",
    [
        "https://attacker.example/",
        "//attacker.example/",
        "/\\attacker.example",
        "/ui//attacker.example",
        "/ui/../v1/groups",
        "/ui/%2e%2e/v1/groups",
        "/ui/groups\nLocation: x",
        "/ui/groups\x00",
        "/ui@attacker.example",
        "javascript:alert(1)",
        "/v1/groups",
        "/ui/logout",
        "/ui/login?next=/ui/login",
        "/ui/events",
        "/ui/groups#x",
        "/ui/groups/" + "x" * 3_000,
        "",
    ],
)
def test_should_lead_nowhere_but_to_a_page(address: str) -> None:
    assert safe_next(address) == HOME


async def test_should_lead_nowhere_but_to_a_page_after_the_login(browser: httpx.AsyncClient) -> None:
    entered = await log_in(browser, "rita", "https://attacker.example/")

    assert (entered.status_code, goes_to(entered)) == (303, "/ui/groups")


@pytest.mark.parametrize("address", ["/ui", "/ui/groups", "/ui/groups/a-1/time?from=1&to=2", "/ui/groups?q=a%20b"])
def test_should_lead_back_to_any_page(address: str) -> None:
    assert safe_next(address) == address


async def test_should_let_a_link_of_another_site_in_with_the_cookie_held_back(browser: httpx.AsyncClient) -> None:
    """SameSite=Strict: the first request comes without it, the page's own next one with it."""
    followed = await browser.get("/ui/groups/a-1?q=%22x", headers={**HTML, "Sec-Fetch-Site": "cross-site"})

    assert followed.status_code == 401
    assert soup(followed).select_one("meta[http-equiv=refresh]")["content"] == "0;url=../../ui/groups/a-1?q=%22x"  # type: ignore[index]


async def test_should_send_an_open_page_to_the_login_when_its_token_is_invalid(browser: httpx.AsyncClient) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://127.0.0.1/ui/groups?q=x"}
    browser.cookies.set(SESSION_COOKIE, cookie_value(b"revoked"), path="/ui")

    answer = await browser.get("/ui/groups?q=x", headers=headers)

    assert (answer.status_code, goes_to(answer)) == (401, "/ui/login?next=%2Fui%2Fgroups%3Fq%3Dx")
    login = await browser.get(goes_to(answer), headers=HTML)
    assert "Max-Age=0" in login.headers["set-cookie"]


async def test_should_ask_nobody_when_the_service_has_no_tokens(tmp_path: Path) -> None:
    async with tenants(tmp_path, {}, auth_tokens=None) as service:
        browser = await service.client(None)
        shown = await browser.get("/ui/groups", headers=HTML)
        login = await browser.get("/ui/login?next=/ui/groups/a-1", headers=HTML)
        foreign = await browser.get("/ui/groups", headers={**HTML, "Host": "attacker.example"})
        style = await browser.get("/ui/static/x/style.css", headers={"Host": "attacker.example"})

    assert (shown.status_code, soup(shown).select(".caller")) == (200, [])
    assert (login.status_code, goes_to(login)) == (303, "/ui/groups/a-1")
    assert (foreign.status_code, style.status_code) == (403, 403)


async def test_should_show_a_stranger_nothing_but_the_login_and_static_files(browser: httpx.AsyncClient) -> None:
    named = {"group": "a-1", "digest": "x", "file": "style.css", "generation": 1, "task": "0_0"}
    calls = {call: await browser.request(call[0], call[1].format(**named)) for call in PAGE_RIGHTS}

    open_calls = {
        ("GET", "/ui/login"): 200,
        ("POST", "/ui/login"): 403,  # it is no form of this service
        ("GET", "/ui/static/{digest}/{file}"): 200,
    }
    assert {call: answer.status_code for call, answer in calls.items()} == {
        call: open_calls.get(call, 401) for call in PAGE_RIGHTS
    }
