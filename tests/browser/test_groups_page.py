"""The list of groups: what it says, search, order, live updates, and an operator without a mouse."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.few_members import FewMembers
from tests.browser.keyboard import press_on, tab_to, walk_everywhere
from tests.browser.pages import LAYOUTS, Layout, assert_fits, is_same_page, mark
from tests.coordinator_api.service_process import ServiceProcess

WORST_FIRST = ["orders", "payments", "clicks"]
"""The first is paused, the second has no members yet, and the third does well."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """Of this file alone: three groups, and tests that add others remove them."""
    flags = ("--group-initial-rebalance-delay-ms", "100")
    with ServiceProcess(tmp_path_factory.mktemp("service"), *flags) as process:
        with process.client() as client:
            FewMembers(client, "orders").declare().join(2)
            assert client.post("/v1/groups/orders/pause", params={"reason": "a sale"}).is_success
            FewMembers(client, "clicks").declare().join(1)
            FewMembers(client, "payments").declare()
        yield process


@pytest.fixture
def zebra(client: httpx.Client) -> Iterator[FewMembers]:
    """A group that is not declared yet. It is gone when the test is over."""
    group = FewMembers(client, "zebra")
    yield group
    group.remove()


def names(page: Page) -> Locator:
    return page.locator("tbody th a")


def row(page: Page, group: str) -> Locator:
    return page.locator("tbody tr").filter(has=page.get_by_role("link", name=group, exact=True))


def test_should_search_while_one_types(page: Page, origin: str) -> None:
    page.goto(f"{origin}/ui/groups")
    mark(page)
    page.get_by_role("searchbox", name="Search").press_sequentially("pay")
    expect(names(page)).to_have_text(["payments"])
    expect(page.get_by_role("status").filter(has_text="1 of 3 groups")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/ui/groups\?.*q=pay"))
    assert is_same_page(page)
    page.reload()
    expect(names(page)).to_have_text(["payments"])
    page.get_by_role("searchbox", name="Search").fill("nothing of that name")
    page.get_by_role("link", name="Show all 3 groups").click()
    expect(names(page)).to_have_text(WORST_FIRST)


def test_should_show_what_changes_without_being_loaded_again(page: Page, origin: str, zebra: FewMembers) -> None:
    page.goto(f"{origin}/ui/groups")
    expect(names(page)).to_have_text(WORST_FIRST)
    mark(page)
    page.get_by_role("link", name="orders", exact=True).focus()
    zebra.declare()
    expect(row(page, "zebra").get_by_role("cell")).to_contain_text(["Busy", "No instance has joined yet.", "0"])
    zebra.join(3)
    expect(row(page, "zebra").get_by_role("cell")).to_contain_text(["OK", "–", "3", "4 of 4"])
    zebra.leave()
    expect(row(page, "zebra").get_by_role("cell")).to_contain_text(["Degraded", "No instance is left", "0"])
    expect(names(page)).to_have_text([WORST_FIRST[0], "zebra", *WORST_FIRST[1:]])
    expect(page.get_by_role("link", name="orders", exact=True)).to_be_focused()
    assert is_same_page(page)


def test_should_be_walked_by_keyboard_alone(page: Page, origin: str) -> None:
    page.goto(f"{origin}/ui/groups")
    press_on(page, page.get_by_role("link", name="Skip to the content"))
    expect(page.locator("main")).to_be_focused()
    tab_to(page, page.get_by_role("searchbox", name="Search"))
    page.keyboard.type("orders")
    expect(names(page)).to_have_text(["orders"])
    press_on(page, page.get_by_role("link", name="orders", exact=True))
    expect(page).to_have_url(f"{origin}/ui/groups/orders")


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_should_fit_and_shut_nobody_out(page: Page, origin: str, layout: Layout) -> None:
    layout.apply(page)
    page.goto(f"{origin}/ui/groups")
    expect(names(page)).to_have_text(WORST_FIRST)
    assert_fits(page)
    assert_accessible(page)
    words = [stop.words for stop in walk_everywhere(page)]
    assert words[0] == "Skip to the content"
    assert [word for word in words if word in WORST_FIRST] == WORST_FIRST


def test_should_work_without_scripts_of_its_own(page: Page, origin: str) -> None:
    """Every link and form does without JavaScript."""
    page.route("**/*.js*", lambda route: route.fulfill(body="", content_type="text/javascript"))
    page.goto(f"{origin}/ui/groups")
    page.get_by_role("searchbox", name="Search").fill("click")
    page.keyboard.press("Enter")
    expect(names(page)).to_have_text(["clicks"])
