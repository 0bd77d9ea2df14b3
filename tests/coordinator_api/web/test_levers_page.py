"""The levers on a page: forms that do what the calls below /v1 do, for those who may."""

import json
from pathlib import Path

import httpx
import pytest
from bs4 import BeautifulSoup

from coordinator_api.views import DONE, sentence
from coordinator_api.web.lever_page import LABELS
from tests.coordinator_api.http.tenants import Tenants, join_body
from tests.coordinator_api.reported_rebalances import reported
from tests.coordinator_api.web.visitors import browser_of, declared, form_token, goes_to, send_form, soup
from tests.known import known

PAGE = "/ui/groups/a-1/levers"


@pytest.fixture(autouse=True)
async def group(service: Tenants) -> None:
    await declared(service, "a-1")


async def pull(browser: httpx.AsyncClient, lever: str, **fields: str) -> httpx.Response:
    token = form_token(await browser.get(PAGE))
    return await send_form(browser, PAGE, {"lever": lever, "form_token": token, **fields})


async def confirm(browser: httpx.AsyncClient, asked: httpx.Response) -> httpx.Response:
    """Sends the form that asks for the confirmation of a command."""
    fields = {str(each["name"]): str(each["value"]) for each in soup(asked).select("#confirm input")}
    return await send_form(browser, PAGE, fields)


async def document(service: Tenants) -> dict[str, object]:
    return dict((await (await service.client("olga")).get("/v1/groups/a-1")).json())


def said(page: BeautifulSoup, role: str) -> str:
    return " ".join(" ".join(each.get_text(" ").split()) for each in page.select(f"main > [role={role}]")).strip()


def pulled_levers(of: dict[str, object]) -> dict[str, object]:
    levers = of["levers"]
    assert isinstance(levers, dict)
    return {name: lever for name, lever in levers.items() if lever}


@pytest.mark.parametrize(
    ("on", "fields", "off", "name", "set_to"),
    [
        ("hold", {"hold-minutes": "000015"}, "hold-off", "hold", {"time_limit_ms": 900_000}),
        ("grace", {"grace-seconds": "90"}, "grace-off", "rejoin_grace", {"grace_ms": 90_000}),
        ("promote", {}, "promote-off", "promotion", {}),
        ("pause", {}, "resume", "pause", {}),
    ],
)
async def test_should_set_and_end_a_lever(
    service: Tenants, tmp_path: Path, on: str, fields: dict[str, str], off: str, name: str, set_to: dict[str, int]
) -> None:
    browser = await browser_of(service, "olga")

    answer = await pull(browser, on, reason="Gerät tauschen, 更换磁盘", **fields)

    assert (answer.status_code, goes_to(answer)) == (303, f"{PAGE}?done={on}")
    levers = pulled_levers(await document(service))
    assert list(levers) == [name]
    lever = levers[name]
    assert isinstance(lever, dict)
    assert {**set_to, "reason": "Gerät tauschen, 更换磁盘"}.items() <= lever.items()
    assert lever["by"].startswith("olga, ")
    line = json.loads((tmp_path / "audit.log").read_text(encoding="ascii").splitlines()[-1])
    assert [line[key] for key in ("principal", "right", "call", "group", "status", "code", "effect", "reason")] == [
        *("olga", "operator", "POST /ui/groups/{group}/levers", "a-1", 303, "NONE"),
        *({"lever": on, **set_to}, "Gerät tauschen, 更换磁盘"),
    ]
    shown = soup(await browser.get(goes_to(answer)))
    assert said(shown, "status") == sentence(DONE[on])
    assert "Gerät tauschen, 更换磁盘" in shown.select_one("#live").get_text()  # type: ignore[union-attr]
    assert (await pull(browser, off)).status_code == 303
    assert pulled_levers(await document(service)) == {}


WRONG: tuple[tuple[str, dict[str, str], str, str], ...] = (
    ("hold", {"hold-minutes": "soon"}, "hold-minutes", "must be a whole number of minutes from 1 to 10,080"),
    ("hold", {"hold-minutes": "10081"}, "hold-minutes", "must be a whole number of minutes from 1 to 10,080"),
    ("hold", {"hold-minutes": "5", "reason": "a\u202eb"}, "hold-reason", "without controls"),
    ("grace", {"grace-seconds": ""}, "grace-seconds", "must be a whole number of seconds from 1 to 3,600"),
    ("drain", {"target": ""}, "target", "choose the instance or the member"),
    ("drain", {"target": "instance:"}, "target", "choose the instance or the member"),
    ("discard", {"generation": "3"}, "discard-reason", "say why it is discarded"),
    ("approve", {}, "generation", "load the page again"),
    ("stop-all", {}, "sure", "the whole application stops"),
)
"""Lever, the fields of its form, the wrong one of them, and why it is wrong."""


async def test_should_say_which_field_is_wrong_and_keep_what_was_typed(service: Tenants) -> None:
    browser = await browser_of(service, "olga")
    for lever, fields, field, why in WRONG:
        refused = await pull(browser, lever, **fields)
        assert refused.status_code == 422
        page = soup(refused)
        assert said(page, "alert").startswith(f"{LABELS[field]} : ")
        assert why in said(page, "alert")
        for name, value in fields.items():
            typed = page.select_one(f"#form-{lever} [id={lever + '-' + name if name == 'reason' else name}]")
            assert typed is None or typed.name == "select" or typed["value"] == value
        assert pulled_levers(await document(service)) == {}


