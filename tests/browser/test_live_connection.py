"""A page left open: a connection that breaks is shown and mends by itself, and ten thousand changes cost no memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.browser.accessibility import assert_accessible
from tests.browser.heap import heap_of
from tests.browser.pages import is_same_page, mark
from tests.browser.watched import Watched
from tests.coordinator_api.group_members import definition
from tests.told import Tell
from tests.warm_coordinator import WarmCoordinator

BROKEN = "The connection to the coordinator is broken"
EVENTS = 10_000
BEFORE = 500
MOST_GROWTH = 1.1
HOLD_THE_STREAM = """
// The page's event stream as the test steers it: `tell(digest)` is what the server would send.
window.EventSource = class extends EventTarget {
  static CLOSED = 2; static OPEN = 1;
  readyState = 1;
  constructor() { super(); window.tell = (digest) => this.dispatchEvent(new MessageEvent('changed', {data: digest})); }
  close() { this.readyState = 2; }
};
"""
ANSWER_HERE = """
// Fetches are answered in the page, from what the coordinator answered before: ten thousand take a minute, not an hour.
(pages) => {
  window.htmx.config.defaultSettleDelay = 0;  // it is there for transitions of CSS
  window.answered = 0;
  window.XMLHttpRequest = class extends EventTarget {
    upload = new EventTarget();
    status = 200;
    open() {}
    overrideMimeType() {}
    setRequestHeader() {}
    getAllResponseHeaders() { return ''; }
    getResponseHeader() { return null; }
    abort() {}
    send() {
      const number = window.answered++;
      this.response = this.responseText =
        pages[number % pages.length].replace('data-digest="', `data-digest="${number}-`);
      queueMicrotask(() => this.onload());
    }
  };
}
"""
TELL_AND_WAIT = """
async ([first, last]) => {
  const settled = () => new Promise((done) => document.body.addEventListener('htmx:afterSettle', done, {once: true}));
  for (let number = first; number < last; number++) {
    const shown = settled();
    window.tell(`digest-${number}`);
    await shown;
  }
}
"""


@pytest.fixture
def coordinator(tmp_path: Path, watched: Watched) -> Iterator[CoordinatorProcess]:
    """Of the test alone, which kills it: it comes back where it was."""
    with WarmCoordinator(tmp_path) as process:
        watched.origins.add(process.url)
        yield process


def declare(coordinator: CoordinatorProcess, group: str) -> None:
    with CoordinatorClient(coordinator.url) as client:
        client.declare(group, definition())


def test_should_show_that_the_connection_is_broken_and_mend_it(
    page: Page, coordinator: CoordinatorProcess, watched: Watched
) -> None:
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
@pytest.mark.timeout(1_800)  # a minute or two on a machine that has nothing else to do
def test_should_cost_no_memory_to_be_left_open_for_ten_thousand_changes(
    page: Page, coordinator: CoordinatorProcess, tell: Tell
) -> None:
    """Each change is a page of its own from the server: other numbers, other rows, another digest."""
    page.add_init_script(HOLD_THE_STREAM)
    pages = recorded_pages(page, coordinator)
    page.goto(f"{coordinator.url}/ui/groups")
    page.evaluate(ANSWER_HERE, pages)
    change(page, 0, BEFORE)
    before = heap_of(page)
    change(page, BEFORE, BEFORE + EVENTS)
    after = heap_of(page)
    tell(
        f"heap {before.bytes_used:,} bytes before, {after.bytes_used:,} after {EVENTS:,} changes; "
        f"nodes {before.nodes} and {after.nodes}, listeners {before.listeners} and {after.listeners}"
    )
    assert page.evaluate("() => window.answered") == BEFORE + EVENTS
    assert after.bytes_used <= MOST_GROWTH * before.bytes_used, (before, after)
    assert after.nodes <= MOST_GROWTH * before.nodes, (before, after)
    assert after.listeners <= MOST_GROWTH * before.listeners, (before, after)


def recorded_pages(page: Page, coordinator: CoordinatorProcess) -> list[str]:
    """The list as the coordinator serves it with one group, two, up to ten."""
    pages = []
    for number in range(10):
        declare(coordinator, f"group-{number}")
        while (answer := page.request.get(f"{coordinator.url}/ui/groups")).text().count("<tr id=") <= number:
            page.wait_for_timeout(50)
        pages.append(answer.text())
    return pages


def change(page: Page, first: int, last: int) -> None:
    """In steps: one call of the page has a time limit."""
    for start in range(first, last, 100):
        page.evaluate(TELL_AND_WAIT, [start, min(start + 100, last)])
