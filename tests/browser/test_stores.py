"""A store of real instances, asked by key from the topology on, without a mouse."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.local_run.local_run import LocalRun
from tests.browser.accessibility import assert_accessible
from tests.browser.keyboard import press_on, tab_to
from tests.browser.pages import Layout, assert_fits
from tests.browser.watched import Watched
from tests.streams_runtime.local_run.test_local_run import application, feed

UNANSWERED = r"console error: Failed to load resource: the server responded with a status of 502"


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[str]:
    """Two instances have counted the words; the coordinator may ask them."""
    feed(tmp_path, 10, "the cat and the dog")
    settings = {"cluster.bootstrap.servers": f"embedded:{tmp_path / 'log'}", "page.store.queries": "on"}
    with (
        CoordinatorProcess(tmp_path / "coordinator", settings) as process,
        LocalRun(application(tmp_path), instances=2, coordinator=process.url) as run,
    ):
        run.wait_until_running()
        run.wait_until_caught_up()
        yield process.url


@pytest.mark.long
def test_should_give_the_value_that_the_instance_has(page: Page, coordinator: str, watched: Watched) -> None:
    watched.origins.add(coordinator)
    watched.expect(UNANSWERED)  # while a task moves to the second instance
    page.goto(f"{coordinator}/ui/groups/words/topology")
    topics = page.get_by_role("region", name="Topics").locator("tbody tr").filter(has_text="repartition")
    expect(topics.get_by_role("cell")).to_contain_text(["repartition", "2"])  # as the cluster has it
    press_on(page, page.get_by_role("link", name="counts", exact=True))
    expect(page.get_by_role("heading", name="Ask a store by key")).to_be_visible()

    for key, heading in (("the", "The value"), ("zebra", "The store has no such key")):
        for _ in range(50):
            tab_to(page, page.locator("#key"))
            page.keyboard.press("Control+A")
            page.keyboard.type(key)
            press_on(page, page.get_by_role("button", name="Ask"))
            if page.get_by_role("alert").count() == 0:
                break
        expect(page.locator("#answer")).to_have_text(heading)
        if key == "the":
            expect(page.locator("#value")).to_have_text("20")
            expect(page.locator(".facts")).to_contain_text("active of 1_")

    for layout in (Layout(360, "dark"), Layout(1280, "light")):
        layout.apply(page)
        assert_fits(page)
        assert_accessible(page)
