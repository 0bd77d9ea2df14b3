"""What each page of a group owes everybody: it fits, shuts nobody out, and can be walked by keyboard."""

import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.few_members import FewMembers
from tests.browser.keyboard import walk_everywhere
from tests.browser.pages import Layout, assert_fits
from tests.coordinator_api.service_process import ServiceProcess

VIEWS = {
    "group": "",
    "time": "/time",
    "compare": "/time?before=1&after=2",
    "task": "/tasks/0_1",
    "topology": "/topology",
    "what-if": "/what-if",
    "what-if-answered": "/what-if?add=1x2&standbys=1",
    "levers": "/levers",
}
LAYOUTS = (Layout(360, "light"), Layout(1280, "dark"), Layout(3840, "light"))


@pytest.fixture(scope="module")
def group(service: ServiceProcess) -> Iterator[str]:
    """With two members that came one after the other, so that a task has moved."""
    with service.client() as client:
        group = FewMembers(client, f"orders-{uuid.uuid4().hex[:8]}").declare().join(1).join(1)
        yield group.id
        group.remove()


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_should_fit_and_shut_nobody_out(page: Page, origin: str, group: str, view: str) -> None:
    page.goto(f"{origin}/ui/groups/{group}{view}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert walk_everywhere(page)[0].words == "Skip to the content"
    for layout in LAYOUTS:
        layout.apply(page)
        assert_fits(page)
        if layout.width < 3840:  # nothing but the size of the letters is different there
            assert_accessible(page)
