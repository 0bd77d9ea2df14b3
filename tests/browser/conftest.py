"""One Chromium a worker, a fresh context a test, and a real coordinator process whose page they open."""

import re
from collections.abc import Generator, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.chromium import BrowserMissing, browser_required, running_browser
from tests.browser.watched import Watched
from tests.checkout import ROOT
from tests.coordinator_api.service_process import ServiceProcess

FOLDER = Path(__file__).parent
TIMEOUT_MS = 60_000
INITIAL_DELAY_MS = 100
FAILURES = ROOT / "build" / "browser"
"""Where a failed test leaves what its pages looked like."""

_HAS_FAILED = pytest.StashKey[bool]()

expect.set_options(timeout=TIMEOUT_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_HAS_FAILED] = report.failed
    return report


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Not of the whole session: Playwright's event loop would stand in the way of other packages' own."""
    try:
        with running_browser() as browser:
            yield browser
    except BrowserMissing as missing:
        if browser_required():
            raise
        pytest.skip(str(missing))


@pytest.fixture
def context(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """Nothing is left in it from another test. A test that fails leaves pictures of its pages in build/browser."""
    opened = chromium.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB", timezone_id="UTC")
    opened.set_default_timeout(TIMEOUT_MS)
    yield opened
    if request.node.stash.get(_HAS_FAILED, False):
        _keep_pictures(opened, request.node.nodeid)
    opened.close()


@pytest.fixture
def watched(context: BrowserContext) -> Iterator[Watched]:
    """Fails the test in the end when a page complained, failed, asked another origin or broke its policy."""
    watching = Watched(context)
    yield watching
    assert watching.unexpected() == []


@pytest.fixture
def page(context: BrowserContext, watched: Watched) -> Page:
    return context.new_page()


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """Without a token. A test has a group of its own."""
    flags = ("--group-initial-rebalance-delay-ms", str(INITIAL_DELAY_MS))
    with ServiceProcess(tmp_path_factory.mktemp("service"), *flags) as process:
        yield process


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.client() as http:
        yield http


@pytest.fixture
def origin(service: ServiceProcess, watched: Watched) -> str:
    """Where the coordinator's page is; its pages may ask nobody else."""
    watched.origins.add(service.url)
    return service.url


def _keep_pictures(context: BrowserContext, nodeid: str) -> None:
    FAILURES.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w-]+", "-", nodeid.removeprefix("tests/browser/"))
    for number, page in enumerate(context.pages):
        page.screenshot(path=FAILURES / f"{name}-{number}.png", full_page=True)
