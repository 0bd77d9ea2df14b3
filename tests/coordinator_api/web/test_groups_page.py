"""The list of groups and a group's page, as they are served."""

import re

import pytest
from bs4 import BeautifulSoup

from coordinator_api.http.call_rights import is_page
from coordinator_api.http.group_document import group_line
from coordinator_api.http.models.group_models import GroupList
from coordinator_api.http.other_coordinators import UNKNOWN
from coordinator_api.web import groups_page
from coordinator_api.web.pages import WEB_PAGES
from coordinator_api.web.static_files import address_of, static_files
from tests.coordinator_api.http.endpoints import PAGE_RIGHTS
from tests.coordinator_api.http.tenants import Tenants
from tests.coordinator_api.reported_rebalances import reported
from tests.coordinator_api.web.visitors import browser_of, declared, settled_member, soup
from tests.known import known


def names(page: BeautifulSoup) -> list[str]:
    return [each.text for each in page.select("tbody th a")]


def cells(page: BeautifulSoup, group: str) -> list[str]:
    row = known(page.select_one(f'[id="group-{group}"]'))
    return [" ".join(each.get_text(" ").split()) for each in row.select("td")]


async def test_should_list_each_group_with_what_is_known_of_it(service: Tenants) -> None:
    await settled_member(service, "a-1")
    olga = await declared(service, "b-waits")
    assert (await olga.post("/v1/groups/c-jvm/rebalances", json=reported("c-jvm", 3))).is_success

    page = soup(await (await browser_of(service, "rita")).get("/ui/groups"))

    assert names(page) == ["a-1", "b-waits", "c-jvm"], "the worst health is first"
    restores = "Tasks that restore their state before they process records: 4, with 4,000 records left."
    waits = "No instance has joined yet. What to do: Start instances, and give them the address of this coordinator."
    assert cells(page, "a-1") == ["Busy state Stable", restores, "1", "0 of 4", "4,000", "– none"]
    assert cells(page, "b-waits") == ["Busy state Empty", waits, "0", "0 of 4", "– not known", "– none"]
    assert cells(page, "c-jvm")[:5] == ["OK state Stable", "– nothing", "2", "2 of 2", "1,000"]
    assert "led by kafka" in known(page.select_one("#group-c-jvm th")).text
    assert [each.name for each in page.select("#group-a-1 .state svg *")] == ["circle", "path"]


async def test_should_show_what_is_wrong_since_when_and_what_to_do(service: Tenants) -> None:
    """In the list the worst reason, and above the group all of them."""
    member_id = await settled_member(service, "a-1")
    olga = await service.client("olga")
    left_out = {"code": "RECORDS_DROPPED", "text": "3 records", "count": 3, "at_ms": 1}
    beat = {"members": {member_id: {"generation_id": 1}}, "notices": [left_out]}
    assert (await olga.post("/v1/groups/a-1/heartbeat", json=beat)).is_success
    assert (await olga.post("/v1/groups/a-1/pause", params={"reason": "a sale"})).is_success
    browser = await browser_of(service, "rita")

    (wrong, *_) = cells(soup(await browser.get("/ui/groups")), "a-1")[1:]
    page = soup(await browser.get("/ui/groups/a-1"))

    paused, told, restores = (" ".join(each.get_text(" ").split()) for each in page.select(".reasons > li"))
    assert re.fullmatch(
        r"Degraded An operator has paused the group, because: a sale\. since \d+ s ago What to do: "
        r"Nothing is processed until it is resumed: assignor groups resume a-1 \.",
        paused,
    )
    shown = r"Degraded Records were dropped: 3 records\. since \d+ s ago ; \S+ What to do: "
    assert re.match(shown, told)
    assert restores.startswith("Busy Tasks that restore")
    assert wrong == f"{paused.removeprefix('Degraded ')} and 2 more"
    assert [each.text for each in page.select(".reasons code")] == ["assignor groups resume a-1"]
    assert [each.text for each in page.select(".group-head .state, .group-head .more")] == [" Degraded", "state Stable"]


