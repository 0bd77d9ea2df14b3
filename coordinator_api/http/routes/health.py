"""`/livez`: the process answers. `/readyz`: its store answers, too, and every group has been replayed. `/metrics`."""

from __future__ import annotations

from fastapi import APIRouter, Response

from coordinator_api.http.problems import Problem
from coordinator_api.http.routes.surface import TheCoordinator, problems
from coordinator_api.http.schemas import Health
from coordinator_api.metrics import CONTENT_TYPE
from coordinator_api.store.errors import StoreError

router = APIRouter(tags=["health"], responses=problems())


@router.get("/livez")
async def livez() -> Health:
    """The process answers."""
    return Health(status="ok")


@router.get("/readyz")
async def readyz(coordinator: TheCoordinator) -> Health:
    """503 while the service stops or cannot reach its store."""
    try:
        await coordinator.repository.check()
    except StoreError as error:
        raise Problem("COORDINATOR_NOT_AVAILABLE", str(error)) from None
    return Health(status="ok")


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(coordinator: TheCoordinator) -> Response:
    """The service's metrics in Prometheus' text format."""
    return Response(coordinator.metrics.exposition(), media_type=CONTENT_TYPE)
