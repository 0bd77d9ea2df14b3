"""The calls about the service itself. `/` and `/version` return the name and release of the service. `/livez`,
`/readyz` and `/metrics` show the health of the service.
"""

from importlib.metadata import version

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from assignor.configs.kafka_versions import EQUAL_RELEASES
from coordinator_api.http.call_rights import PAGE
from coordinator_api.http.dependencies import TheCoordinator, answer, named_router, problems
from coordinator_api.http.models.service_models import Health, Readiness, ServiceAnswer, VersionAnswer
from coordinator_api.http.problems import Problem
from coordinator_api.http.proxies import public_address, reference
from coordinator_api.metrics import CONTENT_TYPE
from coordinator_api.runtime.store_access import SCRAPE_WITHIN_S

router = named_router(responses=problems())

API_VERSIONS = ("v1",)
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
    """Returns the name of this service and its main addresses. A request that accepts `text/html` is redirected to the
    web page.
    """
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(reference(request.scope, f"{PAGE}/groups"), 303, headers={"Vary": "Accept"})
    prefix = public_address(request.scope).prefix
    links = {name: prefix + path for name, path in _LINKS.items()}
    about = answer(ServiceAnswer(service="assignor coordinator", what=_WHAT, release=version("assignor"), links=links))
    about.headers["Vary"] = "Accept"
    return about


@router.get("/version", tags=["service"])
async def show_version() -> VersionAnswer:
    """Shows the release of this service, its API versions, and the Kafka Streams releases that compute the same
    assignments.
    """
    return VersionAnswer(version=version("assignor"), api_versions=list(API_VERSIONS), kafka_version=EQUAL_RELEASES)


@router.get("/livez", tags=["health"])
async def livez() -> Health:
    """Answers 200 while the process can answer calls."""
    return Health(status="ok")


@router.get("/readyz", tags=["health"])
async def readyz(coordinator: TheCoordinator) -> Readiness:
    """Show whether the service can answer calls. The status is 503 while the service is stopping, or if a test write to
    the store fails or takes longer than 2 s.

    `parts`: the status of each part of the service. The part `groups` shows whether some groups have unreadable logs.
    An unreadable log does not make the service unready, because the service still leads all other groups. On
    PostgreSQL, the part `lease` shows whether the coordinator's lease is valid. The status is 503 while the lease is
    not valid.
    """
    # health checks need no token, so their answers must not reveal the ids or the number of groups
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
    """Returns metrics in Prometheus' text format. The call waits up to half a second for a check of the store."""
    coordinator.metrics.store_ready.set(await coordinator.store.problem(SCRAPE_WITHIN_S) is None)
    return Response(coordinator.metrics.exposition(), media_type=CONTENT_TYPE)
