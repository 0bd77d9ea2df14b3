"""The sessions of browsers, and the protection of forms against pages of other sites.

The session's cookie contains the token itself. Scripts cannot read the cookie. A browser sends the cookie only to
addresses below /ui. The browser sends the cookie only with requests that pages of this service make. The cookie ends
when the browser is closed. A form is accepted only if the browser's headers show that a page of this service sent it. A
form also needs the form token, which only pages of this service have. The form token is an HMAC of the caller's token
with a key of this process.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request
from starlette.responses import Response

from assignor.names.printable import one_line
from coordinator_api.http.call_rights import PAGE, SESSION_COOKIE, cookie_value, principal_of, with_session
from coordinator_api.http.dependencies import body_of
from coordinator_api.http.problems import Problem
from coordinator_api.http.proxies import public_address
from coordinator_client.access.principals import Right

FORM_TOKEN = "form_token"  # noqa: S105 (this is the name of a field)
HOME = f"{PAGE}/groups"
_KEY = secrets.token_bytes(32)
_MOST_FIELDS = 1_000
_BELOW_PAGE = re.compile(r"/ui(/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?")
_NOT_NEXT = re.compile(r"/ui/(login|logout|static|events)([/?]|\Z)|/(\.|%2e)+([/?]|\Z)", re.IGNORECASE)
_LONGEST_ADDRESS = 2_000
_LONGEST_HOST = 300


def form_token(request: Request) -> str:
    """Returns the anti-CSRF token for the forms of this caller."""
    credential = with_session(request.headers).get("authorization", "")
    return hmac.new(_KEY, credential.encode("latin-1"), hashlib.sha256).hexdigest()


def may_steer(request: Request) -> bool:
    """Returns whether the caller may send operator commands."""
    return principal_of(request).may(Right.OPERATOR)


async def checked_form(request: Request) -> Mapping[str, str]:
    """FastAPI dependency. Checks that the form comes from a page of this service. Returns the form's fields without the
    form token. If a field occurs several times, the result has its last value. Raises Problem with status 403 if
    another site sent the form, or if the form token is wrong. Raises Problem with status 415 if the body is not a form,
    and with status 400 if the form cannot be read.
    """
    refusal = _origin_refusal(request)
    if refusal is not None:
        raise Problem("CLUSTER_AUTHORIZATION_FAILED", refusal)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem("INVALID_REQUEST", "a form comes as application/x-www-form-urlencoded", status=415)
    try:
        sent = body_of(request).decode("utf-8")
        fields = dict(parse_qsl(sent, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise Problem("INVALID_REQUEST", "the form cannot be read") from None
    given = fields.pop(FORM_TOKEN, "")
    if not hmac.compare_digest(given.encode("utf-8"), form_token(request).encode("ascii")):
        raise Problem(
            "CLUSTER_AUTHORIZATION_FAILED",
            "the page with this form is out of date: load it again, then send the form again",
        )
    return fields


def _origin_refusal(request: Request) -> str | None:
    """The reason why another site seems to have sent the form; None if a page of this service sent it. Browsers set the
    headers Sec-Fetch-Site and Origin, and pages cannot change these headers. Every current browser sends
    Sec-Fetch-Site, Origin or both.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site == "same-origin":
        return None
    try:
        page_host = "" if origin is None else urlsplit(origin).netloc
    except ValueError:
        page_host = ""
    # A page of another site cannot choose the header Origin. A page of another site can send X-Forwarded-Host only
    # after a CORS preflight.
    hosts = [each for each in (request.headers.get("host"), public_address(request.scope).host) if each is not None]
    if site is not None or not page_host:
        return "this form was not sent by a page of this service"
    if page_host in hosts:
        return None
    # over http, browsers send no Sec-Fetch-Site, and a proxy may replace the Host header
    return (
        f"this form is of a page of {_shown(page_host)}, and the call names the Host {_shown(' and '.join(hosts))}. "
        "If a proxy stands between the browser and this service, have it pass on the browser's Host "
        "(nginx: `proxy_set_header Host $http_host;`) or tell it as X-Forwarded-Host from an address of "
        "forwarded.allow.ips"
    )


def _shown(host: str) -> str:
    return one_line(host[:_LONGEST_HOST]) or "of nobody"


def safe_next(address: str | None) -> str:
    """The address to open after a login: `address` if it is a page below /ui, otherwise the list of groups."""
    if address is None or len(address) > _LONGEST_ADDRESS or not _BELOW_PAGE.fullmatch(address):
        return HOME
    return HOME if _NOT_NEXT.search(address) else address


def begin_session(request: Request, response: Response, token: bytes) -> None:
    # behind a proxy that terminates TLS, only the Origin header shows that the browser uses https
    is_secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    path = _cookie_path(request)
    value = cookie_value(token)
    response.set_cookie(SESSION_COOKIE, value, path=path, secure=is_secure, httponly=True, samesite="strict")


def end_session(request: Request, response: Response) -> None:
    """Delete the session's cookie. Call `end_session` only for requests directly below /ui, such as /ui/logout. For
    requests directly below /ui, the cookie's path is the same as at the login.
    """
    path = _cookie_path(request)
    response.set_cookie(SESSION_COOKIE, max_age=0, expires=0, path=path, httponly=True, samesite="strict")


def _cookie_path(request: Request) -> str | None:
    """Returns the path of the session's cookie. If the result is None, the browser uses the directory of the requested
    address as the path. The directory of the requested address is /ui, below a proxy's prefix if there is one.
    """
    prefix = public_address(request.scope).prefix
    return f"{prefix}{PAGE}" if prefix else None
