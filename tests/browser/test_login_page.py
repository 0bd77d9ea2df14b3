"""Who may look: the form takes a token, and a cookie keeps it that no script can read."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.keyboard import press_on, tab_to
from tests.browser.pages import LAYOUTS, Layout, assert_fits
from tests.browser.watched import Watched
from tests.coordinator_api.group_members import definition
from tests.coordinator_api.service_process import ServiceProcess

ADMIN = "the-token-of-an-administrator"
REFUSED = r"console error: Failed to load resource: the server responded with a status of 401"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """One that wants a token. It has a group, which a reader may see, and another."""
    directory = tmp_path_factory.mktemp("service")
    (directory / "token").write_text(ADMIN)
    (directory / "token").chmod(0o600)
    with ServiceProcess(directory, "--auth-token-file", str(directory / "token")) as process:
        with process.client(ADMIN) as client:
            for group in ("shop-orders", "secret"):
                assert client.put(f"/v1/groups/{group}", json=definition()).status_code == 201
        yield process


def log_in(page: Page, origin: str, token: str) -> None:
    page.goto(f"{origin}/ui/groups")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Groups", level=1)).to_be_visible()


def test_should_keep_the_token_from_scripts_and_sites(page: Page, origin: str, context: BrowserContext) -> None:
    log_in(page, origin, ADMIN)
    (cookie,) = context.cookies(f"{origin}/ui/groups")
    expected = {"name": "assignor_session", "path": "/ui", "httpOnly": True, "sameSite": "Strict", "secure": False}
    assert expected.items() <= cookie.items()
    assert page.evaluate("() => document.cookie") == ""
    assert ADMIN not in page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert context.cookies(f"{origin}/v1/groups") == []


def test_should_say_that_a_token_is_not_known(page: Page, origin: str, watched: Watched) -> None:
    watched.expect(REFUSED)
    page.goto(f"{origin}/ui/groups")
    page.get_by_label("Token").fill("guessed")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("This token is not known here, or has expired.")
    expect(page.get_by_label("Token")).to_have_value("")
    assert_accessible(page)


def test_should_log_in_and_out_by_keyboard_alone(page: Page, origin: str) -> None:
    page.goto(f"{origin}/ui/groups")
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(ADMIN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Groups", level=1)).to_be_visible()
    press_on(page, page.get_by_role("button", name="Log out"))
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(f"{origin}/ui/groups")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Log in"))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_should_fit_and_shut_nobody_out(page: Page, origin: str, layout: Layout) -> None:
    layout.apply(page)
    page.goto(f"{origin}/ui/login")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert_fits(page)
    assert_accessible(page)
