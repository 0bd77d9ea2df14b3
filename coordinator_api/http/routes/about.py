"""`/`: what answers here, and where to go. `/version`: which release, which calls, and which Kafka it equals."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from coordinator_api.http.call_rights import PAGE
from coordinator_api.http.dependencies import answer, checked_router, problems
from coordinator_api.http.models.service import ServiceAnswer, VersionAnswer
from coordinator_api.http.proxies import public_address, reference

router = checked_router(tags=["service"], responses=problems())

API_VERSIONS = ("v1",)
KAFKA_VERSION = "4.3.1"
"""Assignments are those of this release of Kafka Streams."""

_WHAT = "The leader of Kafka Streams groups as a durable HTTP service."
_LINKS = {
    "documentation": "/docs",
    "openapi": "/openapi.json",
    "version": "/version",
    "groups": "/v1/groups",
    "metrics": "/metrics",
    "live": "/livez",
    "ready": "/readyz",
}


@router.get(
    "/",
    responses={200: {"model": ServiceAnswer}, 303: {"description": "The page for people, for `Accept: text/html`."}},
)
async def service(request: Request) -> Response:
    """What this is and where to go. Who asks for `text/html` is sent to the page for people."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(reference(request.scope, f"{PAGE}/groups"), 303, headers={"Vary": "Accept"})
    prefix = public_address(request.scope).prefix
    links = {name: prefix + path for name, path in _LINKS.items()}
    about = answer(ServiceAnswer(service="assignor coordinator", what=_WHAT, release=_release(), links=links))
    about.headers["Vary"] = "Accept"
    return about


@router.get("/version")
async def show_version() -> VersionAnswer:
    """Which release this is, which versions of the calls it answers, and which Kafka Streams it equals."""
    return VersionAnswer(version=_release(), api_versions=list(API_VERSIONS), kafka_version=KAFKA_VERSION)


def _release() -> str:
    return version("assignor")
