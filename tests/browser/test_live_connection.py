"""A page left open: a connection that breaks is shown and mends by itself, and ten thousand changes cost no memory."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.browser.accessibility import assert_accessible
from tests.browser.few_members import FewMembers
from tests.browser.heap import heap_of
from tests.browser.pages import is_same_page, mark
from tests.browser.replayed_changes import TOLD_AT_ONCE, ReplayedChanges, replaying
from tests.browser.watched import Watched
from tests.coordinator_api.group_members import definition
from tests.told import Tell
from tests.warm_coordinator import WarmCoordinator

BROKEN = "The connection to the coordinator is broken"
EVENTS = 10_000
BEFORE = 4_000  # until then the browser still makes code of what runs often
A_TENTH = 10  # of the events, for a grid, which takes longer to be changed
RECORDED = 5
MOST_GROWTH = 1.1
LISTENERS_OF_A_REQUEST = 12  # htmx adds them for as long as it is in flight
FOLLOWED_WITHIN_MS = 300_000


@pytest.fixture
def coordinator(tmp_path: Path, watched: Watched) -> Iterator[CoordinatorProcess]:
    """Of the test alone, which kills it: it comes back where it was."""
    with WarmCoordinator(tmp_path) as process:
        watched.origins.add(process.url)
        yield process


def declare(coordinator: CoordinatorProcess, group: str) -> None:
    with CoordinatorClient(coordinator.url) as client:
        client.declare(group, definition())


def test_should_mend_a_broken_connection(page: Page, coordinator: CoordinatorProcess, watched: Watched) -> None:
    watched.expect(r"net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)")
    declare(coordinator, "orders")
    page.goto(f"{coordinator.url}/ui/groups")
    expect(page.locator("tbody th a")).to_have_text(["orders"])
    mark(page)
    coordinator.kill()
    expect(page.get_by_role("status").filter(has_text=BROKEN)).to_be_visible()
    expect(page.locator("tbody th a")).to_have_text(["orders"])
    assert_accessible(page)
    coordinator.start()
    declare(coordinator, "payments")
    expect(page.locator("tbody th a")).to_have_text(["orders", "payments"])
    expect(page.get_by_text(BROKEN)).to_have_count(0)
    assert is_same_page(page)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_should_cost_no_memory_to_be_left_open_for_ten_thousand_changes(
    page: Page, coordinator: CoordinatorProcess, watched: Watched, tell: Tell
) -> None:
    """After each few events the page fetches another answer of the coordinator: other rows, other numbers."""
    changes = ReplayedChanges(coordinator.url, "/ui/groups", recorded_lists(page, coordinator))
    assert_costs_no_memory(page, changes, BEFORE, EVENTS, watched, tell)


@pytest.mark.long
def test_should_leave_a_grid_open_for_free(
    page: Page, coordinator: CoordinatorProcess, watched: Watched, tell: Tell
) -> None:
    """A task has the focus, so that its tip is shown and kept."""
    changes = ReplayedChanges(coordinator.url, "/ui/groups/orders", recorded_grids(page, coordinator))
    focus = page.locator("#grid .task").first.focus
    assert_costs_no_memory(page, changes, BEFORE // A_TENTH * 2, EVENTS // A_TENTH, watched, tell, focus)


def assert_costs_no_memory(
    page: Page,
    changes: ReplayedChanges,
    before_events: int,
    events: int,
    watched: Watched,
    tell: Tell,
    prepare: Callable[[], None] = lambda: None,
) -> None:
    with replaying(changes) as url:
        watched.origins.add(url)
        page.goto(url + changes.page)
        prepare()
        follow(page, changes, before_events)
        before = heap_of(page)
        follow(page, changes, events)
        after = heap_of(page)
        page.goto("about:blank")
    tell(
        f"heap {before.bytes_used:,} bytes before, {after.bytes_used:,} after {events:,} changes; "
        f"nodes {before.nodes} and {after.nodes}, listeners {before.listeners} and {after.listeners}"
    )
    assert changes.answered >= (before_events + events) / TOLD_AT_ONCE
    assert after.bytes_used <= MOST_GROWTH * before.bytes_used, (before, after)
    assert after.nodes <= MOST_GROWTH * before.nodes, (before, after)
    assert after.listeners <= MOST_GROWTH * before.listeners + LISTENERS_OF_A_REQUEST, (before, after)


def recorded_lists(page: Page, coordinator: CoordinatorProcess) -> list[str]:
    """The list's live part as the coordinator serves it with one group, two, up to RECORDED."""
    parts = []
    for number in range(RECORDED):
        declare(coordinator, f"group-{number}")
        while (part := live_part(page, f"{coordinator.url}/ui/groups")).count("<tr id=") <= number:
            page.wait_for_timeout(50)
        parts.append(part)
    return parts


def recorded_grids(page: Page, coordinator: CoordinatorProcess) -> list[str]:
    """A group's live part as the coordinator serves it with one member, two, up to RECORDED."""
    with httpx.Client(base_url=coordinator.url, trust_env=False) as client:
        group = FewMembers(client, "orders").declare(partitions=20)
        return [live_part(page, f"{coordinator.url}/ui/groups/{group.join(1).id}") for _ in range(RECORDED)]


def live_part(page: Page, address: str) -> str:
    return page.request.get(address, headers={"HX-Request": "true"}).text()


def follow(page: Page, changes: ReplayedChanges, count: int) -> None:
    """Until the page shows the last of them."""
    last = changes.play(count)
    expect(page.locator("#live")).to_have_attribute("data-digest", last, timeout=FOLLOWED_WITHIN_MS)