async def test_should_show_a_group_whose_coordinator_does_not_answer_as_unknown(
    service: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settled_member(service, "a-1")
    line = group_line(service.coordinator.group("a-1"))
    silent = line.model_copy(update={"group_id": "b-silent", "state": UNKNOWN, "health": None})

    async def elsewhere(request: object) -> list[GroupList]:
        return [GroupList(groups=[silent])]

    monkeypatch.setattr(groups_page, "_elsewhere", elsewhere)
    page = soup(await (await browser_of(service, "rita")).get("/ui/groups"))

    assert names(page) == ["b-silent", "a-1"]
    assert cells(page, "b-silent")[:3] == ["Unknown its coordinator does not answer", "– nothing", "1"]


async def test_should_list_only_the_groups_of_the_token(service: Tenants) -> None:
    await declared(service, "a-1", "b-1")
    service.coordinator.unreadable["b-broken"] = "its log is damaged"
    tom = await browser_of(service, "tom")

    shown = await tom.get("/ui/groups")

    assert names(soup(shown)) == ["a-1"]
    assert "b-" not in soup(shown).select_one("#live").text  # type: ignore[union-attr]


async def test_should_name_groups_that_cannot_be_read_and_what_to_do(service: Tenants) -> None:
    service.coordinator.unreadable["b-broken"] = "record 7 is no JSON."

    page = soup(await (await browser_of(service, "rita")).get("/ui/groups"))

    (said,) = page.select(".notice.bad dd")
    assert said.text == (
        "record 7 is no JSON. First save the log with assignor groups export b-broken. "
        "Then assignor groups repair b-broken says what can be kept."
    )


async def test_should_say_how_to_begin_when_there_is_no_group(service: Tenants) -> None:
    page = soup(await (await browser_of(service, "rita")).get("/ui/groups"))

    assert [each.text for each in page.select(".empty h2")] == ["No group yet"]
    assert "assignor demo" in page.select_one(".empty").text  # type: ignore[union-attr]


async def test_should_search_and_sort_by_the_address(service: Tenants) -> None:
    await declared(service, "b-x", "a-x", "other")
    browser = await browser_of(service, "rita")

    page = soup(await browser.get("/ui/groups?q=-x&sort=group&order=desc"))

    assert names(page) == ["b-x", "a-x"]
    assert {str(each["aria-sort"]) for each in page.select("[aria-sort]")} == {"descending"}
    assert page.select_one("#q")["value"] == "-x"  # type: ignore[index]
    assert page.select_one("#by-group")["href"] == "?q=-x&sort=group"  # type: ignore[index]
    assert page.select_one("#by-lag")["href"] == "?q=-x&sort=lag"  # type: ignore[index]
    assert [each.text for each in soup(await browser.get("/ui/groups?q=zzz")).select(".empty h2")] == [
        "No group matches"
    ]


async def test_should_give_only_the_live_part_to_a_page_that_is_shown(service: Tenants) -> None:
    await declared(service, "a-1")
    browser = await browser_of(service, "rita")

    part = await browser.get("/ui/groups", headers={"HX-Request": "true"})
    restored = await browser.get("/ui/groups", headers={"HX-Request": "true", "HX-History-Restore-Request": "true"})

    assert part.text.startswith('<div id="live"')
    assert restored.text.startswith("<!doctype html>")


async def test_should_tell_who_may_only_look(service: Tenants) -> None:
    await declared(service, "a-1")

    for token, says in (("rita", True), ("olga", False)):
        page = soup(await (await browser_of(service, token)).get("/ui/groups/a-1"))
        assert ("may look, and not steer" in page.text) is says


@pytest.mark.parametrize(
    "path, status, title",
    [
        ("/ui/groups/none", 404, "No such group"),
        ("/ui/groups/%20", 422, "Not a group id"),
        ("/ui/nothing", 404, "Nothing under this address"),
        ("/ui/groups/a-1/nothing", 404, "Nothing under this address"),
    ],
)
async def test_should_show_a_problem_page_with_advice(service: Tenants, path: str, status: int, title: str) -> None:
    answer = await (await browser_of(service, "rita")).get(path)

    page = soup(answer)
    assert (answer.status_code, page.h1.text) == (status, title)  # type: ignore[union-attr]
    assert "What to do:" in page.text
    assert answer.headers["cache-control"] == "no-store"


async def test_should_show_a_page_while_the_service_stops(service: Tenants) -> None:
    browser = await browser_of(service, "rita")
    service.coordinator.stopping = True

    answer = await browser.get("/ui/groups")

    service.coordinator.stopping = False
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "Load the page again" in answer.text


async def test_should_send_strict_headers_and_no_style_or_script_in_a_page(service: Tenants) -> None:
    """The policy would keep a browser from using them."""
    await declared(service, "a-1")
    browser = await browser_of(service, "rita")

    for path in ("/ui/groups", "/ui/groups/a-1", "/ui/groups/none", "/ui/login", "/ui"):
        answer = await browser.get(path)
        headers, page = answer.headers, soup(answer)
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        )
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
        assert page.select("[style], style, script:not([src])") == []
        assert not [name for each in page.select("*") for name in each.attrs if name.startswith(("on", "hx-on"))]


async def test_should_serve_each_file_to_be_kept_for_ever(service: Tenants) -> None:
    stranger = await service.client(None)
    for name, file in static_files().items():
        answer = await stranger.get(address_of(name), headers={"Accept-Encoding": "gzip"})
        assert (answer.status_code, answer.content, answer.headers["content-type"]) == (
            200,
            file.content,
            file.media_type,
        )
        assert "immutable" in answer.headers["cache-control"]
        again = await stranger.get(address_of(name), headers={"If-None-Match": file.etag})
        assert (again.status_code, again.content) == (304, b"")
    old = await stranger.get("/ui/static/of-another-release/page.js")
    assert (old.status_code, old.headers["cache-control"]) == (200, "no-cache")
    for missing in ("none.js", "..", "..%2Fpages.py", "style.css%00", "__init__.py"):
        assert (await stranger.get(f"/ui/static/x/{missing}")).status_code in (401, 404)


def test_should_have_a_right_for_every_page_and_nothing_else() -> None:
    routes = {
        (method, str(getattr(route, "path", "")))
        for route in WEB_PAGES.routes
        for method in getattr(route, "methods", ())
    }

    assert {(method, path) for method, path in routes if method != "HEAD" and is_page(path)} == set(PAGE_RIGHTS)
    assert {path for _, path in routes if not is_page(path)} == {"/docs", "/redoc"}, "call_rights has theirs"
