"""The browser of these tests: the Chromium that `make browser` installs from Debian, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--disable-dev-shm-usage",  # a container's /dev/shm is too small for it
    "--font-render-hinting=none",  # letters are as wide in each size and on each machine
    "--js-flags=--expose-gc",
)


class BrowserMissing(Exception):
    """There is none. The message says how to install one."""


def browser_path() -> str:
    """Raises BrowserMissing."""
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    raise BrowserMissing(f"no browser: none of {', '.join(_NAMES)} is on the PATH; `make browser` installs Chromium")


def browser_required(environment: Mapping[str, str] = os.environ) -> bool:
    """CI sets CI=true. There a missing browser is a failure, not a reason to skip."""
    return environment.get("CI", "").lower() in ("1", "true", "yes")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """One Chromium without a window. Raises BrowserMissing.

    It runs without its sandbox: the tests' pages come from this project, and containers forbid the sandbox to root.
    """
    path = browser_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS), chromium_sandbox=False)
        try:
            yield browser
        finally:
            browser.close()
