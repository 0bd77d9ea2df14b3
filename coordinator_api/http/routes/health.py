"""`/livez`: the process answers. `/readyz`: its store takes a write and gives it back, too. `/metrics`."""

from __future__ import annotations

from fastapi import Response

from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.groups.store_access import SCRAPE_WITHIN_S
from coordinator_api.http.dependencies import TheCoordinator, checked_router, problems
from coordinator_api.http.models.service import Health, Readiness
from coordinator_api.http.problems import Problem
from coordinator_api.metrics import CONTENT_TYPE

router = checked_router(tags=["health"], responses=problems())


@router.get("/livez")
async def livez() -> Health:
    """The process answers."""
    return Health(status="ok")


@router.get("/readyz")
async def readyz(coordinator: TheCoordinator) -> Readiness:
    """503 while the service stops, or its store does not take a write and give it back within 2 s.

    `parts`: what is well and what is not; `groups` says whether some have a log that cannot be read. The service
    leads the others, so that it is ready all the same. On PostgreSQL `lease` says whether it may answer for its groups:
    503 while it has not renewed its lease in time.
    """
    parts = {"store": await coordinator.store.problem() or "ok", "groups": _groups(coordinator)}
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
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(coordinator: TheCoordinator) -> Response:
    """The service's metrics in Prometheus' text format. It waits half a second for a store that does not answer."""
    coordinator.metrics.store_ready.set(await coordinator.store.problem(SCRAPE_WITHIN_S) is None)
    return Response(coordinator.metrics.exposition(), media_type=CONTENT_TYPE)


def _groups(coordinator: Coordinator) -> str:
    """Health checks are open to everybody: neither which, nor how many."""
    return "some cannot be read" if coordinator.unreadable else "ok"
