"""What each page of a group owes everybody: it fits, shuts nobody out, and can be walked by keyboard."""

import uuid
from collections.abc import Iterator
from itertools import pairwise

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.few_members import FewMembers
from tests.browser.keyboard import press_on, walk_everywhere
from tests.browser.pages import Layout, assert_fits
from tests.coordinator_api.reported_rebalances import NOW_MS, new_name, reported
from tests.coordinator_api.service_process import ServiceProcess
from tests.known import known

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
    """With two members that came one after the other, so that a task has moved. Both have dropped records."""
    with service.client() as client:
        group = FewMembers(client, f"orders-{uuid.uuid4().hex[:8]}").declare().join(1).join(1)
        for number, member in enumerate(group.members):
            dropped = {"code": "RECORDS_DROPPED", "text": f"{number + 1} records", "count": 1, "at_ms": 1}
            members = {member.member_id: {"generation_id": member.generation_id}}
            sent = client.post(f"{member.path}/heartbeat", json={"members": members, "notices": [dropped]})
            assert sent.is_success, sent.text
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


def test_should_open_rebalances_that_share_a_symbol(page: Page, origin: str, client: httpx.Client) -> None:
    """Three rebalances within two seconds, and one an hour later."""
    group = new_name()
    for generation, after_ms in ((1, 0), (2, 1_000), (3, 2_000), (4, 3_600_000)):
        told = {**reported(group, generation), "now_ms": NOW_MS + after_ms}
        assert client.post(f"/v1/groups/{group}/rebalances", json=told).is_success
    page.goto(f"{origin}/ui/groups/{group}/time")
    several = page.get_by_role("link", name="3 rebalances, generations 1 to 3")
    expect(several.locator("text")).to_have_text("3")

    press_on(page, several)

    expect(page.locator("#passed tbody th")).to_have_text(["3", "2", "1"])
    expect(page.locator(".picture g.one")).to_have_count(3)
    assert_accessible(page)
    assert client.delete(f"/v1/groups/{group}").is_success


def test_should_show_the_columns_first_that_matter_on_a_narrow_screen(page: Page, origin: str, group: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{origin}/ui/groups/{group}/time")
    row = page.locator("#passed tbody tr").first
    assert_fits(page)
    tops = {
        name: known(row.locator(f"> [data-title='{name}'], > {name}").bounding_box())["y"]
        for name in ("th", "When", "Because", "What followed", "Took", "Before", "After")
    }
    assert list(tops) == sorted(tops, key=tops.__getitem__)
    symbols = page.locator(".time-line .one, .time-line .several")
    expect(symbols.last).to_be_in_viewport()
    expect(symbols.first).not_to_be_in_viewport()


def test_should_leave_air_between_rows_of_tasks(page: Page, origin: str, client: httpx.Client) -> None:
    group = FewMembers(client, f"many-{uuid.uuid4().hex[:8]}").declare(partitions=24).join(1)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{origin}/ui/groups/{group.id}")
    boxes = [known(each.bounding_box()) for each in page.locator("#grid .task").all()]
    rows = sorted({box["y"] for box in boxes})
    assert len(rows) > 1
    assert min(after - before for before, after in pairwise(rows)) >= boxes[0]["height"] + 6
    group.remove()


def test_should_move_and_zoom_the_topology(page: Page, origin: str, group: str, client: httpx.Client) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{origin}/ui/groups/{group}/topology")
    picture = page.locator("svg.topology")

    def view() -> tuple[float, float, float, float]:
        x, y, width, height = map(float, known(picture.get_attribute("viewBox")).split())
        return x, y, width, height

    at_first = view()
    assert at_first[2] < 600, "the picture begins at a size that can be read"
    press_on(page, page.get_by_role("button", name="Zoom in"))
    zoomed = view()
    assert zoomed[2] < at_first[2]
    press_on(page, page.get_by_role("region", name="Picture of the topology"), "ArrowRight")
    moved = view()
    assert moved[0] > zoomed[0]
    digest = known(page.locator("#live").get_attribute("data-digest"))
    assert client.post(f"/v1/groups/{group}/pause").is_success
    expect(page.locator("#live")).not_to_have_attribute("data-digest", digest)
    assert view() == moved, "the picture stays where it is when the page changes"
    box = known(picture.bounding_box())
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 50)
    page.mouse.up()
    assert view()[0] < moved[0], "the picture follows the mouse"
    page.get_by_role("region", name="Picture of the topology").press("0")
    assert view()[2] >= float(known(picture.get_attribute("data-width"))), "the whole picture is visible"
    assert client.post(f"/v1/groups/{group}/resume").is_success


def test_should_keep_the_notices_of_each_instance_open_while_the_page_changes(
    page: Page, origin: str, group: str, client: httpx.Client
) -> None:
    page.goto(f"{origin}/ui/groups/{group}")
    reasons = page.get_by_role("list", name="Reasons for the health").locator("> li")
    expect(reasons).to_contain_text(
        ["Degraded Records were dropped: 2 records (the newest of 2 instances, which report"]
    )
    notice = reasons.get_by_role("listitem").filter(has_text="1 records")
    expect(notice).to_be_hidden()
    reasons.get_by_text("2 instances", exact=True).click()
    expect(notice).to_be_visible()
    assert client.post(f"/v1/groups/{group}/pause").is_success
    expect(reasons).to_contain_text(["An operator has paused the group.", "Records were dropped"])
    expect(notice).to_be_visible()
    assert client.post(f"/v1/groups/{group}/resume").is_success
