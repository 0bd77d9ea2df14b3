"""An operator without a mouse: where the focus is, how it gets somewhere, and whether it can be seen."""

from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect

from tests.browser.scripts import script

_MOST_STOPS = 400

_FOCUSED = script("focused")
_REMEMBER = script("remember_focus")
_UNREACHED = script("unreached")
_IS_SEEN = script("is_seen")
_HAS_PAINTED = script("has_painted")


@dataclass(frozen=True, slots=True)
class Stop:
    """Where the focus is. `words`: what the element is called, or says, or holds; the first 80 characters."""

    tag: str
    id: str
    words: str

    def __str__(self) -> str:
        return f"<{self.tag}{'#' + self.id if self.id else ''}> {self.words!r}"


def focused(page: Page) -> Stop | None:
    """None: nothing has the focus."""
    at = page.evaluate(_FOCUSED)
    return None if at is None else Stop(at["tag"], at["id"], at["words"])


def wait_until_keys_count(page: Page) -> None:
    """Chromium drops keys until a page has painted: a page that a key opened may have all its elements before that."""
    page.wait_for_load_state()
    page.wait_for_function(_HAS_PAINTED)


def tab_to(page: Page, wanted: Locator, *, back: bool = False) -> list[Stop]:
    """Press Tab until `wanted` has the focus. Gives the stops on the way, `wanted` last.

    Fails with the stops when it comes round, and when a stop cannot be seen.
    """
    wait_until_keys_count(page)
    stops: list[Stop] = []
    for _ in range(_MOST_STOPS):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        stop = focused(page)
        if stop is None:
            break
        stops.append(stop)
        assert_focus_is_seen(page)
        if wanted.evaluate("at => at === document.activeElement"):
            return stops
    raise AssertionError(f"Tab does not reach {wanted}; it stops at: {', '.join(map(str, stops)) or 'nothing'}")


def walk(page: Page, presses: int = _MOST_STOPS) -> list[Stop]:
    """All stops of Tab from here to the end of the page; each can be seen."""
    wait_until_keys_count(page)
    stops: list[Stop] = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        stop = focused(page)
        if stop is None:
            return stops
        stops.append(stop)
        assert_focus_is_seen(page)
    return stops


def walk_everywhere(page: Page) -> list[Stop]:
    """`walk`, which must reach each control that can be seen; of radio buttons with one name, one of them."""
    page.evaluate(_REMEMBER)
    stops = walk(page)
    unreached = page.evaluate(_UNREACHED)
    assert not unreached, f"Tab does not reach on {page.url}: {unreached}"
    return stops


def assert_focus_is_seen(page: Page) -> None:
    """The focused element is in view, and has a ring."""
    at = page.locator("*:focus")
    seen = at.evaluate(_IS_SEEN)
    assert seen["inView"], f"the focus is outside of what is shown: {focused(page)}"
    assert seen["ringed"], f"nothing shows that the focus is here: {focused(page)}"


def press_on(page: Page, wanted: Locator, key: str = "Enter") -> None:
    """Reach it by Tab, and press a key there."""
    tab_to(page, wanted)
    expect(wanted).to_be_focused()
    page.keyboard.press(key)
