"""What is asked of every page: that it fits a screen of each size, in light and dark, and is not loaded anew."""

from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import Page

from tests.browser.scripts import script

_HEIGHTS = {360: 740, 1280: 800, 3840: 2160}
_WIDER = script("wider")


@dataclass(frozen=True, slots=True)
class Layout:
    """A screen of this width, in CSS pixels, of somebody who likes it light or dark."""

    width: int
    scheme: Literal["light", "dark"]

    def apply(self, page: Page) -> None:
        page.set_viewport_size({"width": self.width, "height": _HEIGHTS[self.width]})
        page.emulate_media(color_scheme=self.scheme)

    def __str__(self) -> str:
        return f"{self.width}-{self.scheme}"


LAYOUTS = (
    Layout(360, "light"),
    Layout(360, "dark"),
    Layout(1280, "light"),
    Layout(1280, "dark"),
    Layout(3840, "light"),
)


def assert_fits(page: Page) -> None:
    """Nothing stands out to the right: the page is not scrolled sideways. Regions of it may be."""
    wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{page.url} is {wide} px too wide: {page.evaluate(_WIDER)}"


def mark(page: Page) -> None:
    """So that `is_same_page` can tell whether it was loaded again."""
    page.evaluate("() => { window.markedByTheTest = true }")


def is_same_page(page: Page) -> bool:
    return bool(page.evaluate("() => window.markedByTheTest === true"))
