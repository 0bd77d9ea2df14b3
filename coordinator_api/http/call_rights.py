"""Finds the caller of a request by its token, and the right that the call needs.

`RequestGuard` checks the right before it reads a body. The table `ENDPOINTS` has all calls except the health checks. A
call that is not in the table `ENDPOINTS` gets status 404 or 405. `docs/how-to/protect-the-coordinator.md` has the same
table for readers, and a test tries each of its cells.

The addresses below /ui belong to the web page. A new version of the page may change these addresses. A browser sends
its token in a cookie. The service accepts the cookie only below /ui, so a web page of another site cannot make a
browser send a call below /v1.
"""

import base64
from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import Request, cookie_parser
from starlette.routing import Match
from starlette.types import Scope

from coordinator_api.http.problems import Problem
from coordinator_client.access.credentials import Credentials
from coordinator_client.access.principals import ANYBODY, AccessRefusal, Need, Principal, Right, caller

OPEN_PATHS = frozenset({"/livez", "/readyz"})
"""The health checks, which need no token."""

PRINCIPAL = "principal"
"""The key in a request's `state` for the request's caller."""

CALL = "call"
"""The key in a request's `state` for the `Call` that `RequestGuard` found. The value is None if the guard found no
call.
"""

PAGE = "/ui"
LOGIN = "/ui/login"
SESSION_COOKIE = "assignor_session"

VISITOR = Principal("a visitor", Right.READER, group_prefix="/")
"""The principal of a caller that logs in and has no token yet. The principal `VISITOR` sees no group, because its group
prefix is a slash, and no group id begins with a slash.
"""


class Endpoint(NamedTuple):
    """A call in the table of calls. `route`: the pattern of the call's path, as in FastAPI. `right`: the lowest right
    that allows the call. `audited`: False to leave the call out of the audit log. The audit log always leaves out a
    GET. `body_limit`: the setting that limits the size of the call's body; None for the default of the HTTP method.
    `all_groups`: True if the caller needs a right for all groups, because the answer shows the groups of every tenant.
    """

    method: str
    route: str
    right: Right
    audited: bool = True
    body_limit: str | None = None
    all_groups: bool = False

    @property
    def is_audited(self) -> bool:
        return self.audited and self.method != "GET"


_HEARTBEAT = "heartbeat.max.bytes"

ENDPOINTS = (
    Endpoint("GET", "/", Right.READER),
    Endpoint("GET", "/version", Right.READER),
    Endpoint("GET", "/docs", Right.READER),
    Endpoint("GET", "/redoc", Right.READER),
    Endpoint("GET", "/openapi.json", Right.READER),
    Endpoint("GET", "/metrics", Right.READER, all_groups=True),
    Endpoint("POST", "/v1/assign", Right.READER, audited=False),
    Endpoint("POST", "/v1/simulate", Right.READER, audited=False),
    Endpoint("GET", "/v1/groups", Right.READER),
    Endpoint("GET", "/v1/groups/{group}", Right.READER),
    Endpoint("GET", "/v1/groups/{group}/flow", Right.READER),
    Endpoint("GET", "/v1/groups/{group}/scale", Right.READER),
    Endpoint("GET", "/v1/groups/{group}/rebalances", Right.READER),
    Endpoint("GET", "/v1/groups/{group}/rebalances/{generation}", Right.READER),
    Endpoint("GET", "/v1/groups/{group}/rebalances/{generation}/explain", Right.READER),
    Endpoint("PUT", "/v1/groups/{group}", Right.MEMBER),
    Endpoint("POST", "/v1/groups/{group}/rebalances", Right.MEMBER),
    Endpoint("POST", "/v1/groups/{group}/subscriptions", Right.MEMBER, body_limit="subscription.max.bytes"),
    # not audited: heartbeats are very frequent, and change no membership
    Endpoint(
        "POST", "/v1/groups/{group}/heartbeat", Right.MEMBER, audited=False, body_limit="process.heartbeat.max.bytes"
    ),
    Endpoint(
        "POST", "/v1/groups/{group}/members/{member}/heartbeat", Right.MEMBER, audited=False, body_limit=_HEARTBEAT
    ),
    Endpoint("GET", "/v1/groups/{group}/members/{member}/assignment", Right.MEMBER),
    Endpoint("DELETE", "/v1/groups/{group}/members/{member}", Right.MEMBER, body_limit=_HEARTBEAT),
    Endpoint("POST", "/v1/groups/{group}/drain", Right.OPERATOR),
    Endpoint("GET", "/v1/groups/{group}/drain", Right.READER),
    Endpoint("DELETE", "/v1/groups/{group}/drain", Right.OPERATOR),
    Endpoint("PUT", "/v1/groups/{group}/promotion", Right.OPERATOR),
    Endpoint("DELETE", "/v1/groups/{group}/promotion", Right.OPERATOR),
    Endpoint("POST", "/v1/groups/{group}/rebalance", Right.OPERATOR),
    Endpoint("GET", "/v1/groups/{group}/hold", Right.READER),
    Endpoint("PUT", "/v1/groups/{group}/hold", Right.OPERATOR),
    Endpoint("DELETE", "/v1/groups/{group}/hold", Right.OPERATOR),
    Endpoint("POST", "/v1/groups/{group}/approve", Right.OPERATOR),
    Endpoint("POST", "/v1/groups/{group}/discard", Right.OPERATOR),
    Endpoint("POST", "/v1/groups/{group}/pause", Right.OPERATOR),
    Endpoint("POST", "/v1/groups/{group}/resume", Right.OPERATOR),
    Endpoint("PUT", "/v1/groups/{group}/rejoin-grace", Right.OPERATOR),
    Endpoint("DELETE", "/v1/groups/{group}/rejoin-grace", Right.OPERATOR),
    Endpoint("DELETE", "/v1/groups/{group}", Right.OPERATOR),
    Endpoint("GET", "/v1/groups/{group}/log", Right.OPERATOR),
    Endpoint("POST", "/v1/groups/{group}/repair", Right.OPERATOR),
    Endpoint("GET", "/v1/tokens", Right.ADMIN),
    Endpoint("POST", "/v1/tokens", Right.ADMIN),
    Endpoint("DELETE", "/v1/tokens/{name}", Right.ADMIN),
    Endpoint("GET", "/ui", Right.READER),
    Endpoint("GET", "/ui/login", Right.READER),
    Endpoint("POST", "/ui/login", Right.READER),
    Endpoint("POST", "/ui/logout", Right.READER),
    Endpoint("GET", "/ui/static/{digest}/{file}", Right.READER),
    Endpoint("GET", "/ui/events", Right.READER),
    Endpoint("GET", "/ui/groups", Right.READER),
    Endpoint("GET", "/ui/groups.json", Right.READER),
    Endpoint("GET", "/ui/groups/{group}", Right.READER),
    Endpoint("GET", "/ui/groups/{group}/events", Right.READER),
    Endpoint("GET", "/ui/groups/{group}/time", Right.READER),
    Endpoint("GET", "/ui/groups/{group}/time/events", Right.READER),
    Endpoint("GET", "/ui/groups/{group}/what-if", Right.READER),
    Endpoint("GET", "/ui/groups/{group}/grid.json", Right.READER),
    Endpoint("GET", "/ui/groups/{group}/levers", Right.READER),
    Endpoint("POST", "/ui/groups/{group}/levers", Right.OPERATOR),
    Endpoint("GET", "/ui/groups/{group}/tasks/{task}", Right.READER),
    Endpoint("GET", "/ui/groups/{group}/topology", Right.READER),
    # needs the right of an operator, because a store contains the application's own data
    Endpoint("GET", "/ui/groups/{group}/stores", Right.OPERATOR),
)


