"""The levers in a browser: each is pulled by mouse and by keyboard alone, and the group is then as the page says."""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.few_members import FewMembers
from tests.browser.keyboard import press_on, tab_to
from tests.browser.pages import Layout, assert_fits
from tests.browser.watched import Watched
from tests.coordinator_api.group_members import CHANGELOG, HttpMember, settle
from tests.coordinator_api.held_rebalance import ALL, held_rebalance, wait_until_held
from tests.known import known

REFUSED = r"console error: Failed to load resource: the server responded with a status of 422"
LAYOUTS = (Layout(360, "light"), Layout(360, "dark"), Layout(1280, "light"), Layout(1280, "dark"))


class Mouse:
    """An operator who clicks."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def press(self, button: Locator) -> None:
        button.click()

    def write(self, field: Locator, text: str) -> None:
        field.click(click_count=3)
        self._page.keyboard.type(text)

    def choose_first(self, choices: Locator) -> None:
        choices.select_option(index=1)

    def tick(self, box: Locator) -> None:
        box.click()


class Keyboard:
    """An operator without a mouse: Tab leads to everything."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def press(self, button: Locator) -> None:
        press_on(self._page, button)

    def write(self, field: Locator, text: str) -> None:
        tab_to(self._page, field)
        self._page.keyboard.press("Control+A")
        self._page.keyboard.type(text)

    def choose_first(self, choices: Locator) -> None:
        press_on(self._page, choices, "ArrowDown")

    def tick(self, box: Locator) -> None:
        press_on(self._page, box, "Space")


Operator = Mouse | Keyboard
Two = tuple[HttpMember, HttpMember]


@pytest.fixture(params=[Mouse, Keyboard], ids=["mouse", "keyboard"])
def operator(request: pytest.FixtureRequest, page: Page) -> Operator:
    made: Operator = request.param(page)
    return made


@pytest.fixture
def waiting(client: httpx.Client) -> Iterator[Two]:
    """Two members whose rebalance waits for approval."""
    first, second = held_rebalance(client)
    yield first, second
    for member in (first, second):
        member.leave()
    client.delete(first.path)


@pytest.fixture
def group(client: httpx.Client) -> Iterator[FewMembers]:
    """Two members that are balanced. Their state is so short that whoever gets a task has caught up at once."""
    group = FewMembers(client, f"steered-{uuid.uuid4().hex[:8]}")
    group.declare(changelog_end_offsets={CHANGELOG: [50] * 4}).join(2)
    yield group
    group.remove()


def open_levers(page: Page, origin: str, path: str) -> None:
    page.goto(f"{origin}/ui/groups/{path.rpartition('/')[2]}/levers")
    expect(page.get_by_role("heading", name="Hold rebalances")).to_be_visible()


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def levers(group: FewMembers) -> dict[str, Any]:
    found: dict[str, Any] = group.client.get(f"/v1/groups/{group.id}").json()["levers"]
    return {name: lever for name, lever in found.items() if lever}


def hold_of(member: HttpMember, generation_id: int) -> dict[str, object]:
    """What the group's history says of the rebalance that waited."""
    listed = member.client.get(f"{member.path}/rebalances").json()["rebalances"]
    found: dict[str, object] = next(each["hold"] for each in listed if each["generation_id"] == generation_id)
    return found


def expect_done(page: Page, words: str) -> None:
    expect(page.locator("main > [role=status]")).to_have_text(words)


def test_should_approve_what_waits(page: Page, origin: str, waiting: Two, operator: Operator) -> None:
    first, second = waiting
    open_levers(page, origin, first.path)
    held = first.client.get(f"{first.path}/hold").json()["held"]
    expect(page.locator("#waiting")).to_contain_text("Generation 2 was computed")
    moved = [task["task"] for task in held["difference"]["tasks"] if task["active"]["from"] != task["active"]["to"]]
    shown = page.locator("#waiting-tasks tbody tr").filter(has_text="→")
    expect(shown.get_by_role("rowheader")).to_have_text(moved)

    operator.write(page.locator("#approve-reason"), "the sale is over")
    operator.press(button(page, "Approve"))
    expect(page.locator("#would-move tbody th")).to_have_text([task["task"] for task in held["difference"]["tasks"]])
    operator.press(button(page, "Approve the rebalance"))

    expect_done(page, "The rebalance is carried out.")
    settle(first, second)
    assert sorted(second.active), "the tasks went where the page said"
    assert hold_of(first, 2).items() >= {"ended": "approved", "reason": "the sale is over"}.items()
    expect(page.locator("#waiting")).to_contain_text("None waits now.")


