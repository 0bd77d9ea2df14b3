"""Renders problem documents as web pages, which show the error and advice. A caller that is not a browser gets the
problem document itself.
"""

from html import escape
from urllib.parse import quote, urlsplit

from fastapi import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from coordinator_api.http.call_rights import LOGIN, PAGE, is_page, token_of_cookie
from coordinator_api.http.problems import TITLES, Problem
from coordinator_api.http.proxies import public_address, raw_path, reference
from coordinator_api.web.rendering import PAGE_HEADERS, page
from coordinator_api.web.sessions import HOME

_ADVICE = {
    "GROUP_ID_NOT_FOUND": "Check the name. The list of groups has all that your token may see.",
    "INVALID_GROUP_ID": "Check the address. The list of groups leads to each of them.",
    "RESOURCE_NOT_FOUND": "Check the address, or go on from the list of groups.",
    "GROUP_AUTHORIZATION_FAILED": "Ask for a token with this right and for this group, and log in with it.",
    "CLUSTER_AUTHORIZATION_FAILED": "If a proxy is named above, change the proxy. If the form was "
    "sent from this page, load the page again. If a right is missing, log in with a token that has it.",
    "NOT_COORDINATOR": "This coordinator only shows the group. Steer it where it is led.",
    "THROTTLING_QUOTA_EXCEEDED": "The service is busy. Wait a few seconds, then load the page again.",
    "KAFKA_STORAGE_ERROR": "The change does not count. Look at the database, then try again.",
    "COORDINATOR_NOT_AVAILABLE": "The service is stopping or its store is not well. Load the page again in a moment; "
    "members keep the tasks they have meanwhile.",
    "UNKNOWN_SERVER_ERROR": "Look for the incident in the service's log, and report it.",
}

_BOUNCE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={}">'
    + ("<title>assignor</title></head><body></body></html>")
)


def problem_page(scope: Scope, problem: Problem) -> Response | None:
    """Renders a problem as a page, or redirects to the login. Returns None if the caller is not a browser, or if the
    request is not for a page.
    """
    path, request = scope["path"], Request(scope)
    is_browser = "text/html" in request.headers.get("accept", "") or "hx-request" in request.headers
    if not is_browser:
        return None
    if path == "/" and problem.status == 401:
        return RedirectResponse(reference(scope, HOME), 303, headers={"Vary": "Accept"})
    if not is_page(path) or path.startswith(f"{PAGE}/static/"):
        return None
    if "Location" in problem.headers:
        if "hx-request" not in request.headers:
            return None
        # Another coordinator owns this group. Scripts may not fetch from the origin of the other coordinator, so the
        # browser has to load the whole page from there.
        return Response(status_code=204, headers={**PAGE_HEADERS, "HX-Redirect": problem.headers["Location"]})
    if problem.status == 401 and path != LOGIN:
        response = _login(request)
    else:
        advice = _ADVICE.get(problem.code, "Go back, change what is named, and try again.")
        title = TITLES[problem.code][1]
        response = page(request, "problem", status=problem.status, problem=problem, title=title, advice=advice)
    for name in ("Connection", "Retry-After", "Allow"):
        if name in problem.headers:
            response.headers[name] = problem.headers[name]
    return response


def _login(request: Request) -> Response:
    """Redirects an unknown caller to the login page. After the login, the browser is redirected to the requested
    page.
    """
    has_session = token_of_cookie(request.headers) is not None
    site = request.headers.get("sec-fetch-site", "none")
    if "hx-request" in request.headers:
        shown = urlsplit(request.headers.get("hx-current-url", ""))
        login = _login_for(request, _page_path(request, shown.path), shown.query)
        response = Response(status_code=401, headers={**PAGE_HEADERS, "HX-Redirect": login})
    elif request.method == "GET" and site in ("cross-site", "same-site") and not has_session:
        # The user followed a link on another site, so the browser has not sent the cookie. The browser sends the cookie
        # when this page loads its own address again.
        here = escape(_here(request), quote=True)
        response = Response(_BOUNCE.format(here), 401, headers=PAGE_HEADERS, media_type="text/html")
    else:
        path = request.url.path if request.method == "GET" else HOME
        response = RedirectResponse(_login_for(request, path, request.url.query), 303, headers=PAGE_HEADERS)
    return response


def _page_path(request: Request, shown: str) -> str:
    """The path of the page that the browser shows, without the prefix of a proxy."""
    path = shown.removeprefix(public_address(request.scope).prefix)
    return path[max(path.find(f"{PAGE}/"), 0) :]


def _here(request: Request) -> str:
    here = quote(raw_path(request.scope), safe="/%:@!$&'()*+,;=~")
    return reference(request.scope, here) + (f"?{request.url.query}" if request.url.query else "")


def _login_for(request: Request, path: str, query: str) -> str:
    login = reference(request.scope, LOGIN)
    return f"{login}?next={quote(f'{path}?{query}' if query else path, safe='')}"
