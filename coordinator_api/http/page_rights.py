"""Which right each address of the web page needs, and where a browser's token is: in a cookie that counts below /ui.

The addresses are no part of the OpenAPI document: they answer people, and change with the page. A call below /v1 never
looks at the cookie, so that no other web page can have a browser make one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from assignor.access.principals import Principal, Right

PAGE = "/ui"
LOGIN = "/ui/login"
SESSION_COOKIE = "assignor_session"

PAGE_RIGHTS: Mapping[tuple[str, str], Right] = {
    ("GET", "/ui"): Right.READER,
    ("GET", "/ui/login"): Right.READER,
    ("POST", "/ui/login"): Right.READER,
    ("POST", "/ui/logout"): Right.READER,
    ("GET", "/ui/static/{digest}/{file}"): Right.READER,
    ("GET", "/ui/events"): Right.READER,
    ("GET", "/ui/groups"): Right.READER,
    ("GET", "/ui/groups.json"): Right.READER,
    ("GET", "/ui/groups/{group}"): Right.READER,
    ("GET", "/ui/groups/{group}/events"): Right.READER,
    ("GET", "/ui/groups/{group}/time"): Right.READER,
    ("GET", "/ui/groups/{group}/time/events"): Right.READER,
    ("GET", "/ui/groups/{group}/what-if"): Right.READER,
    ("GET", "/ui/groups/{group}/grid.json"): Right.READER,
    ("GET", "/ui/groups/{group}/levers"): Right.READER,
    ("POST", "/ui/groups/{group}/levers"): Right.OPERATOR,
    ("GET", "/ui/groups/{group}/tasks/{task}"): Right.READER,
    ("GET", "/ui/groups/{group}/tasks/{task}/events"): Right.READER,
    ("GET", "/ui/groups/{group}/topology"): Right.READER,
    # what a store has is the application's own data
    ("GET", "/ui/groups/{group}/stores"): Right.OPERATOR,
}
"""Method and address, as FastAPI has it, to the lowest right that may call it."""

VISITOR = Principal("a visitor", Right.READER, group_prefix="/")
"""Who has not said who it is. It sees no group: no id begins so."""


def is_page(path: str) -> bool:
    return path == PAGE or path.startswith(PAGE + "/")


def is_open_page(path: str) -> bool:
    """The login, and the files that every page is made of: a browser has them before it has a token."""
    return path == LOGIN or (path.startswith("/ui/static/") and path.count("/") == 4)


def cookie_value(token: bytes) -> str:
    """A token may have any bytes, and a cookie may not."""
    return base64.urlsafe_b64encode(token).decode("ascii").rstrip("=")


def token_of_cookie(headers: Mapping[str, str]) -> bytes | None:
    """The token that a browser carries; None without any. `headers` have lower-case names."""
    sent = headers.get("cookie")
    if sent is None:
        return None
    try:
        found = SimpleCookie(sent).get(SESSION_COOKIE)
        value = "" if found is None else found.value
        return base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True) or None
    except (CookieError, binascii.Error, ValueError):
        return None


def with_session(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers by which a caller of a page is known: a token of the cookie counts as one that was sent."""
    token = None if "authorization" in headers else token_of_cookie(headers)
    if token is None:
        return headers
    return {**headers, "authorization": f"Bearer {token.decode('latin-1')}"}
