"""The service itself: `/` and `/version` (what answers here), `/livez`, `/readyz`, `/metrics` (whether it is well)."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from coordinator_api.http.call_rights import PAGE
from coordinator_api.http.dependencies import TheCoordinator, answer, named_router, problems
from coordinator_api.http.models.service_models import Health, Readiness, ServiceAnswer, VersionAnswer
from coordinator_api.http.problems import Problem
from coordinator_api.http.proxies import public_address, reference
from coordinator_api.metrics import CONTENT_TYPE
from coordinator_api.runtime.store_access import SCRAPE_WITHIN_S

router = named_router(responses=problems())

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
    tags=["service"],
    responses={200: {"model": ServiceAnswer}, 303: {"description": "The page for people, for `Accept: text/html`."}},
)
async def service(request: Request) -> Response:
    """What this is and where to go. Who asks for `text/html` is sent to the page for people."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(reference(request.scope, f"{PAGE}/groups"), 303, headers={"Vary": "Accept"})
    prefix = public_address(request.scope).prefix
    links = {name: prefix + path for name, path in _LINKS.items()}
    about = answer(ServiceAnswer(service="assignor coordinator", what=_WHAT, release=version("assignor"), links=links))
    about.headers["Vary"] = "Accept"
    return about


@router.get("/version", tags=["service"])
async def show_version() -> VersionAnswer:
    """Which release this is, which versions of the calls it answers, and which Kafka Streams it equals."""
    return VersionAnswer(version=version("assignor"), api_versions=list(API_VERSIONS), kafka_version=KAFKA_VERSION)


@router.get("/livez", tags=["health"])
async def livez() -> Health:
    """The process answers."""
    return Health(status="ok")


@router.get("/readyz", tags=["health"])
async def readyz(coordinator: TheCoordinator) -> Readiness:
    """503 while the service stops, or its store does not take a write and give it back within 2 s.

    `parts`: what is well and what is not; `groups` says whether some have a log that cannot be read. The service
    leads the others, so that it is ready all the same. On PostgreSQL `lease` says whether it may answer for its groups:
    503 while it has not renewed its lease in time.
    """
    # health checks are open to everybody: neither which groups, nor how many
    groups = "some cannot be read" if coordinator.unreadable else "ok"
    parts = {"store": await coordinator.store.problem() or "ok", "groups": groups}
    if coordinator.lease.is_shared:
        parts["lease"] = coordinator.lease.problem() or "ok"
    for part in ("store", "lease"):
        if parts.get(part, "ok") != "ok":
            raise Problem(
                "COORDINATOR_NOT_AVAILABLE", f"the {part} is not well: {parts[part]}", extensions={"parts": parts}
            )
    return Readiness(status="ok", parts=parts)


@router.get(
    "/metrics",
    tags=["health"],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(coordinator: TheCoordinator) -> Response:
    """The service's metrics in Prometheus' text format. It waits half a second for a store that does not answer."""
    coordinator.metrics.store_ready.set(await coordinator.store.problem(SCRAPE_WITHIN_S) is None)
    return Response(coordinator.metrics.exposition(), media_type=CONTENT_TYPE)