class Call(NamedTuple):
    """The call that a request makes: an entry of the table of calls, and the values of its path parameters by name."""

    endpoint: Endpoint
    parameters: Mapping[str, str]


_ENDPOINT_OF = {(endpoint.method, endpoint.route): endpoint for endpoint in ENDPOINTS}


def call_of(scope: Scope) -> Call | None:
    """Returns the call that this request makes; None if the table of calls does not contain it. FastAPI finds the route
    of a request by the same comparisons. `RequestGuard` therefore checks the right for exactly the call that FastAPI
    then runs.
    """
    for route in scope["app"].routes:
        match, found = route.matches(scope)
        if match is Match.FULL:
            endpoint = _ENDPOINT_OF.get((scope["method"], route.path))
            return None if endpoint is None else Call(endpoint, found["path_params"])
    return None


def is_page(path: str) -> bool:
    return path == PAGE or path.startswith(PAGE + "/")


def caller_of(path: str, headers: Mapping[str, str], credentials: Credentials) -> Principal:
    """Finds the caller of a request, without checking its right. The names of `headers` are in lower case. Raises
    Problem 401 or 403 if the caller is unknown.
    """
    if path in OPEN_PATHS:
        return ANYBODY
    if is_page(path):
        # a browser loads the login page and its static files before it has a token
        is_open = path == LOGIN or (path.startswith("/ui/static/") and path.count("/") == 4)
        if is_open and not credentials.is_empty:
            return VISITOR
        headers = with_session(headers)
    found = caller(None if credentials.is_empty else credentials.find, headers)
    if isinstance(found, AccessRefusal):
        if found.challenge is None:
            raise Problem("CLUSTER_AUTHORIZATION_FAILED", found.detail)
        raise Problem("SASL_AUTHENTICATION_FAILED", found.detail, headers={"WWW-Authenticate": found.challenge})
    return found


def forbidden(asked: Need, why: str) -> Problem:
    code = "CLUSTER_AUTHORIZATION_FAILED" if asked.group_id is None else "GROUP_AUTHORIZATION_FAILED"
    return Problem(code, why)


def need(call: Call | None, path: str) -> Need:
    """Returns the right that this call needs, and the group to which the right has to apply. `path`: the decoded path,
    without the query.
    """
    if call is not None:
        return Need(call.endpoint.right, call.parameters.get("group"), call.endpoint.all_groups)
    segments = path.split("/")
    # the address or method does not exist, but the answer must not reveal which groups exist
    in_group = segments[:3] in (["", "v1", "groups"], ["", "ui", "groups"]) and len(segments) > 3
    return Need(Right.READER, segments[3] if in_group else None)


def principal_of(request: Request) -> Principal:
    """Returns the principal that `RequestGuard` has set for this request; ANYBODY if `RequestGuard` has set none."""
    principal: Principal = request.scope.get("state", {}).get(PRINCIPAL, ANYBODY)
    return principal


def cookie_value(token: bytes) -> str:
    """Encodes a token for a cookie, because a token may contain bytes that are not allowed in a cookie."""
    return base64.urlsafe_b64encode(token).decode("ascii").rstrip("=")


def token_of_cookie(headers: Mapping[str, str]) -> bytes | None:
    """Returns the token in a browser's session cookie; None if there is no session cookie. The names of `headers` are
    in lower
    case.
    """
    value = cookie_parser(headers.get("cookie", "")).get(SESSION_COOKIE, "")
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True) or None
    except ValueError:
        return None


def with_session(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the headers of a request to the page. If the request has no Authorization header, adds one with the token
    from the session cookie.
    """
    token = None if "authorization" in headers else token_of_cookie(headers)
    if token is None:
        return headers
    return {**headers, "authorization": f"Bearer {token.decode('latin-1')}"}