def test_should_discard_what_waits_with_a_reason(page: Page, origin: str, waiting: Two, operator: Operator) -> None:
    first, _ = waiting
    open_levers(page, origin, first.path)

    operator.press(button(page, "Discard"))
    assert "done=" not in page.url, "a form without its reason is not sent"
    page.reload()
    operator.write(page.locator("#discard-reason"), "not during the sale")
    operator.press(button(page, "Discard"))

    expect_done(page, "The rebalance is discarded; tasks stay where they are.")
    expect(page.locator("#waiting")).to_contain_text("None waits now.")
    assert hold_of(first, 2).items() >= {"ended": "discarded", "reason": "not during the sale"}.items()


def test_should_hold_wait_promote_and_pause(page: Page, origin: str, group: FewMembers, operator: Operator) -> None:
    open_levers(page, origin, group.id)

    operator.write(page.locator("#hold-minutes"), "30")
    operator.write(page.locator("#hold-reason"), "a sale")
    operator.press(button(page, "Hold rebalances"))
    expect_done(page, "Rebalances that move tasks now wait for approval.")
    operator.write(page.locator("#grace-seconds"), "90")
    operator.press(button(page, "Wait for members that leave"))
    expect_done(page, "Tasks of members that leave now wait for them.")
    operator.press(button(page, "Promote when caught up"))
    expect_done(page, "The next rebalance comes as soon as the warm-ups have caught up.")
    operator.write(page.locator("#pause-reason"), "a new schema")
    operator.press(button(page, "Pause"))
    expect_done(page, "Members process nothing until it is resumed.")

    pulled = levers(group)
    assert sorted(pulled) == ["hold", "pause", "promotion", "rejoin_grace"]
    assert (pulled["hold"]["time_limit_ms"], pulled["hold"]["reason"]) == (1_800_000, "a sale")
    assert pulled["rejoin_grace"]["grace_ms"] == 90_000
    assert pulled["pause"]["reason"] == "a new schema"
    for name in ("Resume", "Wait for the probing deadline", "Wait for nobody", "Hold no more"):
        operator.press(button(page, name))
        expect(button(page, name)).to_have_count(0)
    assert levers(group) == {}


