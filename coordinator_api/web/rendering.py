"""Renders templates as responses with the headers of all pages. An undefined name in a template is an error."""

import time
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import RedirectResponse, Response

from coordinator_api import views
from coordinator_api.group.health import HealthLevel
from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.other_coordinators import UNKNOWN
from coordinator_api.http.proxies import reference, way_to_root
from coordinator_api.web.sessions import form_token, may_steer
from coordinator_api.web.static_files import SECURITY_HEADERS, address_of
from coordinator_client.access.principals import ANYBODY
from rebalance_analysis.presentation.quantities import clock_duration, counted, lag_text, time_left_text, utc, utc_iso

PAGE_HEADERS: Mapping[str, str] = {**SECURITY_HEADERS, "Cache-Control": "no-store"}
"""The HTTP headers of pages that show data. With these headers, browsers and proxies do not cache the pages."""

Tone = Literal["good", "busy", "idle", "warn", "bad"]
"""The tone of a badge. Each tone has a shape: disc, half disc, ring, triangle, square."""


class Badge(NamedTuple):
    """The health of a group, or the level of a reason, shown as a word and a shape. Users can distinguish the levels
    without colours. `more`: a short explanation, which may be empty.
    """

    label: str
    tone: Tone
    more: str = ""


_LEVELS: Mapping[str, Badge] = {
    HealthLevel.OK: Badge("OK", "good"),
    HealthLevel.BUSY: Badge("Busy", "busy"),
    HealthLevel.DEGRADED: Badge("Degraded", "warn"),
    HealthLevel.BROKEN: Badge("Broken", "bad"),
}


def level_badge(level: str) -> Badge:
    """The badge of a level of health. A level that this release does not know is shown as a warning."""
    return _LEVELS.get(level, Badge(level, "warn"))


def health_badge(health: Any, state: str) -> Badge:
    """The badge of a group's health, with the group's state beside it. `health`: as a HealthAnswer, or as its JSON
    object; None if the coordinator of the group does not answer, or if it is of a release that knows no health.
    """
    if health is None:
        return Badge(state, "warn", "its coordinator does not answer") if state == UNKNOWN else Badge(state, "idle")
    level = health["level"] if isinstance(health, Mapping) else health.level
    return level_badge(level)._replace(more=f"state {state}")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("coordinator_api.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    of_quantities = (utc, utc_iso, clock_duration, counted, lag_text, time_left_text)
    of_reasons = (views.reason_places, views.all_places, level_badge, health_badge)
    of_views = (views.count, views.sentence, views.cause_of, views.outcome_of, views.hold_text, views.moves_of_held)
    for each in (*of_quantities, *of_views, views.missing_of_drain, *of_reasons):
        environment.filters[each.__name__] = each
    return environment


def wants_live_part(request: Request) -> bool:
    """Returns whether the request comes from an open page that needs only its live part."""
    return "hx-request" in request.headers and "hx-history-restore-request" not in request.headers


def page(request: Request, name: str, /, *, status: int = 200, **values: object) -> Response:
    """Renders the page `name`, or only its live part `NAME_live.html` if the request asks for the live part.

    Templates get `values`, and also:
    - `caller`: the caller's name; None if the service has no tokens.
    - `may_steer`: True if the caller may send operator commands.
    - `form_token`: the anti-CSRF token of the caller's forms.
    - `now_ms`: the time of the request.
    - `address`: the path and query of the request.
    - `root`: the relative reference to the root of the service. Links begin with `root`.
    - `static(NAME)`: a function that returns the address of a static file.
    """
    template = _environment().get_template(f"{name}_live.html" if wants_live_part(request) else f"{name}.html")
    principal, query = principal_of(request), request.url.query
    html = template.render(
        caller=None if principal is ANYBODY else principal.name,
        may_steer=may_steer(request),
        form_token=form_token(request),
        now_ms=time.time_ns() // 1_000_000,
        root=way_to_root(request.scope),
        static=lambda file: reference(request.scope, address_of(file)),
        address=f"{request.url.path}?{query}" if query else request.url.path,
        **values,
    )
    return Response(html, status, headers=PAGE_HEADERS, media_type="text/html")


def see_other(request: Request, address: str) -> Response:
    """Returns the answer to a form: a redirect of the browser to this address of the service."""
    return RedirectResponse(reference(request.scope, address), 303, headers=PAGE_HEADERS)
