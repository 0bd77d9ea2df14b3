"""Who may open which address of the page: each address with each right, and with tokens of other prefixes."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from coordinator_api.http.call_rights import SESSION_COOKIE, cookie_value
from coordinator_client.access.principals import Right
from tests.coordinator_api.group_members import definition
from tests.coordinator_api.http.endpoints import PAGE_RIGHTS
from tests.coordinator_api.http.tenants import Tenants, join_body, tenants
from tests.coordinator_api.web.visitors import FROM_HERE, form_token, streaming

PRINCIPALS = {
    "reader": (Right.READER, ""),
    "member": (Right.MEMBER, ""),
    "operator": (Right.OPERATOR, ""),
    "admin": (Right.ADMIN, ""),
    "own-prefix": (Right.OPERATOR, "a-"),
    "other-prefix": (Right.ADMIN, "b-"),
}
OF_GROUPS = sorted(call for call in PAGE_RIGHTS if "{group}" in call[1])


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Tenants]:
    async with tenants(tmp_path, PRINCIPALS, page_store_queries="on") as running:
        operator = await running.client("operator")
        assert (await operator.put("/v1/groups/a-1", json=definition())).status_code == 201
        assert (await operator.post("/v1/groups/a-1/subscriptions", json=join_body())).status_code == 201
        yield running


def cookie_of(token: str) -> dict[str, str]:
    return {"cookie": f"{SESSION_COOKIE}={cookie_value(token.encode())}"}


async def answer_of(service: Tenants, token: str, method: str, path: str) -> tuple[int, str]:
    """The status, and the text of what is no stream."""
    if path.endswith("events"):
        async with streaming(service._app, path, cookie_of(token)) as stream:
            await stream.next()
            return stream.status, ""
    browser = await service.client(None)
    browser.headers.update(cookie_of(token))
    if method == "GET":
        answer = await browser.get(path)
    else:
        form = await form_of(browser)
        answer = await browser.post(path, data={"lever": "promote", "form_token": form}, headers=FROM_HERE)
    return answer.status_code, answer.text


async def form_of(browser: httpx.AsyncClient) -> str:
    """Of a page that this caller may open, if there is one."""
    page = await browser.get("/ui/groups/a-1/levers")
    return form_token(page) if page.status_code == 200 and "form_token" in page.text else ""


def at(path: str, group: str) -> str:
    return path.format(group=group, task="0_0")


@pytest.mark.parametrize("token", PRINCIPALS)
async def test_should_open_the_pages_of_a_right_and_no_others(service: Tenants, token: str) -> None:
    right, prefix = PRINCIPALS[token]
    wrong = []
    for method, path in OF_GROUPS:
        may = right.includes(PAGE_RIGHTS[method, path]) and "a-1".startswith(prefix)
        status, text = await answer_of(service, token, method, at(path, "a-1"))
        if (status < 400) is not may or (not may and status != 403):
            wrong.append((method, path, status, text))

    assert wrong == []


async def test_should_tell_a_token_of_another_prefix_nothing_of_a_group(service: Tenants) -> None:
    """The answers are those for a group that nobody has declared, to the letter but for its name."""
    differing = []
    for method, path in OF_GROUPS:
        real, none = [await answer_of(service, "other-prefix", method, at(path, group)) for group in ("a-1", "a-2")]
        if (real[0], real[1].replace("a-1", "a-2")) != none:
            differing.append((method, path, real, none))
    listed = await answer_of(service, "other-prefix", "GET", "/ui/groups")

    assert differing == []
    assert listed[0] == 200
    assert "a-1" not in listed[1]