def test_should_drain_until_it_is_safe_to_stop(page: Page, origin: str, group: FewMembers, operator: Operator) -> None:
    open_levers(page, origin, group.id)

    operator.choose_first(page.get_by_label("Instance or member"))
    operator.write(page.locator("#drain-reason"), "a new machine")
    operator.press(button(page, "Drain"))
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(rf"Drain {group.id}-[01]\?"))
    would_move = page.locator("#would-move tbody th").all_inner_texts()
    assert levers(group) == {}, "nothing is done before the confirmation"
    drained = next(each for each in group.members if sorted(each.active) == would_move)
    operator.press(page.get_by_role("button", name=re.compile("^Drain ")))

    expect_done(page, "The drain has begun; the table says when it is safe to stop.")
    safe = page.locator("#drained tbody td").first
    expect(safe).to_contain_text("Not yet")
    (lever,) = levers(group)["drained"]
    assert (lever["reason"], lever["process_id"]) == ("a new machine", drained.process_id)
    expect(safe).to_contain_text("a rebalance is under way")  # before that there is nothing to follow
    group.settle()
    expect(safe).to_have_text("Yes")
    assert not drained.active, "the tasks moved that the page said"
    operator.press(page.get_by_role("button", name="End the drain"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("End the drain of")
    operator.press(page.locator("#confirm").get_by_role("button"))
    expect_done(page, "The drain has ended, and tasks may come again.")
    assert levers(group) == {}


def test_should_rebalance_and_stop_all(page: Page, origin: str, group: FewMembers, operator: Operator) -> None:
    open_levers(page, origin, group.id)
    before = group.client.get(f"/v1/groups/{group.id}").json()["generation_id"]

    operator.write(page.locator("#rebalance-reason"), "to see it")
    operator.press(button(page, "Rebalance now"))
    expect(page.locator("main")).to_contain_text("Nothing has been done yet.")
    operator.press(page.get_by_role("link", name="Cancel"))
    expect(page.get_by_role("heading", name="Hold rebalances")).to_be_visible()
    assert group.client.get(f"/v1/groups/{group.id}").json()["state"] == "Stable"
    operator.write(page.locator("#rebalance-reason"), "to see it")
    operator.press(button(page, "Rebalance now"))
    expect(page.locator("#confirm")).to_be_visible()
    operator.press(page.locator("#confirm").get_by_role("button", name="Rebalance now"))
    expect_done(page, "A rebalance starts.")
    group.settle()
    assert group.client.get(f"/v1/groups/{group.id}").json()["generation_id"] > before
    operator.tick(page.get_by_label("I want the whole application to stop"))
    operator.press(button(page, "Tell all members to stop"))
    expect_done(page, "The coordinator tells every member to stop.")
    assert group.client.get(f"/v1/groups/{group.id}").json()["draining"] is True


def test_should_keep_typed_text_meanwhile(page: Page, origin: str, client: httpx.Client, group: FewMembers) -> None:
    open_levers(page, origin, group.id)
    page.locator("#hold-minutes").fill("45")
    page.locator("#hold-reason").fill("a sale")
    page.get_by_label("Instance or member").select_option(index=1)

    client.post(f"/v1/groups/{group.id}/pause", params={"reason": "by somebody else"})

    expect(page.locator("#live")).to_contain_text("by somebody else")
    expect(page.locator("#hold-minutes")).to_have_value("45")
    expect(page.locator("#hold-reason")).to_have_value("a sale")
    assert page.get_by_label("Instance or member").evaluate("at => at.selectedIndex") == 1


def test_should_say_beside_the_form_what_is_wrong(page: Page, origin: str, group: FewMembers, watched: Watched) -> None:
    watched.expect(REFUSED)
    open_levers(page, origin, group.id)
    page.locator("#hold-minutes").fill("soon")
    page.locator("#hold-reason").fill("a sale")

    button(page, "Hold rebalances").click()

    expect(page.get_by_role("alert")).to_contain_text("must be a whole number of minutes from 1 to 10,080, not soon")
    expect(page.locator("#hold-minutes")).to_have_value("soon")
    expect(page.locator("#hold-reason")).to_have_value("a sale")
    page.get_by_role("alert").get_by_role("link").click()
    expect(page.locator("#hold-minutes")).to_be_focused()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_should_fit_and_shut_nobody_out(page: Page, origin: str, waiting: Two, layout: Layout) -> None:
    first, second = waiting
    drained = {"instance": first.process_id, "reason": "a new machine"}
    assert first.client.post(f"{first.path}/drain", params=drained).is_success
    first.subscribe()
    second.subscribe(dict.fromkeys(ALL, 1_000))
    wait_until_held(first)
    layout.apply(page)
    open_levers(page, origin, first.path)
    expect(page.locator("#drained")).to_be_visible()
    expect(button(page, "Approve")).to_be_visible()
    box, words = (known(page.locator(each).bounding_box()) for each in ("#sure", "label[for=sure]"))
    assert box["x"] + box["width"] <= words["x"], "the box stands before its words"
    assert_fits(page)
    assert_accessible(page)
    button(page, "Approve").click()
    expect(page.get_by_role("button", name="Approve the rebalance")).to_be_visible()
    assert_fits(page)
    assert_accessible(page)
