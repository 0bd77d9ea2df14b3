"""`POST /v1/assign`: one recorded rebalance or placement problem in, its output out; nothing is kept."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from coordinator_api.http.routes.computed import computed
from coordinator_api.http.routes.surface import PROBLEMS, TheCoordinator
from coordinator_api.http.schemas import AssignAnswer
from coordinator_api.http.stateless import assign

router = APIRouter(prefix="/v1", tags=["stateless"], responses=PROBLEMS)

RECORDED_DOCUMENT = {
    "requestBody": {
        "required": True,
        "description": "One rebalance/1 or placement/1 object.",
        "content": {"application/json": {"schema": {"type": "object", "required": ["format", "id"]}}},
    }
}


@router.post("/assign", response_model=AssignAnswer, openapi_extra=RECORDED_DOCUMENT)
async def assign_once(request: Request, coordinator: TheCoordinator) -> Response:
    """What Kafka's leader would decide."""
    return await computed(request, coordinator, assign)
