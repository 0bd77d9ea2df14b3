"""The helpers of these tests find what they look for: each is shown a page that has the fault."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.accessibility import assert_accessible, findings
from tests.browser.chromium import BrowserMissing, browser_path, browser_required
from tests.browser.watched import Watched

ORIGIN = "http://page.test"
POLICY = "default-src 'none'; script-src 'self'; connect-src http://page.test http://elsewhere.test"
SOUND = "<!doctype html><html lang=en><title>A page</title><main><h1>A page</h1>{}</main>"


@pytest.fixture
def unwatched(chromium: Browser) -> Iterator[BrowserContext]:
    """A context whose faults fail no test."""
    context = chromium.new_context()
    yield context
    context.close()


@pytest.fixture
def seen(unwatched: BrowserContext) -> Watched:
    return Watched(unwatched, {ORIGIN})


@pytest.fixture
def shown(unwatched: BrowserContext, seen: Watched) -> Page:
    return unwatched.new_page()


def show(page: Page, body: str, script: str = "", policy: str = POLICY) -> None:
    """A page of `ORIGIN` with one script, which is of the same origin."""
    html = SOUND.format(body) + '<script src="/page.js"></script>'
    page.route(f"{ORIGIN}/page.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    page.route("http://elsewhere.test/**", lambda route: route.fulfill(body="", headers=_ANYBODY))
    page.route(
        f"{ORIGIN}/",
        lambda route: route.fulfill(
            body=html, content_type="text/html", headers={"Content-Security-Policy": policy} if policy else {}
        ),
    )
    page.goto(f"{ORIGIN}/")


_ANYBODY = {"Access-Control-Allow-Origin": "*"}


@pytest.mark.parametrize(
    "script, told",
    [
        ("console.error('it broke')", f"console error: it broke ({ORIGIN}/page.js)"),
        ("console.warn('it creaks')", f"console warning: it creaks ({ORIGIN}/page.js)"),
        ("setTimeout(() => { throw new Error('unforeseen') })", "uncaught: Error: unforeseen"),
        ("fetch('http://elsewhere.test/x')", "request to another origin: GET http://elsewhere.test/x"),
        (
            "document.body.append(Object.assign(document.createElement('style'), {textContent: 'p {}'}))",
            "console error: Content-Security-Policy: style-src-elem forbids inline",
        ),
        (
            "fetch('http://third.test/')",
            "console error: Content-Security-Policy: connect-src forbids http://third.test/",
        ),
    ],
    ids=["error", "warning", "uncaught", "another origin", "inline style", "forbidden address"],
)
def test_should_find_what_a_page_must_not_do(shown: Page, seen: Watched, script: str, told: str) -> None:
    show(shown, "", f"{script}; setTimeout(() => {{ document.title = 'done' }}, 50)")
    expect(shown).to_have_title("done")
    assert any(line.startswith(told) for line in seen.found), seen.found
    seen.expect(r"^(console|uncaught|request)")
    assert seen.unexpected() == []


def test_should_say_what_shuts_people_out(shown: Page) -> None:
    show(shown, '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><input>', policy="")
    assert [line.partition(":")[0] for line in findings(shown)] == ["image-alt (critical)", "label (critical)"]
    with pytest.raises(AssertionError, match=r"image-alt \(critical\): .*\n    img: .*alt attribute"):
        assert_accessible(shown)


def test_should_require_the_browser_in_ci_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert browser_required({"CI": "true"})
    assert not browser_required({})
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BrowserMissing, match="`make browser` installs Chromium"):
        browser_path()
