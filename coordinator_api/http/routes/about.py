"""`/`: what answers here, and where to go. `/version`: which release, which calls, and which Kafka it equals."""

from __future__ import annotations

from html import escape
from importlib.metadata import version

from fastapi import APIRouter, Request, Response

from coordinator_api.http.routes.surface import json_response, problems
from coordinator_api.http.schemas import ServiceAnswer, VersionAnswer

router = APIRouter(tags=["service"], responses=problems())

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
_WHERE = {
    "/docs": "every call, with its parameters and examples, to try out",
    "/openapi.json": "the same for programs",
    "/v1/groups": "the groups of this service",
    "/metrics": "metrics in Prometheus' text format",
    "/livez": "the process answers",
    "/readyz": "its store answers, too",
    "/version": "release, versions of the calls, and the Kafka that it equals",
}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept",
}


@router.get(
    "/",
    responses={200: {"model": ServiceAnswer, "content": {"text/html": {"schema": {"type": "string"}}}}},
)
async def service(request: Request) -> Response:
    """What this is and where to go: a page for `Accept: text/html`, else JSON."""
    if "text/html" in request.headers.get("accept", ""):
        return Response(_page(), media_type="text/html", headers=_PAGE_HEADERS)
    answer = json_response({"service": "assignor coordinator", "what": _WHAT, "release": _release(), "links": _LINKS})
    answer.headers["Vary"] = "Accept"
    return answer


@router.get("/version", responses={200: {"model": VersionAnswer}})
async def show_version() -> Response:
    """Which release this is, which versions of the calls it answers, and which Kafka Streams it equals."""
    return json_response({"version": _release(), "api_versions": list(API_VERSIONS), "kafka_version": KAFKA_VERSION})


def _release() -> str:
    return version("assignor")


def _page() -> str:
    rows = "".join(f'<li><a href="{path}">{path}</a>: {escape(what)}</li>' for path, what in _WHERE.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>assignor coordinator</title>'
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}</style></head>"
        f"<body><h1>assignor coordinator</h1><p>{escape(_WHAT)} Release {escape(_release())}, equal to Kafka Streams "
        f"{KAFKA_VERSION}.</p><ul>{rows}</ul><p>From a shell: <code>assignor groups list</code>.</p></body></html>\n"
    )
