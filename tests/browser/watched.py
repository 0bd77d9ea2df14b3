"""What a page must not do while a test looks at it: complain, fail, ask another origin, or break its own policy."""

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, WebError

from tests.browser.scripts import script

_TELL_OF_BROKEN_POLICY = script("tell_of_broken_policy")
_COMPLAINTS = frozenset({"error", "warning", "assert"})


@dataclass
class Watched:
    """All pages of one context, from their first byte on.

    `origins`: scheme://host:port that they may ask. `found`: what they did wrong, one line each.
    """

    context: BrowserContext
    origins: set[str] = field(default_factory=set)
    found: list[str] = field(default_factory=list)
    _expected: list[re.Pattern[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context.add_init_script(_TELL_OF_BROKEN_POLICY)
        self.context.on("console", self._said)
        self.context.on("weberror", self._failed)
        self.context.on("request", self._asked)
        self.context.on("page", lambda page: page.on("websocket", lambda socket: self._opened(page, socket.url)))

    def expect(self, pattern: str) -> None:
        """A fault that this test brings about itself, such as a connection that it breaks."""
        self._expected.append(re.compile(pattern))

    def unexpected(self) -> list[str]:
        return [line for line in self.found if not any(pattern.search(line) for pattern in self._expected)]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in _COMPLAINTS:
            self.found.append(f"console {message.type}: {message.text} ({message.location['url']})")

    def _failed(self, error: WebError) -> None:
        self.found.append(f"uncaught: {error.error.stack or error.error.message}")

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in ("data", "about"):
            return
        if f"{address.scheme}://{address.netloc}" not in self.origins:
            self.found.append(f"request to another origin: {request.method} {request.url}")

    def _opened(self, page: Page, url: str) -> None:
        self.found.append(f"web socket to {url} from {page.url}")
