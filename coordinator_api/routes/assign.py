"""`POST /v1/assign`: one recorded rebalance or placement problem in, its output out; nothing is kept."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from assignor.errors import DecodeError, InputError
from coordinator_api.bodies import read_document
from coordinator_api.problems import from_decode_error, from_input_error
from coordinator_api.routes.surface import PROBLEMS, TheCoordinator, json_response
from coordinator_api.schemas import AssignAnswer
from coordinator_api.stateless import Bounds, assign

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
    document = await read_document(request, lambda document: document)

    bounds = Bounds(coordinator.allowed_assignors, coordinator.settings.group_max_partitions)

    def run() -> Response:
        return json_response(assign(document, bounds))

    try:
        with coordinator.computations.one():
            return await asyncio.to_thread(run)
    except DecodeError as error:
        raise from_decode_error(error, "input.members") from None
    except InputError as error:
        raise from_input_error(error) from None
