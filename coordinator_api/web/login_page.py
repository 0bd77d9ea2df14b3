"""`/ui/login`, `/ui/logout`: stores a token from a form in a cookie, and deletes the cookie.

Each login takes the same time, whether or not its token is valid. The time of an answer therefore does not reveal how
many characters of a token are right. Only a few logins run at one time. The audit log has a line for each login. No log
contains the token.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Request
from starlette.responses import Response

from coordinator_api.http.audit import note_caller
from coordinator_api.http.auth import Access
from coordinator_api.http.call_rights import caller_of, cookie_value, token_of_cookie
from coordinator_api.http.dependencies import named_router
from coordinator_api.http.problems import Problem
from coordinator_api.runtime.admission import Admission
from coordinator_api.web.rendering import page, see_other
from coordinator_api.web.sessions import HOME, begin_session, checked_form, end_session, safe_next
from coordinator_client.access.principals import Principal

router = named_router(include_in_schema=False)

TRY_S = 0.3
"""The shortest duration of a login, in seconds."""

TRIES_AT_ONE_TIME = 32
LONGEST_COOKIE = 3_800
"""The longest cookie value that browsers store."""

Form = Annotated[Mapping[str, str], Depends(checked_form)]

_tries = Admission(TRIES_AT_ONE_TIME, "logins at one time")


@router.get("/ui/login")
async def show_login(request: Request, next: str | None = None) -> Response:
    """Shows the login form. If the caller has a valid session, or if the service has no tokens, redirects the caller to
    the requested page.
    """
    access: Access = request.app.state.access
    has_session = token_of_cookie(request.headers) is not None
    is_known = has_session and _caller(access, request, {"cookie": request.headers["cookie"]}) is not None
    if access.credentials.is_empty or is_known:
        return see_other(request, safe_next(next))
    response = page(request, "login", next=safe_next(next), wrong=None)
    if has_session:
        end_session(request, response)
    return response


@router.post("/ui/login")
async def log_in(request: Request, form: Form) -> Response:
    """Stores a valid token in a cookie, and redirects to a page. For an invalid token, shows the form again with status
    401.
    """
    access: Access = request.app.state.access
    going_on = safe_next(form.get("next"))
    if access.credentials.is_empty:
        return see_other(request, going_on)
    ends_s = asyncio.get_running_loop().time() + TRY_S
    with _tries.one():
        token = form.get("token", "").strip().encode("utf-8")
        principal = _caller(access, request, {"authorization": f"Bearer {token.decode('latin-1')}"} if token else {})
        await asyncio.sleep(ends_s - asyncio.get_running_loop().time())
    note_caller(request, principal)
    wrong = None
    if principal is None:
        wrong = "This token is not known here, or has expired." if token else "Enter a token."
    elif len(cookie_value(token)) > LONGEST_COOKIE:
        wrong = "This token is too long for a browser to keep: use one that `assignor tokens create` makes."
    if wrong is not None:
        return page(request, "login", status=401, next=going_on, wrong=wrong)
    response = see_other(request, going_on)
    begin_session(request, response, token)
    return response


@router.post("/ui/logout")
async def log_out(request: Request, form: Form) -> Response:
    """Delete the cookie with the token."""
    response = see_other(request, HOME)
    end_session(request, response)
    return response


def _caller(access: Access, request: Request, shown: Mapping[str, str]) -> Principal | None:
    """The caller that these headers identify; None if the caller is unknown."""
    try:
        return caller_of(HOME, {"host": request.headers.get("host", ""), **shown}, access.credentials)
    except Problem:
        return None