async def test_should_say_what_the_group_refuses(service: Tenants) -> None:
    browser = await browser_of(service, "olga")

    nothing_waits = await pull(browser, "approve", generation="7")
    nobody = await pull(browser, "drain", target="member:gone")
    nobody_here = await pull(browser, "rebalance")

    assert [each.status_code for each in (nothing_waits, nobody, nobody_here)] == [409, 404, 404]
    assert all(said(soup(each), "alert").startswith("This was refused: ") for each in (nothing_waits, nobody))
    assert (await pull(browser, "none")).status_code == 422


async def test_should_show_the_levers_to_a_reader_without_forms_and_refuse_it(service: Tenants) -> None:
    olga, rita = await browser_of(service, "olga"), await browser_of(service, "rita")
    assert (await pull(olga, "pause", reason="the disk is full")).status_code == 303

    shown = await rita.get(PAGE)
    page = soup(shown)
    assert shown.status_code == 200
    assert "the disk is full" in page.get_text()
    assert page.select("main form, main button") == []
    assert "not steer" in page.select_one("main").get_text()  # type: ignore[union-attr]
    refused = await send_form(rita, PAGE, {"lever": "resume", "form_token": form_token(shown)})
    assert refused.status_code == 403
    assert list(pulled_levers(await document(service))) == ["pause"]


async def test_should_refuse_a_form_of_another_site(service: Tenants) -> None:
    """`test_login.py` has the ways in which browsers tell."""
    browser = await browser_of(service, "olga")
    token = form_token(await browser.get(PAGE))

    forged = await send_form(browser, PAGE, {"lever": "pause", "form_token": token}, {})
    without = await send_form(browser, PAGE, {"lever": "pause", "form_token": "guessed"})

    assert (forged.status_code, without.status_code) == (403, 403)
    assert pulled_levers(await document(service)) == {}


async def test_should_drain_a_member_tell_when_it_can_be_stopped_and_end_that(service: Tenants) -> None:
    mia = await service.client("mia")
    joined = await mia.post("/v1/groups/a-1/subscriptions", json=join_body())
    assert joined.status_code == 201
    browser = await browser_of(service, "olga")
    targets = [str(each["value"]) for each in soup(await browser.get(PAGE)).select("#target option") if each["value"]]
    assert len(targets) == 1

    asked = await pull(browser, "drain", target=targets[0], reason="a new machine")
    assert asked.status_code == 200
    assert known(soup(asked).select_one("h1")).text.startswith("Drain ")
    assert pulled_levers(await document(service)) == {}, "nothing is done before the confirmation"
    assert (await confirm(browser, asked)).status_code == 303

    page = soup(await browser.get(PAGE))
    (row,) = page.select("#drained tbody tr")
    assert "Not yet" in row.get_text()
    assert "a new machine" in row.get_text()
    assert page.select_one("#target") is None, "nobody is left who could be drained"
    assert (await confirm(browser, await pull(browser, "drain-end", target=targets[0]))).status_code == 303
    assert pulled_levers(await document(service)) == {}


async def test_should_ask_before_the_tasks_of_an_absent_member_go_to_others(service: Tenants) -> None:
    mia, browser = await service.client("mia"), await browser_of(service, "olga")
    assert (await pull(browser, "grace", **{"grace-seconds": "60"})).status_code == 303
    joined = await mia.post("/v1/groups/a-1/subscriptions", json=join_body())
    path = f"/v1/groups/a-1/members/{joined.json()['member_id']}"
    fetched = await mia.get(f"{path}/assignment", params={"min_generation": 1, "wait_ms": 30_000})
    assert fetched.status_code == 200
    assert (await mia.delete(path)).is_success

    asked = await pull(browser, "grace-off")

    assert asked.status_code == 200
    assert "cannot be computed" in soup(asked).get_text(), "nobody is left who could have the tasks"
    assert list(pulled_levers(await document(service))) == ["rejoin_grace"]
    assert (await confirm(browser, asked)).status_code == 303
    assert pulled_levers(await document(service)) == {}


async def test_should_show_the_levers_first_that_help_now(service: Tenants) -> None:
    browser = await browser_of(service, "olga")

    def titles(page: BeautifulSoup) -> list[str]:
        return [each.text for each in page.select(".lever-card > h2")]

    usual = titles(soup(await browser.get(PAGE)))
    assert (await pull(browser, "grace", **{"grace-seconds": "60"})).status_code == 303
    assert (await pull(browser, "pause", reason="the disk is full")).status_code == 303
    page = soup(await browser.get(PAGE))

    assert usual[:2] == ["The rebalance that waits for approval", "Hold rebalances"]
    assert titles(page) == list(dict.fromkeys(("Pause", "Rejoin grace", *usual))), "what helps, then what is on"
    (helps,) = page.select(".helps")
    assert " ".join(helps.get_text(" ").split()) == (
        "Degraded Helps now: An operator has paused the group, because: the disk is full."
    )


async def test_should_tell_all_members_to_stop_when_one_is_sure(service: Tenants) -> None:
    browser = await browser_of(service, "olga")

    assert (await pull(browser, "stop-all", sure="yes")).status_code == 303

    assert (await document(service))["draining"] is True
    assert "Every member is told to stop" in soup(await browser.get(PAGE)).get_text()


async def test_should_say_why_a_group_that_is_led_elsewhere_has_no_levers(service: Tenants) -> None:
    olga = await service.client("olga")
    assert (await olga.post("/v1/groups/jvm/rebalances", json=reported("jvm", 3))).is_success
    browser = await browser_of(service, "olga")

    page = soup(await browser.get("/ui/groups/jvm/levers"))

    assert "It cannot be steered from here" in page.get_text()
    assert page.select("main form") == []
